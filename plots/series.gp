# series.gp - any series over the steps or tokens: a panel a series, one curve a group, a band over its runs
# Data: $data, a block for each group of each panel: x n mean lo hi. Also: panels, panel_name[p]; low[p] high[p] (of the
# axis), all_low[p] all_high[p] (of all that is drawn); log_y[p] (1: the axis is logarithmic, means are geometric);
# share[p] (1: between 0 and 1); last[(p-1)*groups+g]; last_of_all, x_name, heading, about.
width = panels > 1 ? 1200 : 1000
load plots."/style.gp"
across = narrow || panels == 1 ? 1 : panels <= 4 ? 2 : 3
down = (panels + across - 1) / across
legend = narrow || panels > 1
each = narrow ? (panels > 1 ? 250 : 340) : panels > 1 ? 330 : 520
body = each * down
some_log = 0; some_linear = 0; is_cut = 0
array y_low[panels]; array y_high[panels]
do for [p=1:panels] {
  if (log_y[p] > 0) { some_log = 1; y_low[p] = low[p] / 1.1; y_high[p] = high[p] * 1.1 } else {
    room = high[p] > low[p] ? 0.06 * (high[p] - low[p]) : high[p] != 0 ? abs(high[p]) * 0.1 : 1
    some_linear = 1; y_low[p] = low[p] - room; y_high[p] = high[p] + room
    if (share[p] > 0) { y_low[p] = clamp(y_low[p], 0, 1); y_high[p] = clamp(y_high[p], 0, 1) }
  }
  if (all_low[p] < y_low[p] || all_high[p] > y_high[p]) { is_cut = 1 }
}
subtitle = sprintf("Line: %s%s%s", over_seeds(some_log && some_linear ? "mean (geometric on a log axis)" : \
    some_log ? "geometric mean" : "mean"), \
    most_seeds > 1 ? "; band: 95 % interval of the mean (Student's t)." : ".", dashes_text.(is_cut ? marks_text : ""))
load plots."/page.gp"
set xrange [0:last_of_all]
set format x "%g"; set format y "%g"

each = body * 1.0 / down
between = 96
axis_label(p) = wrapped(panel_name[p].(log_y[p] > 0 ? "  (log scale)" : ""), int((each - 64) / (narrow ? 8.6 : 10)))
left = 96 + (panels == 1 ? room_of_label(axis_label(1)) : 0)
panel_width = across == 1 ? 0 : (width - left - 18.0 - between * (across - 1)) / across
set multiplot
do for [p=1:panels] {
  c = (p - 1) % across; r = (p - 1) / across
  set lmargin at screen x_of(left + (panel_width + between) * c)
  set rmargin at screen across == 1 ? (legend ? 1 - edge_room / width : edge_beside(0.86)) : x_of(left + (panel_width + between) * c + panel_width)
  set tmargin at screen y_of(top + each * r + (panels > 1 ? 26 : 0))
  set bmargin at screen y_of(top + each * (r + 1) - 64)
  set yrange [y_low[p]:y_high[p]]
  eval axis_of_steps(last_of_all, across > 1 && panel_width < 380 ? 2 : 1); set xtics font ",11"
  set ytics autofreq font ",11"
  if (log_y[p] > 0) {
    set logscale y
    decades = log10(y_high[p] / y_low[p])
    if (decades < 3.5) {
      set ytics () font ",11"
      do for [e=-9:12] { do for [t in tics_of(decades)] { set ytics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
    } else { set format y decades_format }
  } else { unset logscale y; set format y "%g" }
  set xlabel x_name offset 0,0.3
  if (panels > 1) { set label 1 panel_name[p].(log_y[p] > 0 ? "  (log scale)" : "") at graph 0,1 offset -3,0.7 font ",12" tc rgb "#444444" noenhanced } \
  else { set ylabel axis_label(p) offset offset_of(axis_label(p)),0 noenhanced }
  if (!legend) {
    ends = groups; array end[ends]
    low_end = log_y[p] > 0 ? log10(y_low[p]) : y_low[p]; high_end = log_y[p] > 0 ? log10(y_high[p]) : y_high[p]
    gap = (high_end - low_end) * 0.045
    do for [g=1:groups] { end[g] = last[g] == last[g] ? (log_y[p] > 0 ? log10(last[g]) : last[g]) : high_end }
    load plots."/spread.gp"
    do for [g=1:groups] {
      set label 20+g name(g) at graph 1.01,first (log_y[p] > 0 ? 10**at[g] : at[g]) left offset 1,0 tc rgb ink font ",12" noenhanced point pt 5 ps 1 lc rgb colour[g]
    }
  }
  inside(y) = clamp(y, y_low[p], y_high[p])
  plot for [g=1:groups] $data index (p-1)*groups+g-1 using 1:(foot($4, $5)):(inside($5)) with filledcurves \
           fc rgb band(g) notitle, \
       for [g=1:groups] $data index (p-1)*groups+g-1 using 1:3 with lines lw 2 dt dash(g) lc rgb colour[g] notitle, \
       for [g=1:groups] $data index (p-1)*groups+g-1 using 1:(mark($5 > y_high[p], $1/last_of_all, y_high[p])) with points \
           pt 9 ps 0.8 lc rgb colour[g] notitle, \
       for [g=1:groups] $data index (p-1)*groups+g-1 using 1:(mark($4 < y_low[p], $1/last_of_all, y_low[p])) with points \
           pt 11 ps 0.8 lc rgb colour[g] notitle
  load plots."/head_off.gp"
}
unset multiplot
set output
