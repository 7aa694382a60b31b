# figure.gp - the law: predicted against measured growth of heads; its rivals by set; Muon less Adam
# Called by run.sh with points (number of the set, predicted, measured, last layer, optimizer 1 Adam, 2 Muon, 3 another; set),
# judged (set, rival, R^2), sets (their names), sums (set, rate, predicted, measured, pairs, path, alignment), term, out, style.
width = 1280; height = 590
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
array hue[3] = [0xD55E00, 0x0072B2, 0x009E73]
array who[3] = ["Adam", "Muon", "another"]
set multiplot
set label 100 "{/:Bold A head's logits grow with what updates add to its form, and with the gain}" \
    at screen 0.03,0.955 font ",16" tc rgb ink
set label 101 "One line for all heads and optimizers, fitted on 18 runs (Adam, Muon; three rates, three seeds); shown and judged on runs that it has not seen. ln: natural logarithm." \
    at screen 0.03,0.908 font ",11" tc rgb soft
set tmargin at screen 0.81; set bmargin at screen 0.20

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
set label 1 "R^2, the law and its rivals" at graph 0,1.05 font ",13" tc rgb ink
ns = words(sets)
set xrange [-0.4:1]; set yrange [ns + 0.6:0.4]
set xtics 0.2 font ",11"; set xlabel "of predictions (at the edge: below)"; unset ylabel
set ytics () scale 0 font ",11"; do for [i=1:ns] { set ytics add (word(sets, i) eq "fit" ? "fit (seen)" : word(sets, i) i) }
set grid y
set arrow 1 from first 0.7, graph 0 to first 0.7, graph 1 nohead lc rgb faint dt (6,4)
array sign[6] = [4, 8, 10, 6, 12, 7]
array tint[6] = [0xA0A0A0, 0xE69F00, 0xCC79A7, 0x56B4E9, 0x7A5195, 0x111111]
array mark[6] = ["sum of rates", "path, RMS", "path, norm", "drive alone", "gain alone", "both: the law"]
array rival[6] = [5, 6, 7, 3, 4, 1]
do for [i=1:6] {
  set label 20 + i mark[i] at screen 0.425 + 0.09 * ((i - 1) % 3), 0.06 - 0.033 * ((i - 1) / 3) left offset 1,0 font ",10.5" tc rgb ink \
    point pt sign[i] ps (i == 6 ? 1.1 : 0.8) lc rgb tint[i]
}
clip(r) = r < -0.39 ? -0.39 : r
plot for [i=1:6] judged using ($2 == rival[i] ? clip($3) : NaN):1 with points pt sign[i] ps (i == 6 ? 1.1 : 0.8) lc rgb tint[i] notitle
do for [i=1:6] { unset label 20 + i }
unset arrow 1; unset key; set grid noy; set grid back lc rgb "#DDDDDD" lw 0.6 dt 1

set lmargin at screen 0.735; set rmargin at screen 0.985
set label 1 "Muon less Adam, last layer" at graph 0,1.05 font ",13" tc rgb ink
set xrange [*:*]; set yrange [*:*]; set xtics 1 font ",11"; set ytics 0.5 scale 0.6 font ",11"
set xlabel "predicted, median of the pairs"; set ylabel "measured growth of ln max |logit|" offset 1,0
set offsets graph 0.05, graph 0.2, graph 0.1, graph 0.1
set arrow 2 from graph 0, first 0 to graph 1, first 0 nohead lc rgb faint lw 0.8
set arrow 3 from first 0, graph 0 to first 0, graph 1 nohead lc rgb faint lw 0.8
set label 2 "Muon's grow more" at graph 0.97,0.96 right font ",10.5" tc rgb ink
set label 3 "Adam's grow more" at graph 0.97,0.04 right font ",10.5" tc rgb ink
set label 4 "without a name: close to zero" at graph 0.97,0.09 right font ",9.5" tc rgb soft
name(i) = strcol(1).(strcol(2) eq "tuned" ? "" : " ".strcol(2))
side(i) = strcol(1) eq "fit" || (abs($4) < 0.35 && abs($3) < 0.5) ? 0 : ((-1.4 < $3 && $3 < -0.8) || $3 > 1.4 ? -1 : 1)
plot x with lines lw 1 lc rgb faint dt (6,4) notitle, \
     sums using (strcol(1) eq "fit" ? NaN : $3):4 with points pt 7 ps 0.8 lc rgb ink notitle, \
     sums using (side(1) == 1 ? $3 : NaN):4:(name(1)) with labels left offset 0.6,0 font ",8.5" tc rgb soft notitle, \
     sums using (side(1) == -1 ? $3 : NaN):4:(name(1)) with labels right offset -0.6,0 font ",8.5" tc rgb soft notitle
unset multiplot
set output
