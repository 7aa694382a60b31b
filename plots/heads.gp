# heads.gp - max logit of every head: small multiples on common axes
# Data: $data, one block a run: step, then the max logit of each of the `panels` heads. runs of them, of group group_of[i].
# $deaths, a line a head of a run that died: step, max logit, panel, group; deaths of them, below dead_share of the start.
# Also: panel_name[h] of head h; order[p], the head of panel p; across (panels in a row); low, high, all_low, all_high, last_of_all, tau, tau_name, heading, about.
width = 1200
load plots."/style.gp"
if (narrow && across > 2) { across = across % 2 == 0 && across > 4 ? 4 : 2 }
down = (panels + across - 1) / across
set logscale y
bottom = log10(low / 1.1); top_y = log10(high * 1.1)
if (top_y < bottom + 0.5) { top_y = bottom + 0.5 }
y_low = 10**bottom; y_high = 10**top_y
legend = 1
panel_height = 172; body = panel_height * down + 36
has_tau = tau == tau && log10(tau) > bottom && log10(tau) < top_y
subtitle = sprintf("%s%s%s", most_seeds > 1 ? "A line for each ".one_is.": ".seeds_text : "Line: ".seeds_text, ".", dashes_text.(across > 4 && has_tau ? " Gray: ".tau_name."." : "").cut_text(y_low, y_high))
if (deaths > 0) { subtitle = subtitle.sprintf(" ×: a head of a run died, below %g of its start.", dead_share) }
load plots."/page.gp"
panel_height = (body - 36.0) / down
set yrange [y_low:y_high]
set xrange [0:last_of_all]

set multiplot
digits = strlen(sprintf("%d", int(last_of_all)))
left = 74; space = 16
panel_width = (width - 16.0 - 4 * digits - left - space * (across - 1)) / across
set format y decades_format; set mytics 10
decades = top_y - bottom
set ytics 10**(decades > 4 ? 2 : 1) font ",11"
label_format = decades_format
if (decades < 2) {
  label_format = "%g"; set ytics () font ",11"
  do for [e=-6:9] { do for [t in tics_of(decades)] { set ytics add (t * 10.0**e) } }
}
sparser = panel_width < 260 ? (panel_width < 140 ? 5 : 2) : 1
if (last_of_all / tic_of_steps(last_of_all) / sparser * (digits + 1) * 7 > panel_width) { sparser = 2 * sparser }  # labels would touch
eval axis_of_steps(last_of_all, sparser); set xtics font ",11"
inside(y) = clamp(y, y_low, y_high)
thin = most_seeds > 1 ? 0.8 : 1.5
do for [p=1:panels] {
  c = (p - 1) % across; r = (p - 1) / across
  set lmargin at screen x_of(left + (panel_width + space) * c)
  set rmargin at screen x_of(left + (panel_width + space) * c + panel_width)
  set tmargin at screen y_of(top + panel_height * r + 22)
  set bmargin at screen y_of(top + panel_height * (r + 1) - 20)
  h = int(order[p])
  set label 1 panel_name[h] at graph 0,1 offset 0,0.5 font ",11" tc rgb "#444444"   # above: curves would strike it through
  if (has_tau) {
    set arrow 1 from graph 0,first tau to graph 1,first tau nohead lc rgb "#AAAAAA" dt (8,6) lw 0.8 back
    if (p == 1 && across <= 4) { set label 2 tau_name at graph 1,graph 1 offset 0,0.5 right font ",11" tc rgb soft noenhanced }
  }
  if (c == 0) { set format y label_format } else { set format y "" }
  eval no_zero(c)
  if (p + across > panels) { set format x "%g" } else { set format x "" }
  plot for [i=1:runs] $data index i-1 using 1:(column(h+1)) with lines lw thin dt dash(group_of[i]) \
           lc rgb colour[group_of[i]] notitle, \
       for [i=1:runs] $data index i-1 using 1:(mark(column(h+1) > y_high, $1/last_of_all, y_high)) with points \
           pt 9 ps 0.6 lc rgb colour[group_of[i]] notitle, \
       for [i=1:runs] $data index i-1 using 1:(mark(column(h+1) < y_low, $1/last_of_all, y_low)) with points \
           pt 11 ps 0.6 lc rgb colour[group_of[i]] notitle, \
       for [d=1:deaths > 0] $deaths using 1:($3 == h ? inside($2) : NaN):(colour[int($4)]) with points pt 2 ps 0.9 lw 1.6 \
           lc rgb variable notitle
  if (p == 1) { unset label 2; load plots."/head_off.gp" }
}
unset label 1; unset arrow 1
set label 200 "training step" at screen x_of((left + width - 16) / 2.0),y_of(height - 13) center font ",12" tc rgb ink
set label 201 "max logit  (log scale)" at screen x_of(17),y_of(top + panel_height * down / 2.0) center rotate \
    font ",12" tc rgb ink
unset border; unset tics; unset grid; unset xlabel; unset ylabel
set lmargin at screen 0; set rmargin at screen 1; set tmargin at screen 1; set bmargin at screen 0
unset logscale y; set yrange [0:1]; set xrange [0:1]
plot NaN notitle
unset multiplot
set output
