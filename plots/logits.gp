# logits.gp - max logit against step: one curve a group, a band over its seeds, the threshold of clips or caps
# Data: $data, one block a group: step n mean lo hi (geometric mean and 95 % interval of the largest head).
# Also: last[g], the end of each curve; low, high (of the axis), all_low, all_high (of all that is drawn), last_of_all; tau
# (NaN: none); tau_name; heading, about.
width = 1100
load plots."/style.gp"
set logscale y
bottom = log10(low / 1.1); top_y = log10(high * 1.1)
if (top_y < bottom + 0.5) { top_y = bottom + 0.5 }
y_low = 10**bottom; y_high = 10**top_y
body = narrow ? 360 : 540; legend = narrow
subtitle = sprintf("Line: %s%s%s", over_seeds("geometric mean"), \
    most_seeds > 1 ? "; band: 95 % interval of the mean (Student's t on logarithms)." : ".", dashes_text.cut_text(y_low, y_high))
load plots."/page.gp"
set yrange [y_low:y_high]
set xrange [0:last_of_all]

set lmargin at screen x_of(92); set rmargin at screen edge_beside(0.80)
set bmargin at screen y_of(height - 66); set tmargin at screen y_of(top)
set format y decades_format; set mytics 10
if (top_y - bottom < 3.5) {                        # few decades: more, and as plain numbers
  set ytics ()
  do for [e=-6:9] { do for [t in tics_of(top_y - bottom)] {
    set ytics add (sprintf("%g", t * 10.0**e) t * 10.0**e)
  } }
}
eval axis_of_steps(last_of_all, 1)
set xlabel "training step" offset 0,0.4; set format x "%g"
set ylabel narrow ? "max logit  (log scale)" : "max logit, largest head  (softmax input, log scale)" offset 0.6,0
ends = groups
if (tau == tau && log10(tau) > bottom && log10(tau) < top_y) {
  set arrow 1 from graph 0,first tau to graph 1,first tau nohead lc rgb faint dt (8,6) lw 1 back
  if (narrow) { set label 1 tau_name at graph 0.98,first tau offset 0,0.5 right font ",11" tc rgb soft noenhanced }
  ends = groups + 1
}
if (!narrow) {
  array end[ends]
  do for [g=1:groups] { end[g] = log10(last[g]) }
  if (ends > groups) { end[ends] = log10(tau) }
  gap = (top_y - bottom) * 0.042; low_end = bottom; high_end = top_y
  load plots."/spread.gp"
  if (ends > groups) {
    set label 1 tau_name at graph 1.01,first (10**at[ends]) left tc rgb soft font ",12" noenhanced
  }
  do for [g=1:groups] {
    set label 10+g name(g) at graph 1.01,first (10**at[g]) left offset 1,0 tc rgb ink font ",12" noenhanced point pt 5 ps 1 lc rgb colour[g]
  }
}
inside(y) = clamp(y, y_low, y_high)
plot for [g=1:groups] $data index g-1 using 1:(foot($4, $5)):(inside($5)) with filledcurves fc rgb band(g) notitle, \
     for [g=1:groups] $data index g-1 using 1:3 with lines lw 2 dt dash(g) lc rgb colour[g] notitle, \
     for [g=1:groups] $data index g-1 using 1:(mark($5 > y_high, $1/last_of_all, y_high)) with points pt 9 ps 0.8 \
         lc rgb colour[g] notitle, \
     for [g=1:groups] $data index g-1 using 1:(mark($4 < y_low, $1/last_of_all, y_low)) with points pt 11 ps 0.8 \
         lc rgb colour[g] notitle
set output
