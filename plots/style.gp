# style.gp - the house style: colours, names, sizes, axes (gnuplot 5.4 and 6.0)
#
# A figure script sets width (pixels), loads this file, sets body (the height below the head) and subtitle, loads
# page.gp, and draws. `maxlogit plot` gives before that:
#   term          png, svg or pdf
#   out           file to write; empty: standard output
#   page_width page_height   inches on paper; 0: as the figure has it
#   page_font     family; page_title: 0 without heading and explanation
#   groups        number of groups of runs; a group's runs differ only in their seed
#   kind[g]       what a group is: a preset's name, or optimizer+stabilizers
#   rest[g]       what else tells it from others (" lr=0.01"), or empty
#   note[g]       how many of its runs failed or have not finished (" (1 of 3 diverged)"), or empty
#   shade[g]      where groups of a kind differ in one number alone: their place by it, from 0 to 1; else NaN
#   clipped[g]    1 where a stabilizer is on: drawn solid; the others are dashed where a figure has both
#   seeds[g]      number of runs that are drawn: not those that failed, unless all did
#   one_is        "run" where those of a group differ in more than their seed; else, and where it is missing, "seed"
# `maxlogit plot --script` prints all of it, data included, for a figure of your own.

set encoding utf8
set datafile missing "NaN"
if (!exists("page_width")) { page_width = 0.0; page_height = 0.0; page_font = ""; page_title = 1 }
family = page_font eq "" ? "DejaVu Sans" : page_font
# On paper the least text, of size 11 here, is to have 6 pt: so many of these pixels an inch. In a column names stand
# above the panels, not beside the curves.
inch = 176.0
if (page_width > 0) { width = page_width * inch }
narrow = width < 760
decades_format = page_width > 0 ? "%g" : "10^{%L}"   # exponents would be smaller

# for a page of width and height pixels; an SVG's letters are a quarter smaller: for paper its frame is, too, and the
# program writes its size in inches
# A gnuplot without cairo (PyPI's) draws PNG by libgd and has no PDF.
cairo = strstrt(GPVAL_TERMINALS, "pngcairo") > 0
if (term eq "pdf" && !cairo) { exit error "this gnuplot has no terminal pdfcairo; png and svg work" }
terminal(scale, svg_scale) = term eq "png" ? \
    sprintf("set terminal %s size %.10g,%.10g font '%s,13' fontscale %.10g linewidth %.10g butt enhanced%s", \
            cairo ? "pngcairo" : "png truecolor", width * scale, height * scale, family, scale, 1.4 * scale, \
            cairo ? sprintf(" pointscale %.10g", scale) : "") : term eq "svg" ? \
    sprintf("set terminal svg size %.10g,%.10g font '%s,%d' linewidth %.10g butt enhanced background 'white' standalone", \
            width * svg_scale, height * svg_scale, family, page_width > 0 ? 11 : 13, 1.4 * svg_scale) : \
    sprintf("set terminal pdfcairo size %.10gin,%.10gin font '%s,13' fontscale %.10g linewidth 0.7 pointscale 0.5 butt enhanced", \
            width / inch, height / inch, family, 72 / inch)
# a figure that lays itself out (its height is set) has no page.gp
if (exists("height")) {
  eval terminal(1.0, 1.0)
  if (out ne "") { set output out }
}

# --- names of presets; a fixed colour for the first four (Okabe-Ito), any other group takes the next spare one
known_kind   = "adam     adamclip muon     muonclip adamuon adamuonclip compositional compositionalclip dion dionclip klshampoo klshampooclip lion lionclip namo namoclip normuon normuonclip \
                polargrad polargradclip scion scionclip signum signumclip soap soapclip"
known_name   = "Adam     AdamClip Muon     MuonClip AdaMuon AdaMuonClip Compositional CompositionalClip Dion DionClip KL-Shampoo KL-ShampooClip Lion LionClip NAMO NAMOClip NorMuon NorMuonClip \
                PolarGrad PolarGradClip Scion ScionClip Signum SignumClip SOAP SOAPClip"
known_colour = "0xD55E00 0xE69F00 0x0072B2 0x56B4E9"
spare_colour = "0x009E73 0xCC79A7 0x222222 0x8C6D31 0x7A5195 0x6B8E23 0xA0A0A0 0x00A5B5 0xB22222 0x4B4BC8 \
                0x1B5E20 0xF06292 0x5D4037 0x9E9D24 0x37474F 0xFF8A65"
