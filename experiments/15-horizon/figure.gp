# figure.gp - the horizon: max logits of the four arms by step; Muon over Adam; the rates that were chosen
# Called by run.sh with curves (an arm a block: step, geometric mean, lowest and highest seed), ratios (a schedule a block: step,
# Muon over Adam, interval), tuned (an arm a block: rate, loss, 1 where chosen, max logit), steps, seeds_are, term, out, style.
width = 1280; height = 520
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
array hue[2] = [0xD55E00, 0x0072B2]
array who[2] = ["Adam", "Muon"]
array plan[2] = ["constant", "cosine"]
set dashtype 12 (9,5)
set multiplot
set label 100 "{/:Bold At the best rates no max logit explodes over ".steps." steps}" at screen 0.03,0.945 font ",17" tc rgb ink
set label 101 "Largest head on the probe batch; a text, 2 layers, 2 heads, width 32, decay 0.1. Solid: constant rate; dashed: cosine. Band, bar: lowest to highest of ".seeds_are."." \
    at screen 0.03,0.89 font ",10.5" tc rgb soft
set tmargin at screen 0.79; set bmargin at screen 0.14
line(b) = b < 2 ? 1 : 12
arm(b) = who[b % 2 + 1].", ".plan[b / 2 + 1]

set lmargin at screen 0.055; set rmargin at screen 0.345
set label 1 "max logit  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set logscale y; set ytics (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1000)
N = int(steps)
set xrange [0:N]; set xlabel "training step"; set xtics 0, N / 4
set key at graph 0.99,0.99 right top samplen 2 spacing 1.15 font ",11" maxrows 2
plot for [b=0:3] curves index b using 1:3:4 with filledcurves fc rgb hue[b % 2 + 1] + 0xDD000000 notitle, \
     for [b=0:3] curves index b using 1:2 with lines lw 1.8 dt line(b) lc rgb hue[b % 2 + 1] title arm(b)
unset label 100; unset label 101; unset key

set lmargin at screen 0.405; set rmargin at screen 0.655
set label 1 "Muon over Adam, pairs of equal seed" at graph 0,1.05 font ",13" tc rgb ink
set xtics (N / 100, N * 3 / 100, N / 10, N * 3 / 10, N); set logscale x; set xrange [N / 150.0 : N * 1.5]
set ytics (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.25 1, 1.5, 2, 3, 5, 10)
set yrange [*:*]
set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lc rgb faint lw 1
set key at graph 0.02,0.98 left top Left reverse samplen 1 font ",11"
plot ratios index 0 using ($1 * 0.96):2:3:4 with yerrorbars pt 7 ps 0.9 lw 1.3 lc rgb ink title "constant", \
     ratios index 1 using ($1 * 1.04):2:3:4 with yerrorbars pt 6 ps 0.9 lw 1.3 lc rgb soft title "cosine"
unset arrow 1; unset key; unset logscale y

set lmargin at screen 0.725; set rmargin at screen 0.985
set label 1 "validation loss by rate, selection seeds  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set xrange [*:*]; set yrange [*:*]; set xlabel "learning rate"; set xtics autofreq; set ytics autofreq
set xtics (0.0003, 0.003, 0.03); set format y "%.2f"
plot for [b=0:3] tuned index b using 1:2 with linespoints pt 7 ps 0.5 lw 1.4 dt line(b) lc rgb hue[b % 2 + 1] notitle, \
     for [b=0:3] tuned index b using ($3 == 1 ? $1 : NaN):2 with points pt 6 ps 1.9 lw 1.6 lc rgb hue[b % 2 + 1] notitle
unset multiplot
set output
