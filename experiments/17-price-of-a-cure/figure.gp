# figure.gp - the price of a threshold by how far below the reach it lies; price and reach of every arm
# Called by run.sh with prices (a block a cure: threshold over reach, price, interval), points (arm, price, interval, reach, interval,
# 1 on the front), seeds_are, term, out and style.
width = 1320; height = 620
groups = 1
array kind[1] = ["muon"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [1]; array seeds[1] = [1]
load style
array hue[3] = [0x0072B2, 0xD55E00, 0x009E73]
array cure[3] = ["QK-Clip per head", "QK-Clip per layer", "soft cap"]
known_arms = "none qk_norm sigma_reparam learned_sink output_gate ssmax decay_gains"
array said[7] = ["no cure", "QK-Norm", "sigmaReparam", "learned sink", "output gate", "SSMax", "decay of gains"]
is(c, a) = substr(a, 1, strlen(word("head- layer- cap-", c))) eq word("head- layer- cap-", c)
cure_of(a) = is(1, a) ? 1 : is(2, a) ? 2 : is(3, a) ? 3 : 0
other(a) = sum [i=1:words(known_arms)] (word(known_arms, i) eq a ? i : 0)
arm_name(a) = cure_of(a) > 0 ? cure[cure_of(a)].", ".substr(a, strstrt(a, "-") + 1, strlen(a)) : other(a) > 0 ? said[other(a)] : a
hue_of(a) = cure_of(a) > 0 ? hue[cure_of(a)] : 0x222222
stats points using 3:4 name "P" nooutput
stats points using 6:7 name "R" nooutput
arms = P_records
room = 0.06 * (P_max_y - P_min_x)
price_low = P_min_x - room; price_high = P_max_y + room

set multiplot
set label 100 "{/:Bold A soft cap is free down to a third of the natural logits; QK-Clip costs below that}" at screen 0.025,0.955 font ",17" tc rgb ink
set label 101 "Muon, a text, 2 layers, 4 heads, width 64, 600 steps, each arm at its best rate. Point: median of ".seeds_are."; bar: lowest to highest seed." \
    at screen 0.025,0.912 font ",12" tc rgb soft
set label 102 "Price: validation loss minus that of no cure, median of pairs of equal seed. Ring: no other arm is lower in both price and reach in every pair." \
    at screen 0.025,0.878 font ",12" tc rgb soft
set bmargin at screen 0.125; set tmargin at screen 0.80
set errorbars 0.6

set lmargin at screen 0.065; set rmargin at screen 0.385
set label 1 "price by threshold  (nat)" at graph 0,1 offset 0,0.8 font ",13" tc rgb ink
set logscale x; set xrange [0.03:1]; set xtics (0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1)
set yrange [price_low:price_high]; set ytics 0.05
set xlabel "threshold / largest logit without a cure  (log scale)" offset 0,0.3
set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lc rgb faint lw 1
set arrow 2 from graph 0, first 0.02 to graph 1, first 0.02 nohead dt (3,4) lc rgb faint lw 1
set label 2 "0.02 nat: matters" at graph 0.01, first 0.02 left offset 0,0.6 font ",11" tc rgb soft
set key at graph 0.98,0.97 right top Left reverse samplen 1.5 spacing 1.25 font ",12"
nudge(c) = 1 + 0.03 * (c - 2)
plot for [c=1:3] prices index c-1 using ($1 * nudge(c)):2 with lines lw 1.6 lc rgb hue[c] notitle, \
     for [c=1:3] prices index c-1 using ($1 * nudge(c)):2:3:4 with yerrorbars pt 7 ps 0.9 lw 1.4 lc rgb hue[c] title cure[c]
do for [i in "100 101 102 2"] { unset label int(i) }
unset arrow; unset key

# every arm is a row, by its price
set yrange [arms + 0.6:0.4]; set grid noy
set ytics scale 0 font ",11"
order = system("sort -k2,2gr '".points."' | cut -d ' ' -f 1")
place(a) = sum [i=1:words(order)] (word(order, i) eq a ? i : 0)
set ytics (arm_name(word(order, 1)) 1)
do for [i=2:arms] { set ytics add (arm_name(word(order, i)) i) }
set lmargin at screen 0.545; set rmargin at screen 0.745
set label 1 "reach" at graph 0,1 offset 0,0.8 font ",13" tc rgb ink
set xrange [R_min_x / 1.25:R_max_y * 1.25]; set xtics (0.5, 1, 2, 5, 10, 20, 50) font ",12"
set xlabel "largest softmax input  (log)" offset 0,0.3
plot points using ($8 == 1 ? $5 : NaN):(place(strcol(1))) with points pt 6 ps 1.9 lw 1 lc rgb soft notitle, \
     points using 5:(place(strcol(1))):6:7:(hue_of(strcol(1))) with xerrorbars pt 7 ps 0.8 lw 1.4 lc rgb variable notitle
unset logscale x
set lmargin at screen 0.775; set rmargin at screen 0.975
set format y ""; set ytics ("" 1); do for [i=2:arms] { set ytics add ("" i) }
set label 1 "price  (nat)" at graph 0,1 offset 0,0.8 font ",13" tc rgb ink
set xrange [price_low:price_high]; set xtics 0.1
set xlabel "loss minus that of no cure" offset 0,0.3
set arrow 1 from first 0, graph 0 to first 0, graph 1 nohead lc rgb faint lw 1
plot points using ($8 == 1 ? $2 : NaN):(place(strcol(1))) with points pt 6 ps 1.9 lw 1 lc rgb soft notitle, \
     points using 2:(place(strcol(1))):3:4:(hue_of(strcol(1))) with xerrorbars pt 7 ps 0.8 lw 1.4 lc rgb variable notitle
unset multiplot
set output
