# parameter.gp - a metric against a parameter: one curve a group, an interval and its runs at every value
# Data: $curves, one block a group: x n mean lo hi diverged blown_up; $runs, one block a group: x value, a line a run.
# Also: x_name, y_name; log_x, log_y (1: that axis is logarithmic, means are geometric); times (1: medians of Kaplan and
# Meier); x_low, x_high; low, high (all runs); cross_x[i], cross_g[i], where a run of a curve failed (crosses); last[g] at last_x[g], where each
# curve ends; dots[g], how many of its runs have a circle; heading, about.
width = 1000; height = 640
log_x = int(log_x); log_y = int(log_y); times = int(times)
load plots."/style.gp"

if (log_x > 0) { set logscale x; x_room = (x_high / x_low)**0.04; set xrange [x_low/x_room:x_high*x_room] } \
else { x_room = x_high > x_low ? 0.04 * (x_high - x_low) : x_high != 0 ? abs(x_high) * 0.1 : 1; set xrange [x_low-x_room:x_high+x_room] }
if (log_y > 0) { bottom = log10(low / 1.25); top = log10(high * 1.25); set logscale y; set yrange [10**bottom:10**top] } \
else { y_room = high > low ? 0.08 * (high - low) : high != 0 ? abs(high) * 0.1 : 1; bottom = low - y_room; top = high + y_room; \
       set yrange [bottom:top] }
set format x "%g"; set format y "%g"

drawn = ""; dotted = ""                             # a curve without a value is none
do for [g=1:groups] {
  if (last[g] == last[g]) { drawn = drawn." ".g }
  if (dots[g] > 0) { dotted = dotted." ".g }
}

if (text_term) {
  set title heading
  set xlabel x_name
  unset grid; set key on outside top center horizontal
  plot for [g in drawn] $curves index int(g)-1 using 1:3 with linespoints lc int(g) title name(int(g)), \
       for [g in dotted] $runs index int(g)-1 using 1:2 with points pt 6 lc int(g) notitle
  exit
}

set label 100 heading at screen 0.035,0.955 font "DejaVu Sans:Bold,17" tc rgb ink noenhanced
set label 101 times ? "Line: median (Kaplan and Meier), runs that never got there counted; circles: runs that did." : \
    most_seeds == 1 ? "Dot: that run." : \
    sprintf("Line: %smean; bar: 95 %% interval (Student's t%s); circles: runs; ×: at least one diverged or blew up.", \
            log_y ? "geometric " : "", log_y ? " on logarithms" : "") \
    at screen 0.035,0.913 font ",12" tc rgb soft noenhanced
set label 102 about at screen 0.035,0.880 font ",12" tc rgb soft noenhanced

not_reached(g) = times && last[g] != last[g] ? ", not reached" : ""
do for [g=1:groups] { if (strlen(name(g).not_reached(g)) > longest) { longest = strlen(name(g).not_reached(g)) } }
set lmargin at screen 0.105; set rmargin at screen edge_beside(0.80)
set bmargin at screen 0.115; set tmargin at screen 0.83
set xlabel x_name offset 0,0.2 noenhanced
set ylabel y_name.(log_y ? "  (log scale)" : "") offset 0.4,0 noenhanced
if (log_y > 0 && top - bottom < 3.5) {
  set ytics ()
  do for [e=-9:12] { do for [t in tics_of(top - bottom)] { set ytics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
}
if (log_x > 0 && log10(x_high / x_low) < 3.5) {
  set xtics ()
  do for [e=-12:9] { do for [t in tics_of(log10(x_high / x_low))] { set xtics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
}
ends = groups; array end[ends]
do for [g=1:groups] { end[g] = last[g] == last[g] ? (log_y ? log10(last[g]) : last[g]) : top }   # above all where it is nowhere
gap = (top - bottom) * 0.042
load plots."/spread.gp"
do for [g=1:groups] {
  set label 10+g name(g).not_reached(g) at graph 1.01,first (log_y ? 10**at[g] : at[g]) left tc rgb colour[g] font ",12" noenhanced
}
y_top = log_y ? 10**top : top; y_bottom = log_y ? 10**bottom : bottom
inside(y) = y == y ? clamp(y, y_bottom, y_top) : NaN
# curves that share values of x stand a little beside each other
beside(x, g) = log_x ? x * (x_high / x_low)**(0.004 * (g - (groups + 1) / 2.0)) : x + 0.004 * (x_high - x_low) * (g - (groups + 1) / 2.0)
do for [i=1:crosses] {
  set label 100+10*i "×" at first beside(cross_x[i], cross_g[i]),graph 0.985 center tc rgb colour[int(cross_g[i])] \
      font ",15" noenhanced
}
plot for [g in dotted] $runs index int(g)-1 using (beside($1, int(g))):2 \
         with points pt 6 ps 0.5 lc rgb colour[int(g)] notitle, \
     for [g in drawn] $curves index int(g)-1 using (beside($1, int(g))):(inside($3)):(inside($4)):(inside($5)) \
         with yerrorbars pt 7 ps 0 lw 1.4 lc rgb colour[int(g)] notitle, \
     for [g in drawn] $curves index int(g)-1 using (beside($1, int(g))):3 with linespoints lw 2 pt 7 ps 0.8 dt dash(int(g)) \
         lc rgb colour[int(g)] notitle
set output
