# difference.gp - two arms over the steps: the mean of the pairs' differences or ratios, with its interval
# Data: $data, one block a group: step n mean lo hi. Also: ratio (1: B / A; low, high, all_low, all_high are natural
# logarithms then); seeds[g]: pairs; last[g]; last_of_all; y_name, heading, about.
width = 1000
ratio = int(ratio)
load plots."/style.gp"
nothing = ratio ? 1 : 0
room = high > low ? 0.06 * (high - low) : ratio ? log(1.1) : 1
bottom = low - room; top_y = high + room
back(y) = ratio ? exp(y) : y                         # from the scale of low and high to the axis
body = narrow ? 360 : 510; legend = narrow && groups > 1
subtitle = sprintf("%s over pairs of equal seed (%s)%s; gray line: no difference.%s", \
    ratio ? "Line: geometric mean" : "Line: mean", \
    least_seeds == most_seeds ? sprintf("n = %d", most_seeds) : sprintf("n = %d to %d", least_seeds, most_seeds), \
    most_seeds > 1 ? "; band: 95 % interval (Student's t)" : "", cut_text(bottom, top_y))
load plots."/page.gp"
if (ratio > 0) { set logscale y }
y_low = back(bottom); y_high = back(top_y)
set yrange [y_low:y_high]
set xrange [0:last_of_all]
set format x "%g"; set format y "%g"

y_label = wrapped(y_name, int((body - 68) / (narrow ? 8.6 : 10)))
set lmargin at screen x_of(105 + room_of_label(y_label)); set rmargin at screen edge_beside(0.86)
set bmargin at screen y_of(height - 68); set tmargin at screen y_of(top)
eval axis_of_steps(last_of_all, 1)
set xlabel "training step" offset 0,0.2
set ylabel y_label offset offset_of(y_label),0 noenhanced
if (ratio > 0 && (top_y - bottom) / log(10) < 3.5) {
  set ytics ()
  fine = (top_y - bottom) / log(10) < 0.5 ? "1 1.1 1.2 1.3 1.5 1.7 2 2.5 3 4 5 6 7 8 9" : tics_of((top_y - bottom) / log(10))
  do for [e=-9:12] { do for [t in fine] { set ytics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
}
if (!narrow) {
  ends = groups; array end[ends]
  do for [g=1:groups] { end[g] = last[g] == last[g] ? (ratio ? log(last[g]) : last[g]) : bottom }
  gap = (top_y - bottom) * 0.045; low_end = bottom; high_end = top_y
  load plots."/spread.gp"
  do for [g=1:groups] {
    set label 10+g name(g) at graph 1.01,first back(at[g]) left offset 1,0 tc rgb ink font ",12" noenhanced point pt 5 ps 1 lc rgb colour[g]
  }
}
inside(y) = clamp(y, y_low, y_high)
plot nothing with lines lw 1.2 lc rgb "#999999" notitle, \
     for [g=1:groups] $data index g-1 using 1:(foot($4, $5)):(inside($5)) with filledcurves lc rgb band(g) notitle, \
     for [g=1:groups] $data index g-1 using 1:3 with lines lw 2 lc rgb colour[g] notitle, \
     for [g=1:groups] $data index g-1 using 1:(mark($5 > y_high, $1/last_of_all, y_high)) with points pt 9 ps 0.8 \
         lc rgb colour[g] notitle, \
     for [g=1:groups] $data index g-1 using 1:(mark($4 < y_low, $1/last_of_all, y_low)) with points pt 11 ps 0.8 \
         lc rgb colour[g] notitle
set output
