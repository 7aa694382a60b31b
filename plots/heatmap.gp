# heatmap.gp - max logit, head by step, one panel a group (its first seed), one colour scale for all
# Data: $data, one block a group: step head value on the full grid (value: largest in the interval of steps).
# Also: bin_steps; heads_all (of all layers and modules), heads, layers, low, high, last_of_all, first_seed[g], heading,
# about.
strip = heads_all > 8 ? 14 * heads_all : 112
width = 1100
load plots."/style.gp"
body = 38 + groups * (strip + 36); legend = 0
is_cut = all_low < low || all_high > high
subtitle = sprintf("Color: largest logit of a head%s; one seed of each group; white lines part layers%s.%s", \
    bin_steps > 1 ? sprintf(" within %d steps", bin_steps) : " at each step", \
    heads_all > heads * layers ? sprintf(", from %d on MTP modules", layers) : "", \
    is_cut ? " ≤ and ≥: beyond the end of the scale, too." : "")
load plots."/page.gp"
if (page_height > 0) { strip = (body - 38.0) / groups - 36 }
unset grid
set xrange [0:last_of_all]
set yrange [heads_all-0.5:-0.5]                     # head 0 on top

set multiplot
set datafile missing                                # a NaN is a hole, not a pixel that is not there
set border 15 lw 0.8
set cbtics font ",11" scale 0.4
bar = clamp(body - 76.0, 60, 480)                # pixels
bar_low = low; bar_high = high; bar_linear = 0; bar_below = all_low < low; bar_above = all_high > high; bar_free = 14.0 / bar
load plots."/bar.gp"
right = width - clamp(52 + 9.4 * bar_letters, narrow ? 92 : 110, 190)   # its numbers are beside it
set lmargin at screen x_of(82); set rmargin at screen x_of(right)
set ytics font ",11"; set xtics font ",11"
set ytics (0)
do for [h=0:heads_all-1] {
  if (heads <= 8 || h % heads % 4 == 0) { set ytics add (sprintf("%d.%d", h / heads, h % heads) h) }
}
do for [g=1:groups] {
  set tmargin at screen y_of(top + 14 + (g - 1) * (strip + 36))
  set bmargin at screen y_of(top + 14 + (g - 1) * (strip + 36) + strip)
  set label 1 sprintf("%s, seed %d", name(g), first_seed[g]) at graph 0,1 offset 0,0.6 font ",12" \
      tc rgb ink noenhanced
  do for [h=heads:heads_all-1:heads] {              # between layers
    set arrow 10+h from graph 0,first h-0.5 to graph 1,first h-0.5 nohead lc rgb "white" lw 1.2 front
  }
  if (g == groups) { set xlabel "training step" offset 0,0.4; set format x "%g" } else { set format x "" }
  if (g == 1) {
    set ylabel "layer.head" offset 0.6,0
    set colorbox user origin x_of(right + 16),y_of(top + 14 + bar) size x_of(14),(1.0 * bar / height) noborder
    set label 2 "max logit" at screen x_of(right + 4),y_of(top) font ",11" tc rgb ink
  } else { unset colorbox }
  plot $data index g-1 using 1:2:($3 < low ? low : $3) with image notitle
  load plots."/head_off.gp"
  unset label 2
}
unset multiplot
set output
