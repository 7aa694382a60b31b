# figure.gp - max logits by width, at each width's best rate and at one rate for all; Muon over Adam
# Called by run.sh with logits (blocks: Adam, Muon at their best rates, then at one rate: width, max logit, lowest, highest), ratios
# (width, Muon over Adam, interval), seeds_are, term, out and style.
width = 1100; height = 500
groups = 1
array kind[1] = ["muon"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [1]; array seeds[1] = [1]
load style
array hue[2] = [0xD55E00, 0x0072B2]
array who[2] = ["Adam", "Muon"]
array at[2] = ["0.005", "0.01"]
set dashtype 12 (9,5)
set multiplot
set label 100 "{/:Bold Max logits by width}" at screen 0.03,0.945 font ",17" tc rgb ink
set label 101 "Largest head of the training batches of the last 5 % of 300 steps; a text, 2 layers, heads of 16 numbers, decay 0.1." at screen 0.03,0.89 font ",10.5" tc rgb soft
set label 102 "Solid: each width at its best rate, median and range of ".seeds_are."; dashed: one rate for all widths, geometric mean of the selection seeds." \
    at screen 0.03,0.85 font ",10.5" tc rgb soft
set tmargin at screen 0.76; set bmargin at screen 0.14
set logscale x 2; set xtics (32, 64, 128, 256, 512, 1024); set xrange [*:*] noextend; set offsets graph 0.06, graph 0.06, graph 0.08, graph 0.08
set xlabel "width" offset 0,0.3

set lmargin at screen 0.07; set rmargin at screen 0.55
set label 1 "max logit  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set logscale y; set yrange [*:*] noextend; set ytics (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1000)
set key at graph 0.02,0.98 left top Left reverse samplen 2 spacing 1.15 font ",11"
plot for [o=1:2] logits index o-1 using ($1 * (o == 1 ? 0.985 : 1.015)):2:3:4 with yerrorbars pt 7 ps 0.9 lw 1.3 lc rgb hue[o] notitle, \
     for [o=1:2] logits index o-1 using ($1 * (o == 1 ? 0.985 : 1.015)):2 with lines lw 1.6 lc rgb hue[o] title who[o].", best rate", \
     for [o=1:2] logits index o+1 using 1:2 with linespoints pt 6 ps 0.7 lw 1.3 dt 12 lc rgb hue[o] title who[o].", ".at[o]
unset label 100; unset label 101; unset label 102; unset key

set lmargin at screen 0.64; set rmargin at screen 0.985
set label 1 "Muon over Adam, each at its best rate" at graph 0,1.05 font ",13" tc rgb ink
set ytics (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.25, 1.5, 2, 3, 5, 10); set yrange [*:*] noextend
set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lc rgb faint lw 1
set arrow 2 from graph 0, first 1.25 to graph 1, first 1.25 nohead dt 2 lc rgb faint lw 1
plot ratios using 1:2:3:4 with yerrorbars pt 7 ps 0.9 lw 1.3 lc rgb ink notitle, ratios using 1:2 with lines lw 1.4 lc rgb ink notitle
unset multiplot
set output
