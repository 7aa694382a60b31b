# scatter.gp - a metric against another: a circle a run, mean and intervals of each group, the front
# Data: $means, one block a group: x lo hi y lo hi; $runs, one block a group: x y, a line a run; $front: x y of the groups
# on it (front of them; 0: it is not known which way is better), front_first (the first of them). Also: x_ends, y_ends: low and high of the axis, low and high
# of all that is drawn; log_x, log_y (1: that axis is logarithmic); geometric_x, geometric_y (1: so are means); x_share, y_share (1: between 0
# and 1); x_name, y_name; heading, about.
width = 900
load plots."/style.gp"
log_x = int(log_x); log_y = int(log_y); x_share = int(x_share); y_share = int(y_share)
room(a, b) = b > a ? 0.06 * (b - a) : b != 0 ? abs(b) * 0.1 : 1
first_of_axis(a, b, is_log, is_share) = is_log ? a / 1.1 : is_share ? clamp(a - room(a, b), 0, 1) : a - room(a, b)
last_of_axis(a, b, is_log, is_share) = is_log ? b * 1.1 : is_share ? clamp(b + room(a, b), 0, 1) : b + room(a, b)
x_low = first_of_axis(x_ends[1], x_ends[2], log_x, x_share); x_high = last_of_axis(x_ends[1], x_ends[2], log_x, x_share)
y_low = first_of_axis(y_ends[1], y_ends[2], log_y, y_share); y_high = last_of_axis(y_ends[1], y_ends[2], log_y, y_share)
is_cut = x_ends[3] < x_low || x_ends[4] > x_high || y_ends[3] < y_low || y_ends[4] > y_high
body = narrow ? 420 : 560; legend = 2
mean_of(axis, is_geometric) = (is_geometric ? "geometric" : "arithmetic")." along ".axis
subtitle = sprintf("Disc: %s%s; circles: runs.%s%s", most_seeds == 1 ? seeds_text : \
    over_seeds("mean")." (".(geometric_x > 0 && geometric_y > 0 ? "geometric" : geometric_x > 0 || geometric_y > 0 ? \
        mean_of("x", geometric_x > 0).", ".mean_of("y", geometric_y > 0) : "arithmetic").")", \
    most_seeds > 1 ? ", bars: 95 % intervals (Student's t)" : "", \
    front > 1 ? " Gray: the front; none is lower in both." : front > 0 && groups > 1 ? \
        " Lowest in both: ".name(int(front_first))."." : "", is_cut ? " ▲▼◀▶: goes on beyond the frame." : "")
load plots."/page.gp"
if (log_x) { set logscale x }
if (log_y) { set logscale y }
set xrange [x_low:x_high]; set yrange [y_low:y_high]
set format x "%g"; set format y "%g"
y_label = wrapped(y_name.(log_y ? "  (log scale)" : ""), int((body - 70) / (narrow ? 8.6 : 10)))
set lmargin at screen x_of(100 + room_of_label(y_label)); set rmargin at screen 1 - 24.0 / width
set tmargin at screen y_of(top); set bmargin at screen y_of(height - 70)
set xlabel x_name.(log_x ? "  (log scale)" : "") offset 0,0.2 noenhanced
set ylabel y_label offset offset_of(y_label),0 noenhanced
if (log_x && log10(x_high / x_low) < 3.5) {
  set xtics ()
  do for [e=-9:12] { do for [t in tics_of(log10(x_high / x_low))] { set xtics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
}
if (log_y && log10(y_high / y_low) < 3.5) {
  set ytics ()
  do for [e=-9:12] { do for [t in tics_of(log10(y_high / y_low))] { set ytics add (sprintf("%g", t * 10.0**e) t * 10.0**e) } }
}
x_in(x) = x == x ? clamp(x, x_low, x_high) : NaN
y_in(y) = y == y ? clamp(y, y_low, y_high) : NaN
set errorbars 0                                    # a cap would say that the interval ends there
plot $front using 1:2 with steps lw 2 lc rgb "#999999" notitle, \
     for [g=1:groups] $means index g-1 using 1:4:(x_in($2)):(x_in($3)):(y_in($5)):(y_in($6)) with xyerrorbars \
         pt 7 ps 1.3 lw 1.4 lc rgb colour[g] notitle, \
     for [g=1:groups] $runs index g-1 using 1:2 with points pt 6 ps 0.9 lw 0.8 lc rgb colour[g] notitle, \
     for [g=1:groups] $means index g-1 using 1:($6 > y_high ? y_high : NaN) with points pt 9 ps 0.9 lc rgb colour[g] notitle, \
     for [g=1:groups] $means index g-1 using 1:($5 < y_low ? y_low : NaN) with points pt 11 ps 0.9 lc rgb colour[g] notitle, \
     for [g=1:groups] $means index g-1 using (x_low):($2 < x_low ? $4 : NaN):("◀") with labels font ",11" tc rgb colour[g] notitle, \
     for [g=1:groups] $means index g-1 using (x_high):($3 > x_high ? $4 : NaN):("▶") with labels font ",11" tc rgb colour[g] notitle
set output
