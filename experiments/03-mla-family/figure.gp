# figure.gp - loss on the last quarter of the row at one, two and four times the trained context, by cure
# Called by run.sh with rows ("cure seed val top loss1x loss2x loss4x after" a run), cures (their names in order), term,
# out and style.
width = 1000; height = 560
groups = 1
array kind[1] = ["muon"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [0]; array seeds[1] = [3]
load style

array shown[6] = ["none", "clip, rotary key kept", "clip, key by layer", "clip, key by head", "partial QK-Norm", "QK-Norm"]
hue(i) = word("#222222 #0072B2 #56B4E9 #CC79A7 #D55E00 #E69F00", int(i))
set lmargin at screen 0.105; set rmargin at screen 0.79; set bmargin at screen 0.12; set tmargin at screen 0.82
set label 100 "{/:Bold QK-Norm lowers the loss at longer contexts, not after 50 steps there}" at screen 0.035,0.955 font ",16" tc rgb ink
set label 101 "Point: a seed; line: the mean. Loss on the last quarter of the row. MLA, 8 heads, context 48, Muon, lr 0.03," \
    at screen 0.035,0.905 font ",11" tc rgb soft
set label 102 "weight decay 0.1, 600 steps, {/Symbol t} = 30. RoPE as trained. Dashed, 4x+50: after 50 further steps at four times the context." at screen 0.035,0.868 font ",11" tc rgb soft
set xrange [0.8:4.2]; set xtics ("1x" 1, "2x" 2, "4x" 3, "4x+50" 4); set xlabel "context, as a multiple of the trained one" offset 0,0.3
set ylabel "loss  (nat per token)" offset 1,0
array mean[24]
do for [i=1:6] {
  do for [c=1:4] {
    stats rows using (strcol(1) eq word(cures, i) ? column(4 + c) : NaN) name "S" nooutput
    mean[4 * (i - 1) + c] = S_mean
  }
}
# labels at the line ends, pushed apart
array at[6]
array order[6]
do for [i=1:6] { order[i] = i }
do for [a=1:5] { do for [b=1:6-a] { if (mean[4*order[b]] > mean[4*order[b+1]]) { t = order[b]; order[b] = order[b+1]; order[b+1] = t } } }
stats rows using 7 name "Y" nooutput
stats rows using 5 name "X" nooutput
gap = (Y_max - X_min) * 0.052
do for [k=1:6] { i = order[k]; at[i] = mean[4*i]; if (k > 1 && at[i] < at[order[k-1]] + gap) { at[i] = at[order[k-1]] + gap } }
do for [i=1:6] { set label 10+i shown[i] at first 4.23,at[i] left offset 1,0 font ",12" tc rgb ink point pt 5 ps 1 lc rgb hue(i) }
set print $means
do for [i=1:6] {
  do for [c=1:4] { print sprintf("%d %g", c, mean[4*(i-1)+c]) }
  print ""; print ""
}
set print
shift(i) = (i - 3.5) * 0.03
plot for [i=1:6] for [c=1:4] rows using (strcol(1) eq word(cures, i) ? c + shift(i) : NaN):(column(4 + c)) \
       with points pt 7 ps 0.7 lc rgb hue(i) notitle, \
     for [i=1:6] $means index i-1 every ::0::2 using ($1 + shift(i)):2 with lines lw 1.8 lc rgb hue(i) notitle, \
     for [i=1:6] $means index i-1 every ::2::3 using ($1 + shift(i)):2 with lines lw 1.8 dt 11 lc rgb hue(i) notitle
