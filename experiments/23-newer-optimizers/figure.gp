# figure.gp - the growth of max logits under six optimizers, and its exponents
# Called by run.sh with curves (an arm a block: step, geometric mean over seeds, lowest, highest), points (arm, exponent, lowest,
# highest), steps, term, out, style.
width = 1180; height = 520
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
array hue[6] = [0xD55E00, 0x0072B2, 0x009E73, 0x7A5195, 0xCC79A7, 0x8C6D31]
array name[6] = ["Adam", "Muon", "compositional Muon", "KL-Shampoo", "Scion", "Dion"]
N = int(steps)
set multiplot
set label 100 "{/:Bold Compositional Muon grows like Adam; Scion and Dion grow faster than Muon}" at screen 0.03,0.945 font ",17" tc rgb ink
set label 101 "Copy task, 2 layers, 4 heads, width 64, constant rate, no weight decay. Largest logit on the probe batch. Bands, bars: lowest to highest seed." \
    at screen 0.03,0.885 font ",10.5" tc rgb soft
set tmargin at screen 0.78; set bmargin at screen 0.14
set lmargin at screen 0.07; set rmargin at screen 0.55
set label 1 "largest head, mean over seeds  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set logscale xy; set xrange [N / 90.0 : N]; set yrange [3:3000]; set xlabel "training step"
set xtics (100, 300, 1000, 3000, 8000); set ytics (3, 10, 30, 100, 300, 1000, 3000)
set key at graph 0.03,0.98 left top Left reverse samplen 1.5 spacing 1.1 font ",10.5"
plot for [i=1:6] curves index i-1 using 1:3:4 with filledcurves fc rgb hue[i] + 0xDD000000 notitle, \
     for [i=1:6] curves index i-1 using 1:2 with lines lw 1.9 lc rgb hue[i] title name[i]
unset label 100; unset label 101; unset logscale; unset key
set lmargin at screen 0.76; set rmargin at screen 0.97
set label 1 "exponent of growth, last nine tenths" at graph -0.5,1.05 font ",13" tc rgb ink
set xrange [0:*]; set yrange [6.6:0.4]; set xtics 0.5; set xlabel "d ln S / d ln t"
set ytics (); unset grid; set grid x lc rgb faint lw 0.7
set arrow 1 from 1, graph 0 to 1, graph 1 nohead lc rgb soft dt 11 lw 1
set arrow 2 from 0.5, graph 0 to 0.5, graph 1 nohead lc rgb soft dt 11 lw 1
plot points using 2:($0 + 1):3:4:ytic(name[int($0) + 1]) with xerrorbars pt 7 ps 0.1 lw 1.3 lc rgb ink notitle, \
     points using 2:($0 + 1):(hue[int($0) + 1]) with points pt 7 ps 1.1 lc rgb variable notitle
unset multiplot
set output
