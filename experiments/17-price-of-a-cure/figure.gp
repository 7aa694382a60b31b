# figure.gp - the price of a threshold by how far below the reach it lies; price and reach of every arm
# Called by run.sh with prices (a block a cure: threshold over reach, price, interval), points (arm, price, interval, reach, interval,
# 1 on the front), seeds_are, term, out and style.
width = 1180; height = 520
groups = 1
array kind[1] = ["muon"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [1]; array seeds[1] = [1]
load style
array hue[3] = [0x0072B2, 0xD55E00, 0x009E73]
array cure[3] = ["QK-Clip per head", "QK-Clip per layer", "soft cap"]
array starts[3] = ["head-", "layer-", "cap-"]
is(c, a) = substr(a, 1, strlen(starts[c])) eq starts[c]
array other[6] = ["none", "qk_norm", "sigma_reparam", "learned_sink", "output_gate", "ssmax"]
array said[6] = ["no cure", "QK-Norm", "sigmaReparam", "learned sink", "output gate", "SSMax"]
array shape[6] = [2, 5, 9, 11, 13, 1]
set multiplot
set label 100 "{/:Bold What holding the logits down costs, each cure at its own best rate}" at screen 0.03,0.95 font ",17" tc rgb ink
set label 101 "Muon, a text, 2 layers, 4 heads, width 64, 600 steps. Medians of ".seeds_are."; bars: from the lowest to the highest (price: of pairs of equal seed)." \
    at screen 0.03,0.895 font ",11" tc rgb soft
set tmargin at screen 0.79; set bmargin at screen 0.14

set lmargin at screen 0.075; set rmargin at screen 0.455
set label 1 "loss less that of no cure  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set logscale x; set xtics (0.02, 0.05, 0.1, 0.2, 0.5, 1); set xrange [*:*] noextend; set offsets graph 0.06, graph 0.04, 0, 0
set xlabel "threshold, as a fraction of what logits reach without a cure" offset 0,0.3
set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lc rgb faint lw 1
set arrow 2 from graph 0, first 0.02 to graph 1, first 0.02 nohead dt 2 lc rgb faint lw 1
set label 2 "0.02: what matters" at graph 0.98, first 0.02 right offset 0,0.5 font ",10" tc rgb soft
set key at graph 0.99,0.97 right top samplen 1.5 spacing 1.15 font ",11"
nudge(c) = 1 + 0.03 * (c - 2)
plot for [c=1:3] prices index c-1 using ($1 * nudge(c)):2 with lines lw 1.4 lc rgb hue[c] notitle, \
     for [c=1:3] prices index c-1 using ($1 * nudge(c)):2:3:4 with yerrorbars pt 7 ps 0.9 lw 1.3 lc rgb hue[c] title cure[c]
unset label 100; unset label 101; unset label 2; unset arrow; unset key

set lmargin at screen 0.555; set rmargin at screen 0.985
set label 1 "the same of every arm; ringed: on the front" at graph 0,1.05 font ",13" tc rgb ink
set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lc rgb faint lw 1
set xtics (0.5, 1, 2, 5, 10, 20, 50, 100, 200); set offsets graph 0.06, graph 0.06, 0, 0
set xlabel "largest number that enters the softmax in the whole run"
set key at graph 0.99,0.97 right top samplen 1 spacing 1.15 font ",11"
plot for [c=1:3] points using (is(c, strcol(1)) ? $5 : NaN):2:6:7:3:4 with xyerrorbars pt 7 ps 0.8 lw 1 lc rgb hue[c] notitle, \
     for [k=1:6] points using (strcol(1) eq other[k] ? $5 : NaN):2:6:7:3:4 with xyerrorbars pt shape[k] ps 0 lw 1 lc rgb ink notitle, \
     for [k=1:6] points using (strcol(1) eq other[k] ? $5 : NaN):2 with points pt shape[k] ps 1.1 lw 1.4 lc rgb ink title said[k], \
     points using ($8 == 1 ? $5 : NaN):2 with points pt 6 ps 2 lw 1 lc rgb soft notitle
unset multiplot
set output
