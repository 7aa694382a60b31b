# rates.gp - the selection runs: max logits by step for each rate, then loss and last max logit by rate
# Called by run.sh with paths (a block a rate of an arm: step, geometric mean of the largest head over seeds), blocks (their arms and
# rates: "adam-constant:0.001 ..."), tuned (an arm a block: rate, loss, 1 where chosen, last max logit), steps, term, out, style.
width = 1280; height = 470
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
array hue[2] = [0xD55E00, 0x0072B2]
set dashtype 12 (9,5)
set multiplot
set label 100 "{/:Bold At rates near the best, max logits settle: ".steps." steps, every rate that was tried}" at screen 0.03,0.94 font ",17" tc rgb ink
set label 101 "Largest head on the probe batch, geometric mean over the seeds of the table; a text, 2 layers, 2 heads, width 32, decay 0.1. Darker: larger rate. Ring: the lowest loss of an arm." \
    at screen 0.03,0.88 font ",10.5" tc rgb soft
set tmargin at screen 0.78; set bmargin at screen 0.15
N = int(steps)
m = words(blocks)
arm_of(i) = word(blocks, i)[1:strstrt(word(blocks, i), ":") - 1]
rate_of(i) = real(word(blocks, i)[strstrt(word(blocks, i), ":") + 1:*])
shade(i) = (d = clamp((log10(rate_of(i)) + 3.1) / 1.4, 0, 1), arm_of(i)[1:4] eq "adam" ? \
  (int(250 - 110 * d) * 65536 + int(190 - 140 * d) * 256 + int(150 - 150 * d)) : (int(160 - 160 * d) * 65536 + int(205 - 140 * d) * 256 + int(235 - 105 * d)))
set logscale y; set ytics (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1000)
set xrange [0:N]; set xtics ("0" 0, sprintf("%gk", N / 2000.0) N / 2, sprintf("%gk", N / 1000.0) N); set xlabel "training step  (k: thousand)"; set yrange [4:20]
do for [k=1:2] {
  set lmargin at screen 0.05 + 0.235 * (k - 1); set rmargin at screen 0.05 + 0.235 * (k - 1) + 0.205
  set label 1 (k == 1 ? "Adam, max logit  [nat]" : "Muon") at graph 0,1.05 font ",13" tc rgb ink
  own = ""
  do for [i=1:m] { if (arm_of(i) eq (k == 1 ? "adam-constant" : "muon-constant")) { own = own." ".i } }
  plot for [i in own] paths index int(i)-1 using 1:2 with lines lw 1.6 lc rgb shade(int(i)) notitle
  unset label 100; unset label 101
}
set xrange [*:*]; set yrange [*:*]; set xlabel "learning rate"
set xtics (0.0001, 0.001, 0.01, 0.1); set logscale x; set ytics autofreq
line(b) = b < 2 ? 1 : 12
set lmargin at screen 0.54; set rmargin at screen 0.735
set label 1 "max logit, last 5 %  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set ytics (5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 100)
set yrange [5:30]
set key at graph 0.03,0.985 left top Left reverse samplen 2 font ",10.5"
plot for [b=0:3] tuned index b using 1:4 with linespoints pt 7 ps 0.5 lw 1.4 dt line(b) lc rgb hue[b % 2 + 1] title (b % 2 ? "Muon, " : "Adam, ").(b < 2 ? "constant" : "cosine"), \
     for [b=0:3] tuned index b using ($3 == 1 ? $1 : NaN):4 with points pt 6 ps 1.9 lw 1.6 lc rgb hue[b % 2 + 1] notitle
unset key; unset logscale y; set ytics autofreq; set yrange [*:*]
set lmargin at screen 0.80; set rmargin at screen 0.985
set label 1 "validation loss  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set format y "%.2f"
plot for [b=0:3] tuned index b using 1:2 with linespoints pt 7 ps 0.5 lw 1.4 dt line(b) lc rgb hue[b % 2 + 1] notitle, \
     for [b=0:3] tuned index b using ($3 == 1 ? $1 : NaN):2 with points pt 6 ps 1.9 lw 1.6 lc rgb hue[b % 2 + 1] notitle
unset multiplot
set output
