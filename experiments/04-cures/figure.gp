# figure.gp - peak max logit and validation loss of every cure, mean and 95 % interval over seeds
# Called by run.sh with rows ("name|val|lo|hi|peak|lo|hi|seeds" a line), term, out and style.
width = 1100; height = 560
groups = 1
array kind[1] = ["muon"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [0]; array seeds[1] = [1]
load style
set datafile separator "|"
stats rows using 3:4 name "V" nooutput
stats rows using 6:7 name "P" nooutput
stats rows using 8 name "S" nooutput
n = V_records
set yrange [n - 0.4:-0.6]; set ytics scale 0 noenhanced
set multiplot
set label 100 "{/:Bold Most cures hold the peak max logit under Muon, at similar losses}" at screen 0.035,0.955 font ",16" tc rgb ink
set label 101 sprintf("Mean and 95 %% interval over %d seeds (peak: geometric). 2 layers, 4 heads, width 64, lr 0.03, weight decay 0.1, 600 steps.", S_max) \
    at screen 0.035,0.905 font ",11" tc rgb soft
set tmargin at screen 0.85; set bmargin at screen 0.12
set lmargin at screen 0.24; set rmargin at screen 0.61
set logscale x; set xrange [P_min_x / 1.3:P_max_y * 1.3]; set xlabel "peak max logit  (softmax input, log scale)" offset 0,0.3
set xtics ()
do for [e=-3:9] { do for [t in tics_of(log10(P_max_y / P_min_x))] { set xtics add (t * 10.0**e) } }
plot rows using 5:0:6:7:ytic(1) with xerrorbars pt 7 ps 1 lw 1.4 lc rgb "#0072B2" notitle
unset label 100; unset label 101
unset logscale x; set lmargin at screen 0.64; set rmargin at screen 0.97
margin = 0.05 * (V_max_y - V_min_x)
set xrange [V_min_x - margin:V_max_y + margin]; set xtics autofreq; set xlabel "validation loss  (nat per token)" offset 0,0.3
set format y ""
plot rows using 2:0:3:4 with xerrorbars pt 7 ps 1 lw 1.4 lc rgb "#D55E00" notitle
unset multiplot
