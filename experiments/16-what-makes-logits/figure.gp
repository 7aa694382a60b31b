# figure.gp - the law: predicted against measured growth of heads; its rivals by set; Muon less Adam
# Called by run.sh with points (number of the set, predicted, measured, last layer, optimiser 1 Adam, 2 Muon, 3 another; set),
# judged (set, rival, R^2), sets (their names), sums (set, rate, predicted, measured, pairs, path, alignment), term, out, style.
width = 1280; height = 560
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
array hue[3] = [0xD55E00, 0x0072B2, 0x009E73]
array who[3] = ["Adam", "Muon", "another"]
set multiplot
set label 100 "{/:Bold A head's logits grow as updates drive the leading singular value of its form, and as its norm's gain grows}" \
    at screen 0.03,0.955 font ",16" tc rgb ink
set label 101 "One line for all heads and optimisers, fitted on 18 runs (Adam, Muon; three rates, three seeds); shown and judged on runs that it has not seen. ln: natural logarithm." \
    at screen 0.03,0.908 font ",11" tc rgb soft
set tmargin at screen 0.81; set bmargin at screen 0.13

set lmargin at screen 0.06; set rmargin at screen 0.355
set label 1 "growth of ln max |logit| of every head, tests" at graph 0,1.05 font ",13" tc rgb ink
set xlabel "predicted"; set ylabel "measured, step 100 to the end" offset 1,0
set key at graph 0.02,0.985 left top Left reverse samplen 0.5 spacing 1.15 font ",11"
unlike(s) = s eq "fit" || s eq "clip"
plot x with lines lw 1 lc rgb faint dt (6,4) notitle, \
     for [g=1:3] points using ($5 == g && $4 == 0 && !unlike(strcol(6)) ? $2 : NaN):3 with points pt 6 ps 0.45 lc rgb hue[g] notitle, \
     for [g=1:3] points using ($5 == g && $4 == 1 && !unlike(strcol(6)) ? $2 : NaN):3 with points pt 7 ps 0.5 lc rgb hue[g] notitle, \
     for [g=1:3] NaN with points pt 7 ps 0.8 lc rgb hue[g] title who[g], \
     NaN with points pt 7 ps 0.8 lc rgb soft title "last layer", NaN with points pt 6 ps 0.8 lc rgb soft title "layer before"
unset label 100; unset label 101; unset key

set lmargin at screen 0.435; set rmargin at screen 0.655
set label 1 "R^2 of each by set" at graph 0,1.05 font ",13" tc rgb ink
ns = words(sets)
set xrange [-0.4:1]; set yrange [ns + 0.6:0.4]
set xtics 0.2 font ",11"; set xlabel "R^2 (at the edge: below)"; unset ylabel
set ytics () scale 0 font ",11"; do for [i=1:ns] { set ytics add (word(sets, i) i) }
set grid y
set arrow 1 from first 0.7, graph 0 to first 0.7, graph 1 nohead lc rgb faint dt (6,4)
rivals = "drive gain rates rms norm path"
set key at screen 0.655,0.005 right bottom horizontal samplen 0.4 font ",10.5" maxrows 1 width -1
clip(r) = r < -0.39 ? -0.39 : r
plot judged using ($2 == 5 ? clip($3) : NaN):1 with points pt 4 ps 0.7 lc rgb 0xA0A0A0 title "rates", \
     judged using ($2 == 6 ? clip($3) : NaN):1 with points pt 8 ps 0.8 lc rgb 0xE69F00 title "RMS", \
     judged using ($2 == 7 ? clip($3) : NaN):1 with points pt 10 ps 0.8 lc rgb 0xCC79A7 title "norm", \
     judged using ($2 == 3 ? clip($3) : NaN):1 with points pt 6 ps 0.8 lc rgb 0x56B4E9 title "drive", \
     judged using ($2 == 4 ? clip($3) : NaN):1 with points pt 12 ps 0.9 lc rgb 0x7A5195 title "gain", \
     judged using ($2 == 1 ? clip($3) : NaN):1 with points pt 7 ps 1.1 lc rgb ink title "both: the law"
unset arrow 1; unset key; set grid noy; set grid back lc rgb "#DDDDDD" lw 0.6 dt 1

set lmargin at screen 0.735; set rmargin at screen 0.985
set label 1 "Muon less Adam, last layer" at graph 0,1.05 font ",13" tc rgb ink
set xrange [*:*]; set yrange [*:*]; set xtics autofreq; set ytics autofreq scale 0.6
set xlabel "predicted, median of the pairs"; set ylabel "measured growth of ln max |logit|" offset 1,0
set offsets graph 0.08, graph 0.16, graph 0.06, graph 0.06
set arrow 2 from graph 0, first 0 to graph 1, first 0 nohead lc rgb faint lw 0.8
set arrow 3 from first 0, graph 0 to first 0, graph 1 nohead lc rgb faint lw 0.8
set label 2 "Muon's grow more" at graph 0.97,0.96 right font ",10.5" tc rgb hue[2]
set label 3 "Adam's grow more" at graph 0.97,0.04 right font ",10.5" tc rgb hue[1]
plot x with lines lw 1 lc rgb faint dt (6,4) notitle, \
     sums using (strcol(1) eq "fit" ? NaN : $3):4 with points pt 7 ps 0.8 lc rgb ink notitle, \
     sums using (strcol(1) eq "fit" ? NaN : $3):4:(strcol(1)." ".(strcol(2) eq "tuned" ? "" : strcol(2))) with labels left offset 0.6,0 font ",9" tc rgb soft notitle
unset multiplot
set output
