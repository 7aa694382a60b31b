# figure.gp - max logits of small and large vocabularies at best rates; ends and losses over the rate
# Called by run.sh with curves (an arm a block: step, geometric mean over seeds, lowest, highest), points (an arm a block: rate,
# end, loss, 1 at the best rate), steps, term, out, style. Arms: Adam and Muon, each with 64 and 8192 symbols.
width = 1280; height = 500
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
array hue[4] = [0xD55E00, 0xD55E00, 0x0072B2, 0x0072B2]
array name[4] = ["Adam, 64 symbols", "Adam, 8192 symbols", "Muon, 64 symbols", "Muon, 8192 symbols"]
dashes(i) = i % 2 ? 1 : 2
N = int(steps)
set multiplot
set label 100 "{/:Bold With 8192 symbols instead of 64, max logits end lower at the best rates}" at screen 0.03,0.94 font ",17" tc rgb ink
set label 101 "Built-in source of equal entropy, 2 layers, 4 heads, width 64, constant rate, no weight decay. Solid: 64 symbols, dashed: 8192. Rings: best rates." \
    at screen 0.03,0.875 font ",10.5" tc rgb soft
set tmargin at screen 0.77; set bmargin at screen 0.15
set lmargin at screen 0.06; set rmargin at screen 0.32
set label 1 "max logit at the best rate  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set logscale xy; set xrange [20:N]; set yrange [2:100]; set xlabel "training step"
set xtics (30, 100, 300, 1000); set ytics (3, 5, 10, 20, 50, 100, 200, 500, 1000, 3000, 10000)
set key at graph 0.03,0.98 left top Left reverse samplen 2.5 spacing 1.1 font ",10"
plot for [i=1:4] curves index i-1 using 1:3:4 with filledcurves fc rgb hue[i] + 0xE4000000 notitle, \
     for [i=1:4] curves index i-1 using 1:2 with lines lw 1.8 dt dashes(i) lc rgb hue[i] title name[i]
unset label 100; unset label 101; unset key
set yrange [*:*]; set xrange [*:*] noextend; set xtics (0.001, 0.003, 0.01, 0.03, 0.1); set xlabel "learning rate"; set offsets graph 0.05, graph 0.05, 0, 0
do for [c=2:3] {
  set lmargin at screen (c == 2 ? 0.39 : 0.72); set rmargin at screen (c == 2 ? 0.65 : 0.98)
  set label 1 (c == 2 ? "max logit at the end  [nat]" : "validation loss at the end  [nat]") at graph 0,1.05 font ",13" tc rgb ink
  if (c == 3) { unset logscale y; set ytics auto }
  plot for [i=1:4] points index i-1 using 1:c with linespoints pt 7 ps 0.5 lw 1.6 dt dashes(i) lc rgb hue[i] notitle, \
       for [i=1:4] points index i-1 using 1:($4 > 0 ? column(c) : NaN) with points pt 6 ps 1.8 lw 1.6 lc rgb hue[i] notitle
}
unset multiplot
set output
