# figure.gp - norms and max logits of the heads of layer 1, seed 1, under one clip factor a layer and a head
# Called by run.sh with work (folder of SCOPE-SEED.products and .logits), term, out and style.
width = 1200; height = 800
groups = 1
array kind[1] = ["muonclip"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [1]; array seeds[1] = [1]
load style

heads = 8; dead = 0.01; tau = 10.
hue(h) = word("#E69F00 #56B4E9 #009E73 #222222 #0072B2 #D55E00 #CC79A7 #8C6D31", h)
scope(c) = c == 1 ? "layer" : "head"
file(c, what) = sprintf("%s/%s-1.%s", work, scope(c), what)

# of a head that is dead at the end, its number stands beside the end of its curve
array starved[heads]
ends_of(c, what, h) = sprintf("tail -n 1 %s | awk '{ print $%d }'", file(c, what), h + 1)
do for [h=1:heads] { starved[h] = real(system(ends_of(1, "products", h))) < dead }
name_ends(c, what) = sprintf("do for [h=1:heads] { unset label 10+h; if (%d == 1 && starved[h]) { set label 10+h sprintf('head %%d', h-1) at graph 1,first real(system(ends_of(%d, '%s', h))) offset 0.6,0 left font ',11' tc rgb ink } }", c, c, what)

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
set label 100 "{/:Bold One clip factor per layer starves heads; one per head does not}" at screen 0.03,0.965 font ",17" tc rgb ink
set label 101 "Line: one head of layer 1 of 2, the same color in all panels; 8 heads, width 128, MuonClip, {/Symbol t} = 10, lr 0.03, weight decay 0.1, seed 1." \
    at screen 0.03,0.927 font ",12" tc rgb soft
set logscale y; set mytics 10
eval axis_of_steps(last_step, 1)
do for [c=1:2] {
  set lmargin at screen 0.085 + 0.49 * (c - 1); set rmargin at screen 0.085 + 0.49 * (c - 1) + 0.365
  set label 1 (c == 1 ? "one clip factor per layer" : "one clip factor per head") at graph 0,1.06 font ",13" tc rgb "#444444"
  # norms
  set tmargin at screen 0.85; set bmargin at screen 0.50
  set yrange [down(low[1]):up(high[1])]; set ytics 100; set format y "10^{%L}"; set format x ""; unset xlabel
  if (c == 1) { set ylabel "|w_q| |w_k|  (Frobenius, log scale)" offset 0.5,0 noenhanced } else { unset ylabel }
  set arrow 1 from graph 0,first dead to graph 1,first dead nohead lc rgb faint dt (8,6) lw 0.8 back
  set label 2 "dead below 0.01" at graph 0.01,first dead offset 0,-0.7 left font ",11" tc rgb soft
  eval name_ends(c, "products")
  plot for [h=1:heads] file(c, "products") using 1:(column(h+1) > 0 ? column(h+1) : NaN) \
      with lines lw 2 lc rgb hue(h) notitle
  # logits
  set tmargin at screen 0.45; set bmargin at screen 0.10
  set yrange [down(low[2]):up(high[2])]; set format x "%g"; set xlabel "training step" offset 0,0.4
  if (c == 1) { set ylabel "max logit  (log scale)" offset 0.5,0 } else { unset ylabel }
  set arrow 1 from graph 0,first tau to graph 1,first tau nohead lc rgb faint dt (8,6) lw 0.8 back
  set label 2 "clip threshold {/Symbol t} = 10" at graph 0.99,first tau offset 0,1.7 right font ",11" tc rgb soft
  unset label 1
  eval name_ends(c, "logits")
  plot for [h=1:heads] file(c, "logits") using 1:(column(h+1) > 0 ? column(h+1) : NaN) \
      with lines lw 1.2 lc rgb hue(h) notitle
  unset label 100; unset label 101
}
unset multiplot
