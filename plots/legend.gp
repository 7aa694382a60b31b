# legend.gp - one legend above several panels, on as many lines as it needs
# Load it before style.gp, with width (pixels): legend_lines, 18 pixels each, for the height. Load it again after
# style.gp, with height and legend_top (pixels from the top edge): labels and arrows 50+g.
# The figure unsets them after its first panel.
if (!exists("legend_lines")) {
  array legend_x[groups]; array legend_line[groups]
  legend_lines = 1
  at_x = 0.06
  do for [g=1:groups] {
    wide = 0.06 + 10.2 / width * strlen(kind[g].rest[g].note[g])
    if (at_x > 0.06 && at_x + wide > 1.02) { at_x = 0.06; legend_lines = legend_lines + 1 }
    legend_x[g] = at_x; legend_line[g] = legend_lines
    at_x = at_x + wide
  }
} else {
  do for [g=1:groups] {
    at_y = 1 - (legend_top + 18.0 * (legend_line[g] - 1)) / height
    set arrow 50+g from screen legend_x[g],at_y to screen legend_x[g]+0.03,at_y nohead lw 2.2 dt dash(g) \
        lc rgb colour[g]
    set label 50+g name(g) at screen legend_x[g]+0.036,at_y font ",12" tc rgb colour[g] noenhanced
  }
}
