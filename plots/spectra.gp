# spectra.gp - spectra of the weights: spectral norm, SVD entropy and stable rank by kind of tensor
# Data: $data, one block a group: step n, then mean lo hi (over seeds, of the mean over the tensors of a kind)
# for each measure (3) and each kind of tensor (`kinds` of them), kinds running fastest; NaN where a run has no
# such tensor.
# Also: panels, the kinds that are drawn: panel_kind[p] (from 0), panel_name[p], panel_tensors[p]; low[m] high[m]
# all_low[m] all_high[m] for each measure; last_of_all, heading, about.
width = 1200
load plots."/style.gp"
legend = 1
each = narrow ? 150 : 224; below = narrow ? 82 : 104; body = 3 * each + below
is_cut = 0
do for [m=1:3] { if (all_low[m] < low[m] || all_high[m] > high[m]) { is_cut = 1 } }
subtitle = sprintf("Line: %s of the mean over the tensors of a kind%s%s", over_seeds("mean"), \
    most_seeds > 1 ? "; band: 95 % interval (Student's t)." : ".", dashes_text.(is_cut ? marks_text : ""))
load plots."/page.gp"
each = (body - below * 1.0) / 3; top_edge = top + (narrow ? 24 : 46)
short(name) = name eq "queries and keys" ? "q, k" : name eq "values and output" ? "v, o" : \
    name eq "embedding and head" ? "embed., head" : name
array measure[3] = ["spectral norm", "SVD entropy", "stable rank"]

set multiplot
set xrange [0:last_of_all]
left = 96; space = 16
panel_width = (width - 30.0 - left - space * (panels - 1)) / panels
eval axis_of_steps(last_of_all, panel_width < 140 ? 4 : panel_width < 240 ? 2 : 1); set xtics font ",11"
set ytics font ",11"
do for [m=1:3] {
  set yrange [low[m]:high[m]]
  inside(y) = clamp(y, low[m], high[m])
  do for [p=1:panels] {
    eval no_zero(p - 1)
    set lmargin at screen x_of(left + (panel_width + space) * (p - 1))
    set rmargin at screen x_of(left + (panel_width + space) * (p - 1) + panel_width)
    set tmargin at screen y_of(top_edge + each * (m - 1))
    set bmargin at screen y_of(top_edge + each * m - 20)
    if (m == 1) {
      set label 1 narrow ? short(panel_name[p]) : panel_name[p] at graph 0,1 \
          offset 0,(narrow ? 0.7 : 1.7) font (narrow ? ",11" : ",12") tc rgb "#444444" noenhanced
      if (!narrow) { set label 3 panel_tensors[p] at graph 0,1 offset 0,0.6 font ",11" tc rgb soft noenhanced }
    } else { unset label 1; unset label 3 }
    if (p == 1) {
      set format y "%g"
      set label 2 measure[m] at screen x_of(22),y_of(top_edge + each * (m - 0.5) - 10) center rotate \
          font (narrow ? ",11" : ",13") tc rgb ink
    } else { set format y ""; unset label 2 }
    if (m == 3) {
      set format x "%g"; if (!narrow || p == 1) { set xlabel "training step" offset 0,0.3 } else { unset xlabel }
    } else { set format x ""; unset xlabel }
    first = 3 + 3 * (kinds * (m - 1) + int(panel_kind[p]))
    plot for [g=1:groups] $data index g-1 using 1:(foot(column(first+1), column(first+2))):(inside(column(first+2))) \
             with filledcurves fc rgb band(g) notitle, \
         for [g=1:groups] $data index g-1 using 1:(column(first)) with lines lw 1.7 dt dash(g) \
             lc rgb colour[g] notitle, \
         for [g=1:groups] $data index g-1 using 1:(mark(column(first+2) > high[m], $1/last_of_all, high[m])) with \
             points pt 9 ps 0.6 lc rgb colour[g] notitle, \
         for [g=1:groups] $data index g-1 using 1:(mark(column(first+1) < low[m], $1/last_of_all, low[m])) with \
             points pt 11 ps 0.6 lc rgb colour[g] notitle
    load plots."/head_off.gp"
  }
}
unset multiplot
set output
