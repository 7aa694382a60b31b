# style.gp - the house style: terminal, colours, axes (gnuplot 5.4 and 6.0)
#
# A figure script sets width and height, loads this file, and draws. `maxlogit plot` gives before that:
#   term          png, svg, dumb (text on the terminal) or dumbansi (the same in colour)
#   out           file to write; empty: standard output
#   columns rows  size of a text figure
#   groups        number of groups of runs; a group's runs differ only in their seed
#   kind[g]       what a group is: a preset's name, or optimizer+stabilizers
#   rest[g]       what else tells it from others (" lr=0.01"), or empty
#   note[g]       how many of its runs failed or have not finished (" (1 of 3 diverged)"), or empty
#   clipped[g]    1 where a stabiliser is on: drawn solid; the others are dashed
#   seeds[g]      number of runs that are drawn: not those that failed, unless all did
#   one_is        "run" where those of a group differ in more than their seed; else, and where it is missing, "seed"
# `maxlogit plot --script` prints all of it, data included, for a figure of your own.

set encoding utf8
set datafile missing "NaN"
text_term = term eq "dumb" || term eq "dumbansi"

if (term eq "png")      set terminal pngcairo size width,height font "DejaVu Sans,13" linewidth 1.4 butt \
                            enhanced
if (term eq "svg")      set terminal svg size width,height font "DejaVu Sans,13" linewidth 1.4 butt enhanced \
                            background "white" standalone
if (term eq "dumb")     set terminal dumb mono size columns,rows noenhanced
if (term eq "dumbansi") set terminal dumb ansi size columns,rows noenhanced
if (out ne "") set output out

# --- a fixed colour for each preset (Okabe-Ito); any other group takes the next spare one -----------------
known_kind   = "adam     adamclip muon     muonclip"
known_name   = "Adam     AdamClip Muon     MuonClip"
known_colour = "0xD55E00 0xE69F00 0x0072B2 0x56B4E9"
spare_colour = "0x009E73 0xCC79A7 0x222222 0x8C6D31 0x7A5195 0x6B8E23 0xA0A0A0 0x00A5B5 0xB22222 0x4B4BC8 \
                0x1B5E20 0xF06292 0x5D4037 0x9E9D24 0x37474F 0xFF8A65"
known(k) = sum [i=1:words(known_kind)] (word(known_kind, i) eq k ? i : 0)
earlier(g) = g < 2 ? 0 : sum [i=1:g-1] (kind[i] eq kind[g])
spare(n) = int(word(spare_colour, 1 + (n - 1) % words(spare_colour)))

array colour[groups]
spares = 0
do for [g=1:groups] {
  if (known(kind[g]) > 0 && earlier(g) == 0) {
    colour[g] = int(word(known_colour, known(kind[g])))
  } else {
    spares = spares + 1
    colour[g] = spare(spares)
  }
}
band(g) = colour[g] + 0xCC000000                     # 80 % transparent
full_name(g) = (known(kind[g]) > 0 ? word(known_name, known(kind[g])) : kind[g]).rest[g]
room_of(g) = 38 - strlen(note[g])
name(g) = (strlen(full_name(g)) > room_of(g) ? full_name(g)[1:room_of(g)-1]."…" : full_name(g)).note[g]
set dashtype 11 (14,7)
dash(g) = clipped[g] ? 1 : 11

# filledcurves may run over the frame: give it no value outside
clamp(y, low_, high_) = y < low_ ? low_ : y > high_ ? high_ : y

# the longest name, and the right edge (screen) that leaves room for it beside the curves
longest = 0
do for [g=1:groups] { if (strlen(name(g)) > longest) { longest = strlen(name(g)) } }
edge_beside(most) = clamp(1 - (30 + 9.2 * longest) / width, 0.6, most)

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
# and of an axis of training steps from 0: at most ten tics, none beside its end
tic_of_steps(length) = length < 10 ? 1 : power_below(length / 2.0) * (length / power_below(length / 2.0) > 5 ? 2 : 1)
# a log axis of few decades has also 2 and 5, or 3, times a power of ten, and more within one
tics_of(decades) = decades < 0.4 ? "1 1.2 1.4 1.6 1.8 2 2.5 3 3.5 4 5 6 7 8 9" : decades < 0.8 ? "1 1.5 2 3 4 5 7" : decades < 1.5 ? "1 2 5" : decades < 3.5 ? "1 3" : "1"
