# page.gp - head and paper: the heading, what is drawn, the settings; a legend where names have no place in the panels
# In: width, body (pixels below the head), subtitle; heading, about; legend (1: wanted, 2: with discs, not lines). Out: height, top (pixels of the
# head), x_of and y_of (pixels from the left and top edge), labels 100 to 139 and arrows 150+ (for head_off.gp).
if (!exists("heading")) { heading = "" }
if (!exists("about")) { about = "" }
if (!exists("subtitle")) { subtitle = "" }
if (!exists("legend")) { legend = 0 }
if (one_kind) { about = kind_name(1).(about eq "" ? "" : ". ".about) }
array head_line[24]; array head_size[24]
head_lines = 0; top = 14
do for [part_of_head=1:3] {
  left_over = page_title < 1 ? "" : part_of_head == 1 ? heading : part_of_head == 2 ? subtitle : about
  head_most = int((width - 60) / (part_of_head == 1 ? 13.6 : 8.3))
  while (strlen(left_over) > 0 && head_lines < 24) {
    cut_at = strlen(left_over)
    if (cut_at > head_most) {
      cut_at = head_most
      while (cut_at > 1 && left_over[cut_at:cut_at] ne " ") { cut_at = cut_at - 1 }
      if (cut_at == 1) { cut_at = head_most }
    }
    head_lines = head_lines + 1
    head_line[head_lines] = left_over[1:cut_at]; head_size[head_lines] = part_of_head == 1
    left_over = left_over[cut_at+1:*]
    top = top + (part_of_head == 1 ? 32 : 21)
  }
}
if (legend) {
  array legend_x[groups]; array legend_y[groups]
  at_x = 30; top = top + 24
  do for [g=1:groups] {
    wide = 62 + 9.8 * strlen(name(g))
    if (at_x > 30 && at_x + wide > width + 16) { at_x = 30; top = top + 22 }
    legend_x[g] = at_x; legend_y[g] = top - 8
    at_x = at_x + wide
  }
}
top = top + (head_lines || legend ? 14 : 4)
height = page_height > 0 ? page_height * inch : top + body
if (height < top + 110) { height = top + 110 }
body = height - top
x_of(pixels) = pixels * 1.0 / width
y_of(pixels) = 1 - pixels * 1.0 / height

scale = page_width > 0 ? page_width * (term eq "png" ? 300 : 96) / width : 1
svg_scale = page_width > 0 ? 0.75 : 1
eval terminal(scale, svg_scale)
if (out ne "") set output out
at_y = 14
do for [i=1:head_lines] {
  at_y = at_y + (head_size[i] ? 32 : 21)
  set label 100+i head_line[i] at screen x_of(30),y_of(at_y - (head_size[i] ? 15 : 10)) font (head_size[i] ? family.":Bold,17" : ",12") \
      tc rgb (head_size[i] ? ink : soft) noenhanced
}
if (legend) { do for [g=1:groups] {
  if (legend > 1) { set object 150+g circle at screen x_of(legend_x[g]+22),y_of(legend_y[g]) size screen 5.0 / width fs solid fc rgb colour[g] } else {
  set arrow 150+g from screen x_of(legend_x[g]),y_of(legend_y[g]) to screen x_of(legend_x[g]+30),y_of(legend_y[g]) \
      nohead lw 2.2 dt dash(g) lc rgb colour[g] }
  set label 150+g name(g) at screen x_of(legend_x[g]+37),y_of(legend_y[g]) font ",12" tc rgb ink noenhanced
} }
