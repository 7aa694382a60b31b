# map.gp - a metric over two parameters: a cell a pair of values, a panel a group, one colour scale for all
# Data: $cells, one block a group: column row value n failed. Also: x_values, x_value[i], x_name, the same of y; z_name;
# log_z (1: colours are logarithmic, means geometric); times (1: medians of Kaplan and Meier); low, high; heading, about.
log_z = int(log_z); times = int(times)
cell_wide = 74                                       # pixels
cell_high = y_values * 46 < 10.5 * strlen(y_name) ? 10.5 * strlen(y_name) / y_values : 46 # as high as the axis's name is long
across = groups < 3 ? groups : 3
down = (groups + across - 1) / across
panel_wide = x_values * cell_wide; panel_high = y_values * cell_high
wide_each = panel_wide + 100; high_each = panel_high + 96
width = 160 + across * wide_each < 760 ? 760 : 160 + across * wide_each
load plots."/style.gp"
if (narrow) {                                        # as many panels across as the page carries, and smaller cells
  do for [n=3:1:-1] { if (n <= groups && (across > groups || 160 + n * (x_values * 44 + 100) > width)) { across = n > 1 ? n - 1 : 1 } }
  down = (groups + across - 1) / across
  cell_wide = clamp((width - 160.0 - 100 * (across - 1)) / (across * x_values), 24, 74); panel_wide = x_values * cell_wide
  wide_each = panel_wide + 100
}
body = down * high_each; legend = 0
subtitle = times ? "Cell: median (Kaplan and Meier), runs that never got there counted; ×: every run failed." : \
    sprintf("Cell: %s; ×: every run diverged or blew up, (k×): k of them.", \
            most_seeds == 1 ? "one run" : (log_z ? "geometric mean" : "mean")." over the runs")
load plots."/page.gp"
top_edge = top + 22

drawn = ""                                           # a panel without a value is none
do for [g=1:groups] { stats $cells index g-1 using 3 nooutput; if (STATS_records > 0) { drawn = drawn." ".g } }
digits(z) = abs(z) >= 1000 ? sprintf("%.0f", z) : sprintf("%.3g", z)
where(z) = log_z ? (log10(z) - log10(low)) / (log10(high) - log10(low) + 1e-12) : (z - low) / (high - low + 1e-300)

set datafile missing                                # a NaN is a cell, too
set multiplot
unset grid
set border 15 lw 0.8
set cbtics font ",11" scale 0.4
bar_low = low; bar_high = high; bar_linear = !log_z; bar_free = 14.0 / clamp(panel_high, 90, 420)
load plots."/bar.gp"
set xrange [-0.5:x_values-0.5]; set yrange [-0.5:y_values-0.5]
set xtics () font ",11" scale 0 noenhanced; do for [i=1:x_values] { set xtics add (x_value[i] i-1) }
set ytics () font ",11" scale 0 noenhanced; do for [i=1:y_values] { set ytics add (y_value[i] i-1) }
set style fill solid border lc rgb "white"
do for [g=1:groups] {
  left = 100 + ((g - 1) % across) * wide_each; panel_top = top_edge + ((g - 1) / across) * high_each
  set lmargin at screen x_of(left); set rmargin at screen x_of(left + panel_wide)
  set tmargin at screen y_of(panel_top); set bmargin at screen y_of(panel_top + panel_high)
  set xlabel x_name offset 0,0.3 noenhanced
  if ((g - 1) % across == 0) { set ylabel y_name offset 0.4,0 noenhanced } else { unset ylabel }
  if (groups > 1) { set label 1 name(g) at graph 0,1 offset 0,0.6 font ",12" tc rgb ink noenhanced }
  if (g == 1) {
    bar = clamp(panel_high, 90, 420)
    set colorbox user origin x_of(left + across * wide_each - 68),y_of(panel_top + bar) size x_of(13),1.0*bar/height noborder
    set label 2 z_name at screen x_of(left + across * wide_each - 68),y_of(panel_top - 14) font ",11" tc rgb ink noenhanced
  } else { unset colorbox }
  plot $cells index g-1 using 1:2:(0.5):(0.5) with boxxyerror fc rgb "#EEEEEE" notitle, \
       $cells index g-1 using ($3 == $3 ? $1 : NaN):2:(0.5):(0.5):3 with boxxyerror fc palette notitle, \
       $cells index g-1 using 1:2:($3 == $3 ? "" : "×") with labels font ",15" tc rgb soft noenhanced notitle, \
       $cells index g-1 using 1:2:($3 == $3 && where($3) < 0.6 ? digits($3).($5 > 0 ? sprintf(" (%d×)", $5) : "") : "") \
         with labels font ",11" tc rgb "white" noenhanced notitle, \
       $cells index g-1 using 1:2:($3 == $3 && where($3) >= 0.6 ? digits($3).($5 > 0 ? sprintf(" (%d×)", $5) : "") : "") \
         with labels font ",11" tc rgb ink noenhanced notitle
  load plots."/head_off.gp"
  unset label 2
}
unset multiplot
set output
