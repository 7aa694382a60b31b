# mechanism.gp - counterfactuals: the logits, and for how long updates have gone one way
# Called by run.sh with mechanism (vectors, spectrum, max logit, lo, hi, ..., tab separated) and persistence (step, steps
# that the sign has held; a block for each of adam, muon, random vectors x adam, muon spectrum), term, out, style.
width = 1180; height = 500
groups = 1
array kind[1] = [""]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [1]; array seeds[1] = [1]
load style
array hue[3] = [0xD55E00, 0x0072B2, 0x777777]
array who[3] = ["Adam's vectors", "Muon's vectors", "random vectors"]
set dashtype 2 (7,3)
array short[3] = ["Adam", "Muon", "random"]
array whose[2] = ["Adam's spectrum", "Muon's spectrum"]
of(v) = v eq "adam" ? 1 : v eq "muon" ? 2 : 3
spectrum(s) = s eq "adam" ? 1 : 2
set multiplot
set label 100 "{/:Bold Max logits by the singular vectors and the spectrum of an update}" at screen 0.03,0.95 font ",17" tc rgb ink
set label 101 "Updates of one RMS. Point: geometric mean over seeds; bar: its 95 % interval (Student's t on logarithms); line: mean over seeds and matrices." \
    at screen 0.03,0.895 font ",11" tc rgb soft
set tmargin at screen 0.81; set bmargin at screen 0.14

set lmargin at screen 0.25; set rmargin at screen 0.47
set label 1 "max logit of an update's vectors × spectrum" at graph -0.85,1.06 font ",13" tc rgb ink
set logscale x; set format x "10^{%L}"; set xlabel "max logit  [nat]"
set yrange [5.6:-0.6]; set ytics scale 0 font ",11"
set datafile separator "\t"
plot mechanism using 3:0:($4 == $4 ? $4 : $3):($4 == $4 ? $5 : $3):(hue[of(strcol(1))]):ytic(who[of(strcol(1))]." × ".whose[spectrum(strcol(2))]) \
  with xerrorbars pt 7 ps 0.9 lw 1.4 lc rgb variable
unset logscale x; unset label 100; unset label 101; set datafile separator

set lmargin at screen 0.55; set rmargin at screen 0.845
set label 1 "for how long the sign of u_1^T dW v_1 has held, w_q and w_k" at graph 0,1.06 font ",13" tc rgb ink
set xrange [0:*]; set yrange [*:*]; set format x "%g"; set xtics autofreq; set ytics autofreq scale 0.5 font ",12"; set format y "%g"
set xlabel "training step"; set ylabel "steps, times the sign" offset 1,0
set key at screen 0.995,0.81 right top samplen 1.6 spacing 1.25 font ",11" title "{/=11 vectors × spectrum}"
plot x with lines lw 1 lc rgb faint dt (2,4) title "one sign", \
     for [b=0:5] persistence index b using 1:2 with lines lw 2 lc rgb hue[b / 2 + 1] dt 2 - b % 2 \
       title short[b / 2 + 1]." × ".short[b % 2 + 1]
unset multiplot
set output
