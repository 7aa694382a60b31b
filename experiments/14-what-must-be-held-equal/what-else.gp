# what-else.gp - logits against loss over the plane; variants; counterfactuals
# Called by run.sh with loss (optimizer 1|2, loss, max logit), variants (name, rate, ratio, lo, hi) and mechanism
# (vectors, spectrum, max logit, lo, hi, alignment, lo, hi, share above 0, ...), tab separated, term, out, style.
width = 1250; height = 560
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
set datafile separator "\t"
stats variants using 3 nooutput; nv = STATS_records
stats mechanism using 3 nooutput; nm = STATS_records
narrow(low, high) = low == low && low > 0.05 && high < 30       # an interval of two seeds may be of any width: then a point
set multiplot
set label 100 "{/:Bold What else decides whose logits are higher}" at screen 0.03,0.955 font ",17" tc rgb ink
set tmargin at screen 0.83; set bmargin at screen 0.13

set lmargin at screen 0.075; set rmargin at screen 0.345
set label 1 "at equal loss: every run of the plane" at graph 0,1.06 font ",13" tc rgb ink
set logscale y; set format y "10^{%L}"
set xlabel "validation loss  [nat]"; set ylabel "max logit  [nat]" offset 1,0
set key at graph 0.98,0.98 right top samplen 0.5 spacing 1.1
stats loss using 2 nooutput; most = STATS_min + 1        # beyond are runs that learned next to nothing
plot for [g=1:2] loss using ($1 == g && $2 < most ? $2 : NaN):3 with points pt (g == 1 ? 7 : 5) ps 0.5 lc rgb colour[g] title name(g)
unset key; unset logscale y; set format y "%g"; unset ylabel; unset label 100

set lmargin at screen 0.53; set rmargin at screen 0.685
set label 1 "variants, decay 0.1: ratio of max logits" at graph -0.9,1.06 font ",13" tc rgb ink
set logscale x; set format x "%g"; set yrange [nv - 0.4:-0.6]; set ytics scale 0 noenhanced font ",11"
set xrange [0.05:30]; set xtics (0.1, 0.3, 1, 3, 10)
set xlabel "ratio  (log scale)"
set arrow 1 from 1,graph 0 to 1,graph 1 nohead lc rgb faint dt (8,6) lw 1 back
plot variants using 3:0:(narrow($4, $5) ? $4 : $3):(narrow($4, $5) ? $5 : $3):ytic(strcol(1).", lr ".strcol(2)) with xerrorbars pt 7 ps 0.8 lw 1.4 lc rgb "#0072B2"
unset arrow 1

set lmargin at screen 0.815; set rmargin at screen 0.975
set label 1 "counterfactuals: vectors × spectrum" at graph -0.6,1.06 font ",13" tc rgb ink
set yrange [nm - 0.4:-0.6]
set xrange [*:*]; set xtics autofreq; set format x "10^{%L}"; set xlabel "max logit  (log scale)"
plot mechanism using 3:0:($4 > 0 ? $4 : $3):($4 > 0 ? $5 : $3):ytic(strcol(1)." × ".strcol(2)) with xerrorbars pt 7 ps 0.8 lw 1.4 lc rgb "#D55E00"
unset multiplot
set output
