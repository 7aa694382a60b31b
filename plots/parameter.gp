# parameter.gp - a metric against a parameter: one curve a group, an interval and its runs at every value
# Data: $curves, one block a group: x n mean lo hi diverged blown_up; $runs, one block a group: x value, a line a run.
# Also: x_name, y_name; log_x, log_y (1: that axis is logarithmic, means are geometric); times (1: medians of Kaplan and
# Meier); share (1: between 0 and 1); x_low, x_high; low, high (of the axis), all_low, all_high (of all that is drawn);
# cross_x[i], cross_g[i], where a run of a curve failed (crosses); last[g] at last_x[g], where each curve ends; dots[g], how many of its runs have a circle; heading, about.
width = 1000
log_x = int(log_x); log_y = int(log_y); times = int(times)
load plots."/style.gp"

if (log_x > 0) { set logscale x; x_room = (x_high / x_low)**0.04; set xrange [x_low/x_room:x_high*x_room] } \
else { x_room = x_high > x_low ? 0.04 * (x_high - x_low) : x_high != 0 ? abs(x_high) * 0.1 : 1; set xrange [x_low-x_room:x_high+x_room] }
if (log_y > 0) { bottom = log10(low / 1.1); top_y = log10(high * 1.1); set logscale y; y_low = 10**bottom; y_high = 10**top_y } \
else { y_room = high > low ? 0.06 * (high - low) : high != 0 ? abs(high) * 0.1 : 1; bottom = low - y_room; top_y = high + y_room; \
       if (share > 0) { bottom = clamp(bottom, 0, 1); top_y = clamp(top_y, 0, 1) } ; y_low = bottom; y_high = top_y }
set yrange [y_low:y_high]
set format x "%g"; set format y "%g"

drawn = ""; dotted = ""                             # a curve without a value is none
do for [g=1:groups] {
  if (last[g] == last[g]) { drawn = drawn." ".g }
  if (dots[g] > 0) { dotted = dotted." ".g }
}

body = narrow ? 380 : 540; legend = narrow
subtitle = (times ? "Line: median (Kaplan and Meier), runs that never got there counted; circles: runs that did." : \
    most_seeds == 1 ? "Dot: that run." : \
    sprintf("Line: %smean; bar: 95 %% interval (Student's t%s); circles: runs; ×: at least one diverged or blew up.", \
            log_y ? "geometric " : "", log_y ? " on logarithms" : "")).dashes_text.cut_text(y_low, y_high)
load plots."/page.gp"

not_reached(g) = times && last[g] != last[g] ? ", not reached" : ""
do for [g=1:groups] { if (strlen(name(g).not_reached(g)) > longest) { longest = strlen(name(g).not_reached(g)) } }
y_label = wrapped(y_name.(log_y ? "  (log scale)" : ""), int((body - 72) / (narrow ? 8.6 : 10)))
set lmargin at screen x_of(105 + room_of_label(y_label)); set rmargin at screen edge_beside(0.80)
set bmargin at screen y_of(height - 72); set tmargin at screen y_of(top)
set xlabel x_name offset 0,0.2 noenhanced
set ylabel y_label offset offset_of(y_label),0 noenhanced
if (log_y > 0 && top_y - bottom < 3.5) {
  set ytics ()
  do for [e=-9:12] { do for [t in tics_of(top_y - bottom)] { set ytics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
}
if (log_x > 0 && log10(x_high / x_low) < 3.5) {
  set xtics ()
  do for [e=-12:9] { do for [t in tics_of(log10(x_high / x_low))] { set xtics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
}
ends = groups; array end[ends]
do for [g=1:groups] { end[g] = last[g] == last[g] ? (log_y ? log10(last[g]) : last[g]) : top_y }   # above all where it is nowhere
gap = (top_y - bottom) * 0.042; low_end = bottom; high_end = top_y
load plots."/spread.gp"
if (!narrow) { do for [g=1:groups] {
  set label 10+g name(g).not_reached(g) at graph 1.01,first (log_y ? 10**at[g] : at[g]) left offset 1,0 tc rgb ink font ",12" noenhanced point pt 5 ps 1 lc rgb colour[g]
} }
inside(y) = y == y ? clamp(y, y_low, y_high) : NaN
set errorbars 0                                    # a cap would say that the interval ends there
# curves that share values of x stand a little beside each other
beside(x, g) = log_x ? x * (x_high / x_low)**(0.004 * (g - (groups + 1) / 2.0)) : x + 0.004 * (x_high - x_low) * (g - (groups + 1) / 2.0)
do for [i=1:crosses] {
  set label 100+10*i "×" at first beside(cross_x[i], cross_g[i]),graph 0.985 center tc rgb colour[int(cross_g[i])] \
      font ",15" noenhanced
}
plot for [g in drawn] $curves index int(g)-1 using (beside($1, int(g))):(inside($3)):(inside($4)):(inside($5)) \
         with yerrorbars pt 7 ps 0 lw 1.4 lc rgb colour[int(g)] notitle, \
     for [g in drawn] $curves index int(g)-1 using (beside($1, int(g))):3 with linespoints lw 2 pt 7 ps 0.8 dt dash(int(g)) \
         lc rgb colour[int(g)] notitle, \
     for [g in dotted] $runs index int(g)-1 using (beside($1, int(g))):2 \
         with points pt 6 ps 0.9 lw 0.8 lc rgb colour[int(g)] notitle, \
     for [g in drawn] $curves index int(g)-1 using (beside($1, int(g))):($5 > y_high ? y_high : NaN) with points pt 9 ps 0.9 \
         lc rgb colour[int(g)] notitle, \
     for [g in drawn] $curves index int(g)-1 using (beside($1, int(g))):($4 < y_low ? y_low : NaN) with points pt 11 ps 0.9 \
         lc rgb colour[int(g)] notitle
set output
