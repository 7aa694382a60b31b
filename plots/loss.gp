# loss.gp - training loss, validation loss, and where each group ends
# Data: $train and $val, one block a group: step n mean lo hi; $final, one block a group: the last validation
# loss of every seed (no block content where there is none).
# Also: train_last[g] val_last[g], where each curve ends; final_mean[g] final_lo[g] final_hi[g]; low, high (of the axis of
# the curves), all_low, all_high (of all of them, the start included); final_low, final_high, final_all_low,
# final_all_high; log_y; last_of_all; loss_floor (NaN: not known); has_val; bin_steps; heading, about.
width = 1240
load plots."/style.gp"
log_y = int(log_y)
if (log_y) { y_low = low / 1.1; y_high = high * 1.1 } \
else { room = 0.07 * (high - low) + 1e-3 * abs(high) + 1e-9; y_low = low - room; y_high = high + room }
if (has_val) {
  room = final_high > final_low ? 0.08 * (final_high - final_low) + 1e-3 * abs(final_high) : 0.1 * abs(final_high)
  room = room + 1e-9                                 # one value alone is no change to be enlarged
  final_least = final_low - room; final_most = final_high + room
} else { final_least = -1e300; final_most = 1e300; final_all_low = 0.0; final_all_high = 0.0 }
is_cut = all_low < y_low || all_high > y_high || final_all_low < final_least || final_all_high > final_most
legend = narrow
each = narrow ? 240 : 430                            # of the panels, tics included
body = narrow && has_val ? 3 * each : each
subtitle = sprintf("Line: %s%s%s", over_seeds("mean"), most_seeds > 1 ? \
    "; band and bar: 95 % interval of the mean (Student's t); small dots: ".one_is."s." : "; dot: that ".one_is.".", \
    dashes_text.(is_cut ? marks_text : ""))
load plots."/page.gp"
each = narrow && has_val ? body / 3.0 : body
set xrange [0:last_of_all]
if (log_y) { set logscale y; set format y high / low > 3000 ? decades_format : "%g" }

set multiplot
set xlabel "training step" offset 0,0.4; set format x "%g"
set yrange [y_low:y_high]
eval axis_of_steps(last_of_all, 1)
inside(y) = clamp(y, y_low, y_high)
if (narrow) { set ytics font ",11"; if (!log_y) { set ytics tic_step(y_high - y_low) } }     # flat panels

# columns of panels, or rows of a narrow page: A and B share an axis, C has its own and the names at its right
edge = width * edge_beside(has_val ? 0.88 : 0.86)
left = 93; small = narrow ? width - left - edge_room : 130       # width of C
wide = narrow ? width - left - edge_room : (edge - small - 105 - 31 - left) / 2.0
if (!has_val) { wide = edge - left }
right_of_a = left + wide
set lmargin at screen x_of(left); set rmargin at screen x_of(right_of_a)
set tmargin at screen y_of(top + 20); set bmargin at screen y_of(top + each - 64)
loss_unit = log_y ? "loss  (nat per token, log scale)" : "loss  (nat per token)"
if (narrow) { loss_unit = "loss  (nat)" }
set ylabel loss_unit offset 0.6,0
set label 1 bin_steps > 1 ? sprintf("training, mean of %d recorded steps", bin_steps) : "training" \
    at graph 0,1 offset 0,0.7 font ",12" tc rgb "#444444"
if (loss_floor == loss_floor && loss_floor > y_low && loss_floor < y_high) {
  set arrow 1 from graph 0,first loss_floor to graph 1,first loss_floor nohead lc rgb faint dt (8,6) lw 1 back
  set label 2 "entropy rate of the data" at graph 0.99,first loss_floor offset 0,(narrow ? 0.6 : -0.6) right font ",11" \
      tc rgb soft
}
if (!has_val && !narrow) {
  ends = groups; array end[ends]
  do for [g=1:groups] { end[g] = log_y ? log10(train_last[g]) : train_last[g] }
  low_end = log_y ? log10(y_low) : y_low; high_end = log_y ? log10(y_high) : y_high; gap = (high_end - low_end) * 0.05
  load plots."/spread.gp"
  do for [g=1:groups] {
    set label 20+g name(g) at graph 1.01,first (log_y ? 10**at[g] : at[g]) left offset 1,0 tc rgb ink font ",12" noenhanced point pt 5 ps 1 lc rgb colour[g]
  }
}
plot for [g=1:groups] $train index g-1 using 1:(foot($4, $5)):(inside($5)) with filledcurves fc rgb band(g) notitle, \
     for [g=1:groups] $train index g-1 using 1:3 with lines lw 1.6 dt dash(g) lc rgb colour[g] notitle, \
     for [g=1:groups] $train index g-1 using 1:(mark($5 > y_high, $1/last_of_all, y_high)) with points pt 9 ps 0.7 \
         lc rgb colour[g] notitle, \
     for [g=1:groups] $train index g-1 using 1:(mark($4 < y_low, $1/last_of_all, y_low)) with points pt 11 ps 0.7 \
         lc rgb colour[g] notitle