known(k) = sum [i=1:words(known_kind)] (word(known_kind, i) eq k ? i : 0)
has_colour(k) = known(k) > 0 && known(k) <= words(known_colour)
earlier(g) = g < 2 ? 0 : sum [i=1:g-1] (kind[i] eq kind[g])
spare(n) = int(word(spare_colour, 1 + (n - 1) % words(spare_colour)))

# a number in place of names has a sequence: of one kind viridis, of several each kind's colour, paler and paler
ramp = "0x440154 0x472D7B 0x3B528B 0x2C728E 0x21918C 0x28AE80 0x5EC962 0xADDC30"
part(c, k) = (int(c) / 256**k) % 256
mixed(a, b, t) = sum [k=0:2] (int(part(a, k) + t * (part(b, k) - part(a, k)) + 0.5) * 256**k)
on_ramp(t) = t >= 1 ? int(word(ramp, words(ramp))) : \
    mixed(int(word(ramp, 1 + int(t * 7))), int(word(ramp, 2 + int(t * 7))), t * 7 - int(t * 7))
shaded(g) = exists("shade") ? shade[g] == shade[g] : 0
one_kind = groups > 1
do for [g=1:groups] { if (kind[g] ne kind[1] || rest[g] eq "") { one_kind = 0 } }
first_of(g) = sum [i=1:g] (kind[i] eq kind[g] && earlier(i) == 0 ? i : 0)

array colour[groups]
array base[groups]
spares = 0
do for [g=1:groups] {
  if (shaded(g) && (one_kind || rest[g] eq "")) {
    colour[g] = on_ramp(shade[g])
  } else {
    if (shaded(g) && earlier(g) > 0) {
      base[g] = base[first_of(g)]
    } else { if (has_colour(kind[g]) && earlier(g) == 0) {
      base[g] = int(word(known_colour, known(kind[g])))
    } else {
      spares = spares + 1
      base[g] = spare(spares)
    } }
    colour[g] = shaded(g) ? mixed(base[g], 0xFFFFFF, 0.55 * shade[g]) : base[g]
  }
}
band(g) = colour[g] + 0xCC000000                     # 80 % transparent
kind_name(g) = known(kind[g]) > 0 ? word(known_name, known(kind[g])) : kind[g]
full_name(g) = one_kind ? substr(rest[g], 2, strlen(rest[g])) : kind_name(g).rest[g]
room_of(g) = 38 - strlen(note[g])
name(g) = (strlen(full_name(g)) > room_of(g) ? full_name(g)[1:room_of(g)-1]."…" : full_name(g)).note[g]
# dashes have one meaning, and none where all groups are alike
set dashtype 11 (14,7)
with_cure = sum [g=1:groups] (clipped[g] > 0)
has_dashes = with_cure > 0 && with_cure < groups
dash(g) = has_dashes && !clipped[g] ? 11 : 1
dashes_text = has_dashes ? " Dashed: no stabilizer." : ""

# filledcurves may run over the frame, so bands are clamped by the figure's inside(y). foot, the lower edge, is NaN where
# the whole band lies outside: clamped, it would lead to the next row as a wedge. Triangles at the edge, at most 40 on an
# axis, mark values beyond the frame.
clamp(y, low_, high_) = y < low_ ? low_ : y > high_ ? high_ : y
foot(lo, hi) = lo != inside(lo) && inside(lo) == inside(hi) ? NaN : inside(lo)
marked = 9.0                                         # where on the axis the last one stands; another curve begins before it
mark(is_beyond, share, at) = is_beyond && (share <= marked || floor(share * 40) != floor(marked * 40)) ? \
    (marked = share, at) : NaN
marks_text = " ▲▼: goes on beyond the frame."
cut_text(low_, high_) = all_low < low_ || all_high > high_ ? marks_text : ""

# the longest name, and the right edge (screen) that leaves room for it beside the curves
longest = 0
do for [g=1:groups] { if (strlen(name(g)) > longest) { longest = strlen(name(g)) } }
# Half of the last number of an axis of steps stands beyond its end.
edge_room = exists("last_of_all") ? 4 + 5.6 * strlen(sprintf("%g", last_of_all)) : 14
edge_room = edge_room < 14 ? 14 : edge_room
edge_beside(most) = narrow ? 1 - edge_room / width : clamp(1 - (44 + 9.2 * longest) / width, 0.6, most)

