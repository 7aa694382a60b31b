# figure.gp - peak max logit and validation loss of every cure, mean and 95 % interval over seeds
# Called by report.sh with rows ("name|val|half|peak|low|high" a line), term, out and style.
width = 1100; height = 560
groups = 1
array kind[1] = ["muon"]; array rest[1] = [""]; array clipped[1] = [0]; array seeds[1] = [3]
load style
set datafile separator "|"
stats rows using 2 name "V" nooutput
n = V_records
set yrange [n - 0.4:-0.6]; set ytics scale 0 noenhanced
set multiplot
set label 100 "{/:Bold Every cure under Muon: how far the logits got, and what it cost}" at screen 0.035,0.955 font ",16" tc rgb ink
set label 101 "Mean and 95 % interval over 3 seeds (peak: geometric). 2 layers, 4 heads, width 64, lr 0.03, weight decay 0.1, 600 steps, King James Bible." \
    at screen 0.035,0.905 font ",11" tc rgb soft
set tmargin at screen 0.85; set bmargin at screen 0.12
set lmargin at screen 0.21; set rmargin at screen 0.60
set logscale x; set xrange [10:1500]; set xlabel "peak max logit  (log scale)" offset 0,0.3
plot rows using 4:0:5:6:ytic(1) with xerrorbars pt 7 ps 1 lw 1.4 lc rgb "#0072B2" notitle
unset label 100; unset label 101
unset logscale x; set lmargin at screen 0.63; set rmargin at screen 0.97
set xrange [1.77:2.04]; set xtics 0.05; set xlabel "validation loss  (nat per token)" offset 0,0.3
set format y ""
plot rows using 2:0:3 with xerrorbars pt 7 ps 1 lw 1.4 lc rgb "#D55E00" notitle
unset multiplot
