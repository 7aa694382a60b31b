# spectra.gp - spectra of the weights: spectral norm, SVD entropy and stable rank by kind of tensor
# Data: $data, one block a group: step n, then mean lo hi (over seeds, of the mean over the tensors of a kind)
# for each measure (3) and each kind of tensor (4), kinds running fastest.
# Also: low[m] high[m] for each measure; present[k], 0 where a model has no such tensor; last_of_all,
# heading, about.
width = 1200; height = 860
load plots."/style.gp"
array measure[3] = ["spectral norm", "SVD entropy", "stable rank"]
array tensors[4] = ["w_q, w_k", "w_v, w_o", "feed-forward", "embedding, head"]

y_of(pixels) = 1 - pixels * 1.0 / height
set multiplot
set label 100 "{/:Bold ".heading."}" at screen 0.035,y_of(32) font ",17" tc rgb ink
set label 101 sprintf("Line: mean over %s of the mean over the tensors of a kind%s", seeds_text, \
    most_seeds > 1 ? "; band: 95 % interval (Student's t)." : ".") \
    at screen 0.035,y_of(60) font ",12" tc rgb soft noenhanced
set label 102 about at screen 0.035,y_of(81) font ",12" tc rgb soft noenhanced
x_name = 0.06
do for [g=1:groups] {
  set arrow 50+g from screen x_name,y_of(106) to screen x_name+0.03,y_of(106) nohead lw 2.2 dt dash(g) \
      lc rgb colour[g]
  set label 50+g name(g) at screen x_name+0.036,y_of(106) font ",12" tc rgb colour[g] noenhanced
  x_name = x_name + 0.06 + 0.0085 * strlen(name(g))
}
set xrange [0:last_of_all]
tick = 10**floor(log10(last_of_all / 2.0)); tick = last_of_all / tick > 5 ? 2 * tick : tick
set xtics 0,tick,0.95*last_of_all font ",10"; set ytics font ",10"
left = 0.075; right = 0.985; space = 0.014
panel_width = (right - left - space * 3) / 4
do for [m=1:3] {
  set yrange [low[m]:high[m]]
  inside(y) = clamp(y, low[m], high[m])
  do for [k=1:4] {
    set lmargin at screen left + (panel_width + space) * (k - 1)
    set rmargin at screen left + (panel_width + space) * (k - 1) + panel_width
    set tmargin at screen y_of(146 + 224 * (m - 1))
    set bmargin at screen y_of(146 + 224 * (m - 1) + 204)
    if (m == 1) {
      set label 1 tensors[k] at graph 0,1 offset 0,0.8 font ",12" tc rgb "#444444" noenhanced
    } else { unset label 1 }
    if (k == 1) {
      set format y "%g"
      set label 2 measure[m] at screen 0.022,y_of(146 + 224 * (m - 1) + 102) center rotate \
          font ",13" tc rgb ink
    } else { set format y ""; unset label 2 }
    if (m == 3) {
      set format x "%g"; set xlabel "training step" offset 0,0.3
    } else { set format x ""; unset xlabel }
    if (present[k]) {
      first = 3 + 3 * (4 * (m - 1) + k - 1)
      plot for [g=1:groups] $data index g-1 using 1:(inside(column(first+1))):(inside(column(first+2))) \
               with filledcurves fc rgb band(g) notitle, \
           for [g=1:groups] $data index g-1 using 1:(column(first)) with lines lw 1.7 dt dash(g) \
               lc rgb colour[g] notitle
    }
    unset for [i=100:102] label i
    do for [g=1:groups] { unset label 50+g; unset arrow 50+g }
  }
}
unset multiplot
set output
