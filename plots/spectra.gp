# spectra.gp - spectra of the weights: spectral norm, SVD entropy and stable rank by kind of tensor
# Data: $data, one block a group: step n, then mean lo hi (over seeds, of the mean over the tensors of a kind)
# for each measure (3) and each kind of tensor (`kinds` of them), kinds running fastest; NaN where a run has no
# such tensor.
# Also: panels, the kinds that are drawn: panel_kind[p] (from 0), panel_name[p], panel_tensors[p]; low[m] high[m]
# for each measure; last_of_all, heading, about.
width = 1200
load plots."/legend.gp"
top_edge = 152 + 18 * legend_lines            # of the panels
height = top_edge + 714
load plots."/style.gp"
array measure[3] = ["spectral norm", "SVD entropy", "stable rank"]

y_of(pixels) = 1 - pixels * 1.0 / height
set multiplot
set label 100 "{/:Bold ".heading."}" at screen 0.035,y_of(32) font ",17" tc rgb ink
set label 101 sprintf("Line: %s of the mean over the tensors of a kind%s", over_seeds("mean"), \
    most_seeds > 1 ? "; band: 95 % interval (Student's t)." : ".") \
    at screen 0.035,y_of(60) font ",12" tc rgb soft noenhanced
set label 102 about at screen 0.035,y_of(81) font ",12" tc rgb soft noenhanced
legend_top = 106; load plots."/legend.gp"
set xrange [0:last_of_all]
set xtics 0,tic_of_steps(last_of_all),0.95*last_of_all font ",10"; set ytics font ",10"
left = 0.075; right = 0.985; space = 0.014
panel_width = (right - left - space * (panels - 1)) / panels
do for [m=1:3] {
  set yrange [low[m]:high[m]]
  inside(y) = clamp(y, low[m], high[m])
  do for [p=1:panels] {
    set lmargin at screen left + (panel_width + space) * (p - 1)
    set rmargin at screen left + (panel_width + space) * (p - 1) + panel_width
    set tmargin at screen y_of(top_edge + 224 * (m - 1))
    set bmargin at screen y_of(top_edge + 224 * (m - 1) + 204)
    if (m == 1) {
      set label 1 panel_name[p] at graph 0,1 offset 0,1.7 font ",12" tc rgb "#444444" noenhanced
      set label 3 panel_tensors[p] at graph 0,1 offset 0,0.6 font ",9" tc rgb soft noenhanced
    } else { unset label 1; unset label 3 }
    if (p == 1) {
      set format y "%g"
      set label 2 measure[m] at screen 0.022,y_of(top_edge + 224 * (m - 1) + 102) center rotate \
          font ",13" tc rgb ink
    } else { set format y ""; unset label 2 }
    if (m == 3) {
      set format x "%g"; set xlabel "training step" offset 0,0.3
    } else { set format x ""; unset xlabel }
    first = 3 + 3 * (kinds * (m - 1) + int(panel_kind[p]))
    plot for [g=1:groups] $data index g-1 using 1:(inside(column(first+1))):(inside(column(first+2))) \
             with filledcurves fc rgb band(g) notitle, \
         for [g=1:groups] $data index g-1 using 1:(column(first)) with lines lw 1.7 dt dash(g) \
             lc rgb colour[g] notitle
    unset for [i=100:102] label i
    do for [g=1:groups] { unset label 50+g; unset arrow 50+g }
  }
}
unset multiplot
set output
