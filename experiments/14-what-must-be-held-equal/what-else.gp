# what-else.gp - logits against loss over the plane; where the boundary lies under variants
# Called by run.sh with loss (optimizer 1|2, loss, max logit) and variants (name, rate, ratio, lo, hi), tab separated,
# rates (their values), term, out, style.
width = 1180; height = 560
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
set datafile separator "\t"
set palette defined (-3 "#A33C00", -1.5 "#E8955A", 0 "#F4F4F2", 1.5 "#6FA8D6", 3 "#00518A")
set cbrange [-3:3]
set cbtics ("≤ 1/8" -3, "1/4" -2, "1/2" -1, "1" 0, "2" 1, "4" 2, "≥ 8" 3) scale 0.4 font ",11"
digits(z) = z >= 100 ? sprintf("%.0f", z) : z >= 10 ? sprintf("%.1f", z) : sprintf("%.2g", z)
dark(z) = z > 0 && abs(log(z) / log(2)) > 1.7
sure(low, high) = low > 1 || high < 1
text(z, low, high) = !(z > 0) ? "×" : sure(low, high) ? "{/:Bold ".digits(z)."}" : digits(z)
nx = words(rates)
at(rate) = sum [i=1:nx] (real(word(rates, i)) == rate ? i - 1 : 0)
set multiplot
set label 100 "{/:Bold Max logits of Muon and Adam by loss, model, data and scale}" at screen 0.03,0.955 font ",17" tc rgb ink
set label 101 "Left: to 1 nat above the best. Right: ratio to Adam's, geometric mean over seeds; bold: its 95 % interval does not hold 1; line: one passes the other." \
    at screen 0.03,0.908 font ",11" tc rgb soft
set tmargin at screen 0.83; set bmargin at screen 0.13

set lmargin at screen 0.075; set rmargin at screen 0.40
set label 1 "runs of the plane, by loss" at graph 0,1.05 font ",13" tc rgb ink
set logscale y; set format y "10^{%L}"
set xlabel "validation loss  [nat]"; set ylabel "max logit  [nat]" offset 1,0
set key at graph 0.98,0.98 right top samplen 0.5 spacing 1.1
stats loss using 2 nooutput; most = STATS_min + 1        # beyond are runs that learned next to nothing
set xtics 0.2
plot for [g=1:2] loss using ($1 == g && $2 < most ? $2 : NaN):3 with points pt (g == 1 ? 7 : 5) ps 0.5 lc rgb color[g] title name(g)
unset key; unset logscale y; set format y "%g"; unset ylabel; unset label 100; unset label 101

# a row a variant, in the order they come in; a line where the ratio passes 1 from one rate to the next
array row_of[200]; array rate_of[200]; array ratio_of[200]
rows = 0; cells = 0; last = ""
seen(name) = (last eq name ? rows : (last = name, rows = rows + 1))
stats variants using (cells = cells + 1, row_of[cells] = seen(strcol(1)), rate_of[cells] = at($2), ratio_of[cells] = ($3 > 0 ? $3 : 0), 0) nooutput
passes(i) = i > 1 && row_of[i] == row_of[i - 1] && ratio_of[i] > 0 && ratio_of[i - 1] > 0 && (ratio_of[i] - 1) * (ratio_of[i - 1] - 1) < 0
set lmargin at screen 0.66; set rmargin at screen 0.915
set label 1 "over Adam, decay 0.1; updates of one RMS, or one rate" at graph -0.77,1.05 font ",13" tc rgb ink
unset grid
set border 15 lw 0.8
set style fill solid border lc rgb "white"
set xrange [-0.5:nx-0.5]; set yrange [rows + 0.5:0.5]
set xtics () scale 0 font ",11"; do for [i=1:nx] { set xtics add (word(rates, i) i-1) }
set ytics () scale 0 noenhanced font ",11"
set xlabel "learning rate"
set colorbox user origin 0.94,0.13 size 0.012,0.70 noborder
plot variants using (at($2)):(row_of[$0 + 1]):(0.5):(0.5):($3 > 0 ? log($3) / log(2) : NaN):ytic(strcol(1)) with boxxyerror fc palette notitle, \
     variants using (at($2)):(row_of[$0 + 1]):(text($3, $4, $5)):(dark($3) ? 0xFFFFFF : sure($4, $5) ? 0x111111 : 0x666666) \
       with labels font ",11" tc rgb variable notitle, \
     variants using (passes($0 + 1) ? (rate_of[$0 + 1] + rate_of[$0]) / 2.0 : NaN):(row_of[$0 + 1] - 0.5):(0):(1) \
       with vectors nohead lw 3 lc rgb ink notitle
unset multiplot
set output