# "3 seeds", or "2 to 3 seeds" where groups differ
if (!exists("one_is")) one_is = "seed"
least_seeds = seeds[1]; most_seeds = seeds[1]
do for [g=2:groups] {
  if (seeds[g] < least_seeds) { least_seeds = seeds[g] }
  if (seeds[g] > most_seeds) { most_seeds = seeds[g] }
}
seeds_text = most_seeds == 1 ? "1 ".one_is : \
             least_seeds == most_seeds ? sprintf("%d %ss", most_seeds, one_is) : \
             sprintf("%d to %d %ss", least_seeds, most_seeds, one_is)
over_seeds(what) = most_seeds == 1 ? seeds_text : what." over ".seeds_text

# --- axes --------------------------------------------------------------------------------------------------
ink = "#111111"; soft = "#666666"; faint = "#888888"
set border 3 lw 0.8 lc rgb "#555555"
set tics nomirror out scale 0.6 textcolor rgb "#333333"
set grid back lc rgb "#DDDDDD" lw 0.6 dt 1
unset key
set palette defined (0 "#440154", 1 "#482777", 2 "#3f4a8a", 3 "#31678e", 4 "#26838f", 5 "#1f9d8a", \
                     6 "#6cce5a", 7 "#b6de2b", 8 "#fee825")   # viridis
# the step between tics of a linear axis of this length: two to five of them, whose numbers keep apart
power_below(x) = 10.0**floor(log10(x))
tic_step(length) = power_below(length) * (length / power_below(length) < 2 ? 0.5 : length / power_below(length) < 5 ? 1 : 2)
# a label of an axis that is longer than the axis has two lines
wrapped(label, most) = strlen(label) <= most ? label : strstrt(label, ", ") > 0 ? \
    label[1:strstrt(label, ", ")]."\n".label[strstrt(label, ", ")+2:*] : strstrt(label, "  (") > 0 ? \
    label[1:strstrt(label, "  (")-1]."\n".label[strstrt(label, "  (")+2:*] : label
room_of_label(label) = strstrt(label, "\n") > 0 ? 20 : 0      # beside the axis, in pixels
offset_of(label) = strstrt(label, "\n") > 0 ? -0.8 : 0.4
# and of an axis of training steps from 0: at most ten tics, none beside its end; a step that ends there where one is near
ends_near(length, step) = ceil(length * 1.0 / step) * step - length <= 0.02 * length
step_among(length, a, b, c) = ends_near(length, a) ? a : length >= 3 * b && ends_near(length, b) ? b : \
    length >= 3 * c && ends_near(length, c) ? c : a
half_way(p) = p < 10 ? 5 * p : 2.5 * p                # whole steps
steps_from(length, p) = length > 5 * p ? step_among(length, 2 * p, half_way(p), 5 * p) : p
tic_of_steps(length) = length < 10 ? 1 : steps_from(length, power_below(length / 2.0))
# Such an axis, with a tic in so many of these steps. It ends with a tic: at a round number where that is near, as it is of
# steps counted from 0, else where the curves end.
end_of(length, step) = ends_near(length, step) ? ceil(length * 1.0 / step) * step : length
axis_with(step, end) = sprintf("set xrange [0:%.10g]; set xtics 0,%.10g,%.10g; set xtics add (%.10g)", end, step, end - 0.6 * step, end)
axis_of_steps(length, sparser) = axis_with(tic_of_steps(length) * sparser, end_of(length, tic_of_steps(length)))
no_zero(c) = c > 0 ? "set xtics add ('' 0)" : "set xtics add (0)"    # beside the last number of the panel at the left
# a log axis of few decades has also 2 and 5, or 3, times a power of ten, and more within one
tics_of(decades) = decades < 0.4 ? "1 1.2 1.4 1.6 1.8 2 2.5 3 3.5 4 5 6 7 8 9" : decades < 0.8 ? "1 1.5 2 3 4 5 7" : decades < 1.5 ? "1 2 5" : decades < 3.5 ? "1 3" : "1"