load plots."/head_off.gp"
if (has_val) {
  # --- B: validation loss
  unset label 2
  if (narrow) {
    set tmargin at screen y_of(top + each + 20); set bmargin at screen y_of(top + 2 * each - 64)
  } else {
    unset ylabel
    set lmargin at screen x_of(right_of_a + 31); set rmargin at screen x_of(right_of_a + 31 + wide)
    set format y ""
    eval no_zero(1)
  }
  set label 1 "validation" at graph 0,1 offset 0,0.7 font ",12" tc rgb "#444444"
  plot for [g=1:groups] $val index g-1 using 1:(foot($4, $5)):(inside($5)) with filledcurves fc rgb band(g) notitle, \
       for [g=1:groups] $val index g-1 using 1:3 with linespoints lw 1.6 pt 7 ps 0.35 dt dash(g) \
           lc rgb colour[g] notitle, \
       for [g=1:groups] $val index g-1 using 1:(mark($5 > y_high, $1/last_of_all, y_high)) with points pt 9 ps 0.7 \
           lc rgb colour[g] notitle, \
       for [g=1:groups] $val index g-1 using 1:(mark($4 < y_low, $1/last_of_all, y_low)) with points pt 11 ps 0.7 \
           lc rgb colour[g] notitle
  # --- C: the end, enlarged
  if (narrow) {
    set tmargin at screen y_of(top + 2 * each + 20); set bmargin at screen y_of(height - 20)
  } else { set lmargin at screen x_of(edge - small); set rmargin at screen x_of(edge) }
  set ylabel narrow ? loss_unit : "loss  (nat per token)" offset 0.6,0
  unset xlabel; unset arrow 1
  unset xtics; unset logscale y
  set format y "%g"
  set ytics autofreq font ",11"
  if (narrow) { set ytics tic_step(final_most - final_least) }
  set yrange [final_least:final_most]
  set xrange [0.4:groups+0.6]
  if (loss_floor == loss_floor && loss_floor > final_least && loss_floor < final_most) {
    set arrow 1 from graph 0,first loss_floor to graph 1,first loss_floor nohead lc rgb faint dt (8,6) back
  }
  set label 1 "last validation loss" at graph 0,1 offset 0,0.7 font ",12" tc rgb "#444444"
  if (!narrow) {
    gap = (final_most - final_least) * 0.055
    low_end = final_least; high_end = final_most
    ends = groups; array end[ends]
    do for [g=1:groups] { end[g] = final_mean[g] }
    load plots."/spread.gp"
    do for [g=1:groups] {
      set label 20+g name(g) at graph 1.06,first at[g] left offset 1,0 tc rgb ink font ",12" noenhanced point pt 5 ps 1 lc rgb colour[g]
    }
  }
  ended(g) = final_mean[g] == final_mean[g]
  # nothing of a group without an end, but not a plot without a point, which gnuplot complains of
  at_end(y) = y == y ? clamp(y, final_least, final_most) : final_least
  shown(g) = ended(g) && final_mean[g] >= final_least && final_mean[g] <= final_most
  set errorbars 0
  plot for [g=1:groups] $final index g-1 using (g-0.22):1 with points pt 7 ps (ended(g) ? 0.5 : 0) \
           lc rgb colour[g] notitle, \
       for [g=1:groups] "+" using (g+0.08):(at_end(final_mean[g])):(at_end(final_lo[g])): \
           (at_end(final_hi[g])) every ::0::0 with yerrorbars \
           pt 7 ps (shown(g) ? 1.1 : 0) lw 1.6 lc rgb colour[g] notitle, \
       for [g=1:groups] "+" using (g+0.08):(final_hi[g] > final_most ? final_most : NaN) every ::0::0 \
           with points pt 9 ps 0.9 lc rgb colour[g] notitle, \
       for [g=1:groups] "+" using (g+0.08):(final_lo[g] < final_least ? final_least : NaN) every ::0::0 \
           with points pt 11 ps 0.9 lc rgb colour[g] notitle
}
unset multiplot
set output
