# tuning.gp - what a key is tuned by: a curve an arm over the key's values, a panel for each of one or two keys
# Data: $curves, a block for each arm of each key: x score beside (1: beside the best); $runs, likewise: x value, a line a
# run. best_x[i], best_y[i] of block i; keys, key_name[k]; x1_low, x1_high, x2_low, x2_high; low, high (scores near the
# best); all_low, all_high (of all that is drawn);
# cross_x[i], cross_g[i], cross_k[i], points without a score (crosses); y_name, heading, maximise, seeds_each.
keys = int(keys); crosses = int(crosses); maximise = int(maximise)
width = keys > 1 ? 1500 : 1000
load plots."/style.gp"
log_y = low > 0 && high / low > 8
if (log_y) { bottom = low / (high / low)**0.16; top_y = high * (high / low)**0.1 } \
else { room = high > low ? 0.1 * (high - low) : high != 0 ? abs(high) * 0.1 : 1; bottom = low - 1.8 * room; top_y = high + room }

body = narrow ? 400 : 500; legend = narrow
subtitle = sprintf("Mean of %d selection seeds, circles: runs; disc: the best (%s); ring: beside it; ×: a run diverged or has no value.%s%s", \
    int(seeds_each), maximise ? "highest" : "lowest", keys > 1 ? " The other key is at its best." : "", cut_text(bottom, top_y))
load plots."/page.gp"

set multiplot
set logscale x
if (log_y) { set logscale y }
set yrange [bottom:top_y]; set format x "%g"; set format y "%g"
edge = edge_beside(0.84)
y_label = wrapped(y_name.(log_y ? "  (log scale)" : ""), int((body - 74) / (narrow ? 8.6 : 10)))
margin = (105.0 + room_of_label(y_label)) / width
panel = (edge - margin - (keys - 1) * 0.05) / keys
level(share) = log_y ? bottom * (top_y / bottom)**share : bottom + share * (top_y - bottom)
do for [k=1:keys] {
  if (k > 1) { unset arrow; load plots."/head_off.gp" }            # once, not a layer a panel
  x_low = k == 1 ? x1_low : x2_low; x_high = k == 1 ? x1_high : x2_high
  room_x = x_high > x_low ? (x_high / x_low)**0.06 : 2
  set xrange [x_low/room_x:x_high*room_x]
  set lmargin at screen margin + (k - 1) * (panel + 0.05); set rmargin at screen margin + (k - 1) * (panel + 0.05) + panel
  set bmargin at screen y_of(height - 74); set tmargin at screen y_of(top)
  set xlabel key_name[k]."  (log scale)" offset 0,0.2 noenhanced
  if (k == 1) { set ylabel y_label offset offset_of(y_label),0 noenhanced } else { unset ylabel }
  if (log10(x_high / x_low) < 3.5) {
    set xtics ()
    do for [e=-12:9] { do for [t in tics_of(log10(x_high / x_low))] { set xtics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
  }
  do for [g=1:groups] {
    i = (k - 1) * groups + g
    if (best_x[i] == best_x[i]) {
      set arrow i from first best_x[i],first bottom to first best_x[i],first best_y[i] nohead dt (3,5) lw 1 lc rgb colour[g]
      set label 200+g sprintf("%g", best_x[i]) at first best_x[i],first level(0.03 + 0.045 * ((g - 1) % 4)) offset 0.6,0 left \
          font ",11" tc rgb ink noenhanced
    } else { unset label 200+g }
    if (k == keys && !narrow) {
      set label 300+g name(g) at graph 1.03,graph 0.95 - 0.06 * (g - 1) left offset 1,0 tc rgb ink font ",12" noenhanced point pt 5 ps 1 lc rgb colour[g]
    }
  }
  do for [c=1:crosses] {
    unset label 400+c
    if (int(cross_k[c]) == k) {
      set label 400+c "×" at first cross_x[c],graph 0.975 - 0.02 * (cross_g[c] - 1) center font ",14" tc rgb colour[int(cross_g[c])]
    }
  }
  plot for [g=1:groups] $curves index (k-1)*groups+g-1 using 1:2 with lines lw 2 lc rgb colour[g] notitle, \
       for [g=1:groups] $curves index (k-1)*groups+g-1 using 1:($3 > 0 ? $2 : NaN) with points pt 6 ps 1.7 lw 1.6 lc rgb colour[g] notitle, \
       for [g=1:groups] "+" using (best_x[(k-1)*groups+g]):(best_y[(k-1)*groups+g]) every ::0::0 with points pt 7 ps 1.7 lc rgb colour[g] notitle, \
       for [g=1:groups] $runs index (k-1)*groups+g-1 using 1:2 with points pt 6 ps 0.7 lw 0.8 lc rgb colour[g] notitle, \
       for [g=1:groups] $runs index (k-1)*groups+g-1 using 1:($2 > top_y ? top_y : NaN) with points pt 9 ps 0.9 lc rgb colour[g] notitle, \
       for [g=1:groups] $runs index (k-1)*groups+g-1 using 1:($2 < bottom ? bottom : NaN) with points pt 11 ps 0.9 lc rgb colour[g] notitle
}
unset multiplot
set output
