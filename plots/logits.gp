# logits.gp - max logit against step: one curve a group, a band over its seeds, the threshold of clips or caps
# Data: $data, one block a group: step n mean lo hi (geometric mean and 95 % interval of the largest head).
# Also: last[g] and last_step[g], the end of each curve; low, high (range of all), last_of_all; tau (NaN:
# none); tau_name; heading, about.
width = 1100; height = 640
load plots."/style.gp"

set logscale y
bottom = log10(low / 1.4); top = log10(high * 1.3)
if (top < bottom + 1) { top = bottom + 1 }
set yrange [10**bottom:10**top]
set xrange [0:last_of_all]

if (text_term) {
  set title heading
  set xlabel "training step"
  unset grid; set key on outside top center horizontal
  set format y "%g"
  plot for [g=1:groups] $data index g-1 using 1:3 with lines lw 1 lc g title name(g), \
       (tau == tau ? tau : NaN) with dots title (tau == tau ? tau_name : "")
  exit
}

set label 100 "{/:Bold ".heading."}" at screen 0.035,0.955 font ",17" tc rgb ink
set label 101 sprintf("Line: %s%s", over_seeds("geometric mean"), \
    most_seeds > 1 ? "; band: 95 % interval of the mean (Student's t on logarithms)." : ".") \
    at screen 0.035,0.913 font ",12" tc rgb soft noenhanced
set label 102 about at screen 0.035,0.880 font ",12" tc rgb soft noenhanced

set lmargin at screen 0.095; set rmargin at screen edge_beside(0.80)
set bmargin at screen 0.105; set tmargin at screen 0.83
set format y "10^{%L}"; set mytics 10
if (top - bottom < 3.5) {                          # few decades: more, and as plain numbers
  set ytics ()
  do for [e=-6:9] { do for [t in tics_of(top - bottom)] {
    set ytics add (sprintf("%g", t * 10.0**e) t * 10.0**e)
  } }
}
set xlabel "training step" offset 0,0.4
set ylabel "max logit of a step  (softmax input, log scale)" offset 0.6,0
if (tau == tau && log10(tau) > bottom && log10(tau) < top) {
  set arrow 1 from graph 0,first tau to graph 1,first tau nohead lc rgb faint dt (8,6) lw 1 back
  ends = groups + 1
} else { ends = groups }
array end[ends]
do for [g=1:groups] { end[g] = log10(last[g]) }
if (ends > groups) { end[ends] = log10(tau) }
gap = (top - bottom) * 0.042
load plots."/spread.gp"
if (ends > groups) {
  set label 1 tau_name at first last_of_all,(10**at[ends]) offset 0.8,0 left tc rgb faint font ",12" \
      noenhanced
}
do for [g=1:groups] {
  set label 10+g name(g) at first last_of_all,(10**at[g]) offset 0.8,0 left \
      tc rgb colour[g] font ",12" noenhanced
}
inside(y) = clamp(y, 10**bottom, 10**top)
plot for [g=1:groups] $data index g-1 using 1:(inside($4)):(inside($5)) with filledcurves fc rgb band(g) \
         notitle, \
     for [g=1:groups] $data index g-1 using 1:3 with lines lw 2 dt dash(g) lc rgb colour[g] notitle
set output
