# claim.gp - a claim of the ledger: each arm over the steps (where all arms have one series), every run's value
# Data: $curves, one block an arm: step n mean lo hi; $values, one block an arm: number value, a line a run; mean[a],
# mean_low[a], mean_high[a] (95 %). Also: has_curves; logarithmic (means are geometric); level (what one arm is held
# against; NaN: none); curve_low, curve_high, last_step, value_low, value_high; metric, curve_label.
log_y = int(logarithmic); drawn_curves = int(has_curves) && curve_high == curve_high
has_level = level == level
values_height = 90 + 34 * groups + (has_level ? 12 : 0)  # the level's label stands above
width = 620
load plots."/style.gp"
body = (drawn_curves ? 330 : 0) + values_height - 18
load plots."/page.gp"                              # no head: the page of the ledger has it
value_room = log_y ? 1.25 : (value_high > value_low ? 0.08 * (value_high - value_low) : value_high == 0 ? 1 : 0.1 * abs(value_high))

set multiplot
below = 1.0 * values_height / height               # the share of the figure that the values take
if (drawn_curves) {
  set lmargin at screen 0.13; set rmargin at screen 0.965
  set bmargin at screen below + 46.0 / height; set tmargin at screen 1 - 18.0 / height
  eval axis_of_steps(last_step, 1)
  if (log_y) {
    bottom = log10(curve_low / 1.3); top = log10(curve_high * 1.3)
    set logscale y; set yrange [10**bottom:10**top]
    if (top - bottom < 3.5) {
      set ytics ()
      do for [e=-9:12] { do for [t in tics_of(top - bottom)] { set ytics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
    } else { set format y "10^{%L}" }
    y_bottom = 10**bottom; y_top = 10**top
  } else {
    room = curve_high > curve_low ? 0.06 * (curve_high - curve_low) : curve_high == 0 ? 1 : 0.1 * abs(curve_high)
    y_bottom = curve_low - room; y_top = curve_high + room
    set yrange [y_bottom:y_top]; set format y "%g"
  }
  inside(y) = y == y ? clamp(y, y_bottom, y_top) : NaN
  set xlabel "training step" offset 0,0.5
  set ylabel curve_label offset 0.6,0 noenhanced font (strlen(curve_label) > 36 ? ",10" : "")
  plot for [g=1:groups] $curves index g-1 using 1:(foot($4, $5)):(inside($5)) with filledcurves fc rgb band(g) notitle, \
       for [g=1:groups] $curves index g-1 using 1:3 with lines lw 2 lc rgb colour[g] notitle, \
       for [g=1:groups] $curves index g-1 using 1:(mark($5 > y_top, $1/last_step, y_top)) with points pt 9 ps 0.6 lc rgb colour[g] notitle, \
       for [g=1:groups] $curves index g-1 using 1:(mark($4 < y_bottom, $1/last_step, y_bottom)) with points pt 11 ps 0.6 lc rgb colour[g] notitle
  unset logscale y; set format y; set ytics autofreq; unset xlabel; unset ylabel
}

# --- every run ------------------------------------------------------------------------------------------------
set lmargin at screen 0.36; set rmargin at screen 0.965
set bmargin at screen 62.0 / height; set tmargin at screen below - (has_level ? 22.0 : 10.0) / height
if (log_y) { set logscale x; set xrange [value_low/value_room:value_high*value_room]; set format x "%g" } \
else { set xrange [value_low-value_room:value_high+value_room]; set format x "%g" }
if (log_y) {
  set xtics ()
  do for [e=-9:12] { do for [t in tics_of(log10(value_high / value_low) + 0.2)] { set xtics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
} else { set xtics tic_step(0.75 * (value_high - value_low + 2 * value_room)) }  # three to seven
set yrange [groups+0.6:0.4]
unset ytics; set border 1
set xlabel metric.(log_y ? "  (log scale)" : "") offset 0,0.3 noenhanced
do for [g=1:groups] { set label 10+g name(g) at screen 0.345,first g right tc rgb ink font (strlen(name(g)) > 32 ? ",10" : ",12") noenhanced }
if (has_level) {
  set arrow 1 from first level,graph 0 to first level,graph 1 nohead lc rgb faint dt (8,6) lw 1 back
  set label 1 sprintf("%.4g", level) at first level,graph 1 offset 0,0.4 center tc rgb soft font ",11" noenhanced
}
array edge_low[groups]; array edge_high[groups]
x_low = log_y ? value_low / value_room : value_low - value_room; x_high = log_y ? value_high * value_room : value_high + value_room
do for [g=1:groups] {
  edge_low[g] = mean_low[g] == mean_low[g] ? clamp(mean_low[g], x_low, x_high) : mean[g]
  edge_high[g] = mean_high[g] == mean_high[g] ? clamp(mean_high[g], x_low, x_high) : mean[g]
}
# an interval that goes on beyond the axis ends in an arrow
do for [g=1:groups] {
  if (mean_high[g] > x_high) { set arrow 10+2*g from first mean[g],g - 0.08 to first x_high,g - 0.08 head filled size screen 0.018,20 lw 1.6 lc rgb colour[g]; edge_high[g] = mean[g] }
  if (mean_low[g] < x_low) { set arrow 11+2*g from first mean[g],g - 0.08 to first x_low,g - 0.08 head filled size screen 0.018,20 lw 1.6 lc rgb colour[g]; edge_low[g] = mean[g] }
}
plot for [g=1:groups] $values index g-1 using 2:($1 + 0.16) with points pt 6 ps 0.5 lc rgb colour[g] notitle, \
     for [g=1:groups] $values index g-1 every ::0::0 using (mean[g]):($1 - 0.08):(edge_low[g]):(edge_high[g]) \
         with xerrorbars pt 7 ps 0.8 lw 1.6 lc rgb colour[g] notitle
unset multiplot
set output
