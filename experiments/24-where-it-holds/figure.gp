# figure.gp - 50 000 steps under Adam and Muon on double logarithmic axes; exponents of growth in every regime
# Called by run.sh with curves (Adam's block, then Muon's: step, geometric mean over seeds, lowest, highest), exponents (regime,
# optimizer, exponent, interval), term, out, style.
width = 1120; height = 500
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
array hue[2] = [0xD55E00, 0x0072B2]
array name[2] = ["Adam", "Muon"]
set multiplot
set label 100 "{/:Bold Decay of gains stops the growth; six layers close the gap between Adam and Muon}" at screen 0.03,0.94 font ",16.5" tc rgb ink
set label 101 "Copy task, 2 layers, 4 heads, width 64, constant rate, no decay of matrices. One thing changed per row. Bands, bars: lowest to highest seed." \
    at screen 0.03,0.875 font ",10.5" tc rgb soft
set tmargin at screen 0.77; set bmargin at screen 0.15
set lmargin at screen 0.07; set rmargin at screen 0.45
set label 1 "50 000 steps, largest max logit  [nat]" at graph 0,1.05 font ",13" tc rgb ink
stats curves index 0 using 1 nooutput
set logscale xy; set xrange [STATS_max / 200 : STATS_max]; set xlabel "training step"
set xtics (300, 1000, 3000, 10000, 30000); set ytics (3, 10, 30, 100, 300, 1000, 3000, 10000)
set key at graph 0.03,0.98 left top Left reverse samplen 2 spacing 1.1 font ",11"
plot for [i=1:2] curves index i-1 using 1:3:4 with filledcurves fc rgb hue[i] + 0xDD000000 notitle, \
     for [i=1:2] curves index i-1 using 1:2 with lines lw 1.8 lc rgb hue[i] title name[i]
unset logscale; unset key; unset label 100; unset label 101

set lmargin at screen 0.68; set rmargin at screen 0.97
set label 1 "exponent of growth, last nine tenths" at graph -0.55,1.05 font ",13" tc rgb ink
name_of(r) = r eq "plain" ? "copy task" : r eq "gains" ? "decay of gains alone" : r eq "latent" ? "latent attention" : r eq "deep" ? "6 layers" : \
  r eq "long" ? "50 000 steps" : r eq "wide" ? "width 128" : r eq "memorized" ? "4 kB of text" : r eq "text" ? "whole text" : r
stats exponents using 3 nooutput
set yrange [STATS_records / 2 + 0.5 : 0.5]; set xrange [*:*] noextend; set xlabel "d ln S / d ln t"; set xtics 0.5
set ytics (); unset grid; set grid x lc rgb faint lw 0.7; set offsets graph 0.04, graph 0.04, 0, 0
set arrow 1 from 1, graph 0 to 1, graph 1 nohead lc rgb soft dt 11 lw 1
set arrow 2 from 0.5, graph 0 to 0.5, graph 1 nohead lc rgb soft dt 11 lw 1
plot exponents using 3:(int($0 / 2) + 1 + (int($0) % 2 ? 0.13 : -0.13)):4:5:(hue[int($0) % 2 + 1]) with xerrorbars pt 7 ps 0.9 lw 1.4 lc rgb variable notitle, \
     exponents using 3:($0 + 1):ytic(name_of(strcol(1))) every 2 with points pt 7 ps 0 notitle
unset multiplot
set output
