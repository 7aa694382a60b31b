# figure.gp - norms and max logits of the heads of layer 1, seed 1, under one clip factor a layer and a head
# Called by run.sh with work (folder of SCOPE-SEED.products and .logits), term, out and style.
width = 1200; height = 760
groups = 1
array kind[1] = ["muonclip"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [1]; array seeds[1] = [1]
load style

heads = 8; dead = 0.01; tau = 10.
hue(h) = word("#E69F00 #56B4E9 #009E73 #222222 #0072B2 #D55E00 #CC79A7 #8C6D31", h)
scope(c) = c == 1 ? "layer" : "head"
file(c, what) = sprintf("%s/%s-1.%s", work, scope(c), what)

# both columns share an axis that holds every value above zero, in whole decades; for each row of panels
array low[2] = [dead, tau]; array high[2] = [dead, tau]
last_step = 0
do for [r=1:2] { do for [c=1:2] { do for [h=1:heads] {
  stats file(c, r == 1 ? "products" : "logits") using 1:(column(h + 1) > 0 ? column(h + 1) : NaN) name "S" nooutput
  if (S_min_y < low[r]) { low[r] = S_min_y }
  if (S_max_y > high[r]) { high[r] = S_max_y }
  if (S_max_x > last_step) { last_step = S_max_x }
} } }
down(y) = 10.0**floor(log10(y)); up(y) = 10.0**ceil(log10(y))

set multiplot
set label 100 "{/:Bold Norms and max logits of the heads of layer 1 under QK-Clip}" at screen 0.035,0.965 font ",17" tc rgb ink
set label 101 "Layer 1 of 2, 8 heads (one colour each), width 128, MuonClip, {/Symbol t} = 10, lr 0.03, weight decay 0.1, seed 1." \
    at screen 0.035,0.925 font ",12" tc rgb soft
set logscale y; set mytics 10
set xrange [0:last_step]
do for [c=1:2] {
  set lmargin at screen 0.085 + 0.475 * (c - 1); set rmargin at screen 0.085 + 0.475 * (c - 1) + 0.415
  set label 1 (c == 1 ? "one clip factor a layer" : "one clip factor a head") at graph 0,1.06 font ",13" tc rgb "#444444"
  # norms
  set tmargin at screen 0.85; set bmargin at screen 0.50
  set yrange [down(low[1]):up(high[1])]; set ytics 100; set format y "10^{%L}"; set format x ""; unset xlabel
  if (c == 1) { set ylabel "|w_q| |w_k|  (Frobenius norms)" offset 0.5,0 noenhanced } else { unset ylabel }
  set arrow 1 from graph 0,first dead to graph 1,first dead nohead lc rgb faint dt (8,6) lw 0.8 back
  set label 2 "dead below 0.01" at graph 0.01,first dead offset 0,-0.7 left font ",10" tc rgb faint
  plot for [h=1:heads] file(c, "products") using 1:(column(h+1) > 0 ? column(h+1) : NaN) \
      with lines lw 2 lc rgb hue(h) notitle
  # logits
  set tmargin at screen 0.45; set bmargin at screen 0.10
  set yrange [down(low[2]):up(high[2])]; set format x "%g"; set xlabel "training step" offset 0,0.4
  if (c == 1) { set ylabel "max logit  (softmax input)" offset 0.5,0 } else { unset ylabel }
  set arrow 1 from graph 0,first tau to graph 1,first tau nohead lc rgb faint dt (8,6) lw 0.8 back
  set label 2 "clip threshold {/Symbol t} = 10" at graph 0.99,first tau offset 0,1.4 right font ",10" tc rgb faint
  unset label 1
  plot for [h=1:heads] file(c, "logits") using 1:(column(h+1) > 0 ? column(h+1) : NaN) \
      with lines lw 1.2 lc rgb hue(h) notitle
  unset label 100; unset label 101
}
unset multiplot
