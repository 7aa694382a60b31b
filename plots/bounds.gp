# bounds.gp - heads of checkpoints, layer by head: the bound on their logits, norm and entropy of their form
# Data: $data, three blocks a group: head layer value; the bound, the spectral norm, the entropy.
# Also: layers[g], heads[g], source[g]; low[m], high[m]; heading, about.
strip(g) = layers[g] * 22 < 88 ? 88 : layers[g] * 22 > 660 ? 660 : layers[g] * 22
width = 1200
body = 48; legend = 0
do for [g=1:groups] { body = body + strip(g) + 96 }
load plots."/style.gp"
subtitle = "Bound: for any input and any two positions, before any cap. ". \
    "Form: of the rows as they are stored. Colors: by panel."
load plots."/page.gp"
unset grid
set yrange [*:*] reverse

array title_of[3] = ["bound on |logit|", "spectral norm of w_q^T w_k", "SVD entropy of w_q^T w_k"]
set multiplot
set border 15 lw 0.8
set xtics font ",11" scale 0.3; set ytics font ",11" scale 0.3
set cbtics font ",11" scale 0.4
set colorbox user
top_edge = top + 24
do for [g=1:groups] {
  set tmargin at screen y_of(top_edge)
  set bmargin at screen y_of(top_edge + strip(g))
  set xrange [-0.5:heads[g]-0.5]; set yrange [layers[g]-0.5:-0.5]
  step_x = heads[g] > 64 ? 16 : heads[g] > 16 ? 4 : heads[g] > 8 ? 2 : 1
  step_y = layers[g] > 48 ? 8 : layers[g] > 16 ? 4 : layers[g] > 8 ? 2 : 1
  set xtics 0,step_x; set ytics 0,step_y
  set xlabel "head" font ",11" offset 0,0.6
  do for [m=1:3] {
    left = 0.055 + (m - 1) * 0.318
    set lmargin at screen left; set rmargin at screen left + 0.235
    set colorbox user origin left + 0.243,y_of(top_edge + strip(g)) size 0.010,1.0 * strip(g) / height noborder
    if (m == 1) { set ylabel "layer" font ",11" offset 1.2,0 } else { unset ylabel }
    bar_low = low[m]; bar_high = high[m]; bar_linear = m == 3; bar_free = 12.0 / strip(g)
    load plots."/bar.gp"
    set label 1 title_of[m] at graph 0,1 offset 0,0.6 font ",12" tc rgb ink noenhanced
    if (m == 1) {
      set label 2 source[g] at graph 0,1 offset 0,1.8 font ",12" tc rgb soft noenhanced
    }
    plot $data index 3*(g-1)+m-1 using 1:2:3 with image notitle
    unset label 2
    load plots."/head_off.gp"
  }
  top_edge = top_edge + strip(g) + 96
}
unset multiplot
set output
