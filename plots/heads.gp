# heads.gp - max logit of every head: small multiples on common axes
# Data: $data, one block a group: step n, then mean lo hi for each of the `panels` heads (geometric, 95 %).
# Also: panel_name[p]; across (panels in a row); low, high, last_of_all, tau, tau_name, heading, about.
down = (panels + across - 1) / across
panel_height = 150
width = 1200
load plots."/legend.gp"
top_edge = 112 + 18 * legend_lines
height = top_edge + 40 + panel_height * down
if (term ne "png" && term ne "svg") { rows = 3 + 13 * down }
load plots."/style.gp"

set logscale y
bottom = log10(low / 1.4); top = log10(high * 1.3)
if (top < bottom + 1) { top = bottom + 1 }
set yrange [10**bottom:10**top]
set xrange [0:last_of_all]

if (text_term) {
  marks = "*#$%@&="                                  # as the dumb terminal draws colours 1, 2, ...
  do for [g=1:groups] { heading = heading.sprintf("  %s %s", marks[g:g], name(g)) }
  set multiplot layout down,across title heading
  unset grid
  set format y "%g"; set xtics (0, last_of_all)
  do for [p=1:panels] {
    set title panel_name[p]
    plot for [g=1:groups] $data index g-1 using 1:(column(3*p)) with lines lc g notitle
  }
  unset multiplot
  exit
}

y_of(pixels) = 1 - pixels * 1.0 / height           # from the top edge
set multiplot
set label 100 "{/:Bold ".heading."}" at screen 0.035,y_of(32) font ",17" tc rgb ink
set label 101 sprintf("Line: %s%s", over_seeds("geometric mean"), \
    most_seeds > 1 ? "; band: 95 % interval (Student's t on logarithms)." : ".") \
    at screen 0.035,y_of(60) font ",12" tc rgb soft noenhanced
set label 102 about at screen 0.035,y_of(81) font ",12" tc rgb soft noenhanced
legend_top = 106; load plots."/legend.gp"    # one for all panels
left = 0.06; right = 0.985; space = 0.014
panel_width = (right - left - space * (across - 1)) / across
set format y "10^{%L}"; set mytics 10
decades = top - bottom
set ytics 10**(decades > 4 ? 2 : 1) font ",10"
label_format = "10^{%L}"
if (decades < 2) {
  label_format = "%g"; set ytics () font ",10"
  do for [e=-6:9] { do for [t in tics_of(decades)] { set ytics add (t * 10.0**e) } }
}
set xtics 0,tic_of_steps(last_of_all),0.95*last_of_all font ",10"
inside(y) = clamp(y, 10**bottom, 10**top)
do for [p=1:panels] {
  c = (p - 1) % across; r = (p - 1) / across
  set lmargin at screen left + (panel_width + space) * c
  set rmargin at screen left + (panel_width + space) * c + panel_width
  set tmargin at screen y_of(top_edge + panel_height * r)
  set bmargin at screen y_of(top_edge + panel_height * r + panel_height - 20)
  set label 1 panel_name[p] at graph 0.03,0.90 font ",11" tc rgb "#444444"
  if (tau == tau && log10(tau) > bottom && log10(tau) < top) {
    set arrow 1 from graph 0,first tau to graph 1,first tau nohead lc rgb "#AAAAAA" dt (8,6) lw 0.8 back
    if (p == 1) {
      set label 2 tau_name at graph 0.98,first tau offset 0,0.5 right font ",9" tc rgb faint noenhanced
    }
  }
  if (c == 0) { set format y label_format } else { set format y "" }
  if (p + across > panels) { set format x "%g" } else { set format x "" }
  plot for [g=1:groups] $data index g-1 using 1:(inside(column(3*p+1))):(inside(column(3*p+2))) \
           with filledcurves fc rgb band(g) notitle, \
       for [g=1:groups] $data index g-1 using 1:(column(3*p)) with lines lw 1.5 dt dash(g) lc rgb colour[g] \
           notitle
  if (p == 1) { unset label 2
                unset for [k=100:102] label k
                do for [g=1:groups] { unset label 50+g; unset arrow 50+g } }
}
unset label 1; unset arrow 1
set label 200 "training step" at screen (left + right) / 2,y_of(height - 14) center font ",12" tc rgb ink
set label 201 "max logit  (log scale)" at screen 0.014,y_of(top_edge + panel_height * down / 2.0) center rotate \
    font ",12" tc rgb ink
unset border; unset tics; unset grid; unset xlabel; unset ylabel
set lmargin at screen 0; set rmargin at screen 1; set tmargin at screen 1; set bmargin at screen 0
unset logscale y; set yrange [0:1]; set xrange [0:1]
plot NaN notitle
unset multiplot
set output
