# loss.gp - training loss, validation loss, and where each group ends
# Data: $train and $val, one block a group: step n mean lo hi; $final, one block a group: the last validation
# loss of every seed (no block content where there is none).
# Also: train_least[g] val_least[g], the least lo of each band; train_last[g] val_last[g], where each curve ends;
# final_mean[g] final_lo[g] final_hi[g]; loss_low, loss_high (of the training loss),
# final_low, final_high; last_of_all; loss_floor (NaN: not known); has_val; bin_steps; heading, about.
width = 1240; height = 560
load plots."/style.gp"
set xrange [0:last_of_all]

if (text_term) {
  set title heading
  set xlabel "training step"
  unset grid; set key on outside top center horizontal
  set yrange [loss_low:loss_high]
  plot for [g=1:groups] $train index g-1 using 1:3 with lines lc g title name(g)
  exit
}

set multiplot
set label 100 "{/:Bold ".heading."}" at screen 0.03,0.945 font ",17" tc rgb ink
set label 101 sprintf("Line: %s%s", over_seeds("mean"), most_seeds > 1 ? \
    "; band and bar: 95 % interval of the mean (Student's t); small dots: ".one_is."s." : "; dot: that ".one_is.".") \
    at screen 0.03,0.897 font ",12" tc rgb soft noenhanced
set label 102 about at screen 0.03,0.860 font ",12" tc rgb soft noenhanced

set tmargin at screen 0.77; set bmargin at screen 0.115
set xlabel "training step" offset 0,0.4
set yrange [loss_low:loss_high]
set xtics 0,tic_of_steps(last_of_all),0.95*last_of_all

# bands: nothing where all of it lies above the frame (but not nothing at all, which gnuplot complains of)
lower(y, least) = y > loss_high && least <= loss_high ? NaN : clamp(y, loss_low, loss_high)
upper(y) = clamp(y, loss_low, loss_high)

# --- A: training loss
# columns of panels: A and B share an axis, C has its own and the names at its right
edge = edge_beside(has_val ? 0.88 : 0.86)
left = 0.075; small = 0.105                        # width of C
wide = (edge - small - 0.085 - 0.025 - left) / 2
set lmargin at screen left; set rmargin at screen has_val ? left + wide : edge
loss_unit = "loss  (nat per token)"
set ylabel loss_unit offset 0.6,0
set label 1 bin_steps > 1 ? sprintf("training, mean of %d recorded steps", bin_steps) : "training" \
    at graph 0.0,1.045 font ",12" tc rgb "#444444"
if (loss_floor == loss_floor) {
  set arrow 1 from graph 0,first loss_floor to graph 1,first loss_floor nohead lc rgb faint dt (8,6) lw 1 back
  set label 2 "entropy rate of the data" at graph 0.99,first loss_floor offset 0,-0.6 right font ",10" \
      tc rgb faint
}
if (!has_val) {
  ends = groups; array end[ends]
  do for [g=1:groups] { end[g] = train_last[g] }
  gap = (loss_high - loss_low) * 0.05; bottom = loss_low; top = loss_high
  load plots."/spread.gp"
  do for [g=1:groups] {
    set label 20+g name(g) at first last_of_all,at[g] offset 0.8,0 left tc rgb colour[g] font ",12" noenhanced
  }
}
plot for [g=1:groups] $train index g-1 using 1:(lower($4, train_least[g])):(upper($5)) \
         with filledcurves fc rgb band(g) notitle, \
     for [g=1:groups] $train index g-1 using 1:3 with lines lw 1.6 dt dash(g) lc rgb colour[g] notitle
unset for [k=100:102] label k
if (has_val) {
  # --- B: validation loss
  unset ylabel; unset label 2
  set lmargin at screen left + wide + 0.025; set rmargin at screen left + 2 * wide + 0.025
  set label 1 "validation" at graph 0.0,1.045 font ",12" tc rgb "#444444"
  set format y ""
  plot for [g=1:groups] $val index g-1 using 1:(lower($4, val_least[g])):(upper($5)) \
         with filledcurves fc rgb band(g) notitle, \
       for [g=1:groups] $val index g-1 using 1:3 with linespoints lw 1.6 pt 7 ps 0.35 dt dash(g) \
           lc rgb colour[g] notitle
  # --- C: the end, enlarged
  set lmargin at screen edge - small; set rmargin at screen edge
  set ylabel loss_unit offset 0.6,0
  unset xlabel; unset arrow 1
  unset xtics
  set format y "%g"
  set ytics font ",11"
  set yrange [final_low:final_high]
  set xrange [0.4:groups+0.6]
  if (loss_floor == loss_floor && loss_floor > final_low) {
    set arrow 1 from graph 0,first loss_floor to graph 1,first loss_floor nohead lc rgb faint dt (8,6) back
  }
  set label 1 "last validation loss" at graph 0.0,1.045 font ",12" tc rgb "#444444"
  gap = (final_high - final_low) * 0.045
  bottom = final_low; top = final_high
  ends = groups; array end[ends]
  do for [g=1:groups] { end[g] = final_mean[g] }
  load plots."/spread.gp"
  do for [g=1:groups] {
    set label 20+g name(g) at graph 1,first at[g] offset 0.8,0 left font ",12" tc rgb colour[g] noenhanced
  }
  ended(g) = final_mean[g] == final_mean[g]
  at_end(y) = y == y ? y : final_low
  plot for [g=1:groups] $final index g-1 using (g-0.22):1 with points pt 7 ps (ended(g) ? 0.5 : 0) \
           lc rgb colour[g] notitle, \
       for [g=1:groups] "+" using (g+0.08):(at_end(final_mean[g])):(at_end(final_lo[g])): \
           (at_end(final_hi[g])) every ::0::0 with yerrorbars \
           pt 7 ps (ended(g) ? 1.1 : 0) lw 1.6 lc rgb colour[g] notitle
}
unset multiplot
set output
