# figure.gp - the loss over the learning rate under Adam and under Muon, one line per cure; the sensitivities
# Called by run.sh with curves (an arm a block: rate, median over seeds, lowest, highest), points (arm, sensitivity, lowest,
# highest), term, out, style. Arms: Adam's five, then Muon's.
width = 1280; height = 520
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
array hue[5] = [0x555555, 0x0072B2, 0x009E73, 0xD55E00, 0xCC79A7]
array cure[5] = ["no cure", "QK-Clip, {/Symbol t} 20", "QK-Norm", "soft cap 20", "decay 0.1, gains too"]
set multiplot
set label 100 "{/:Bold QK-Norm under Adam and QK-Clip under Muon lower the sensitivity to the rate}" at screen 0.03,0.945 font ",17" tc rgb ink
set label 101 "Built-in source, 2 layers, 4 heads, width 64, 400 steps, cosine schedule. Lines: medians over six seeds; bands and bars: lowest to highest seed." \
    at screen 0.03,0.885 font ",10.5" tc rgb soft
set tmargin at screen 0.78; set bmargin at screen 0.15
set logscale x; set xrange [0.0008:1.25]; set yrange [1.5:3.3]; set format x "%g"
set xtics (0.001, 0.01, 0.1, 1); set ytics 0.5; set xlabel "learning rate"
do for [o=0:1] {
  set lmargin at screen (o ? 0.37 : 0.05); set rmargin at screen (o ? 0.63 : 0.31)
  set label 1 "validation loss, ".(o ? "Muon" : "Adam")."  [nat]" at graph 0,1.05 font ",13" tc rgb ink
  if (o == 0) { set key at graph 0.03,0.98 left top Left reverse samplen 1.5 spacing 1.1 font ",10" } else { unset key }
  plot for [i=1:5] curves index 5*o+i-1 using 1:3:4 with filledcurves fc rgb hue[i] + 0xE0000000 notitle, \
       for [i=1:5] curves index 5*o+i-1 using 1:2 with linespoints pt 7 ps 0.5 lw 1.7 lc rgb hue[i] title cure[i]
  unset label 100; unset label 101
}
unset logscale; unset key; unset format
set lmargin at screen 0.80; set rmargin at screen 0.975
set label 1 "sensitivity to the rate  [nat]" at graph -0.62,1.05 font ",13" tc rgb ink
set xrange [0:*]; set yrange [10.7:0.3]; set xtics 0.1; set xlabel "mean over rates minus least"
set ytics () font ",10"; unset grid; set grid x lc rgb faint lw 0.7
plot points using 2:($0 + 1):3:4:ytic((int($0) < 5 ? "Adam, " : "Muon, ").cure[int($0) % 5 + 1]) with xerrorbars pt 7 ps 0.1 lw 1.3 lc rgb ink notitle, \
     points using 2:($0 + 1):(hue[int($0) % 5 + 1]) with points pt 7 ps 1.1 lc rgb variable notitle
unset multiplot
set output
