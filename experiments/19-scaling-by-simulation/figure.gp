# figure.gp - what a step takes on simulated clusters, by ranks: simulated, by the model of cost, and computing alone
# Called by run.sh with points (set, cluster, ranks, milliseconds simulated, by the model, of computing), term, out, style.
width = 1320; height = 640
groups = 2
array kind[2] = ["muon", "adam"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
sets = "weak strong context longer"
array title_[4] = ["a micro-batch a rank", "256 micro-batches, divided", "2048 tokens, cut", "64 tokens a rank, cut"]
array under[4] = ["ranks", "ranks", "ranks along the context", "ranks along the context"]
clusters = "ethernet gpus"
array tint[2] = [0xD55E00, 0x0072B2]
array called[2] = ["25 Gb/s Ethernet, 20 us, 50 Gflop/s a rank", "8 GPUs a node, 400 Gb/s between nodes, 1 Tflop/s a rank"]
set multiplot
set label 100 "{/:Bold A step of a small model on simulated clusters}: weak and strong scaling by the batch, strong and weak by the context" \
    at screen 0.03,0.965 font ",15" tc rgb ink
set label 101 "Points: the program under SimGrid. Lines: the model of cost. Dashed: computing alone. 28 thousand parameters: messages are nearly all latency." \
    at screen 0.03,0.925 font ",11" tc rgb soft
set logscale x 2; set xrange [0.9:]; set offsets 0, graph 0.05, 0, 0
do for [p=1:4] {
  s = word(sets, p)
  left = 0.055 + 0.24 * (p - 1)
  set lmargin at screen left; set rmargin at screen left + 0.195
  set tmargin at screen 0.83; set bmargin at screen 0.50
  set label 1 title_[p] at graph 0,1.06 font ",12" tc rgb ink
  set logscale y; unset xlabel; set format x ""; set format y "%g"; set yrange [*:*]
  set xtics (1, 8, 64, 256, 1024); set ytics autofreq
  if (p > 2) { set xtics (1, 8, 16, 32, 64) }
  if (p == 1) { set ylabel "milliseconds a step" offset 1,0 font ",12" } else { unset ylabel }
  if (p == 2) { set key at screen 0.5,0.05 center center vertical Left reverse samplen 1.5 font ",11.5" } else { unset key }
  plot for [c=1:2] "<awk '$1 == \"".s."\" && $2 == \"".word(clusters, c)."\"' ".points using 3:5 with lines lw 1.6 lc rgb tint[c] notitle, \
       for [c=1:2] "<awk '$1 == \"".s."\" && $2 == \"".word(clusters, c)."\"' ".points using 3:6 with lines lw 1.2 dt (6,4) lc rgb tint[c] notitle, \
       for [c=1:2] points using (strcol(1) eq s && strcol(2) eq word(clusters, c) ? $3 : NaN):4 with points pt 7 ps 0.9 lc rgb tint[c] title called[c]
  unset label 1; unset label 100; unset label 101
  set tmargin at screen 0.45; set bmargin at screen 0.20
  unset logscale y; unset key; set format x "%g"; set xlabel under[p] offset 0,0.3; set yrange [0:100]; set ytics 25
  if (p == 1) { set ylabel "% not computing" offset 1,0 font ",12" } else { unset ylabel }
  plot for [c=1:2] "<awk '$1 == \"".s."\" && $2 == \"".word(clusters, c)."\"' ".points using 3:(100 * (1 - $6 / $5)) with lines lw 1.6 lc rgb tint[c] notitle, \
       for [c=1:2] points using (strcol(1) eq s && strcol(2) eq word(clusters, c) ? $3 : NaN):(100 * (1 - $6 / $4)) with points pt 7 ps 0.9 lc rgb tint[c] notitle
}
unset multiplot
set output
