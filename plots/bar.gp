# bar.gp - the numbers beside a colour bar: its ends always, and what is round between them
# In: bar_low, bar_high, the ends; bar_linear (1: linear in any case); bar_free, what share of the bar beside each end
# a number takes. Out: bar_letters, of the longer number of the ends. The scale is logarithmic from half a decade on:
# below, colours of a logarithm would hardly differ from linear ones, and there are few round numbers.
bar_log = !bar_linear && bar_low > 0 && bar_high / bar_low >= 10**0.5
if (bar_log) { set logscale cb } else { unset logscale cb }
bar_room = bar_high > bar_low ? 0 : 1e-3 * abs(bar_high) + 1e-9
set cbrange [bar_low - bar_room:bar_high + bar_room]
# so many digits that the ends differ
bar_digits = bar_high > bar_low ? clamp(2 + ceil(log10(clamp(abs(bar_high) / (bar_high - bar_low), 1, 1e4))), 3, 6) : 4
bar_text(v) = abs(v) >= 10**bar_digits && abs(v) < 1e6 ? sprintf("%.0f", v) : sprintf(sprintf("%%.%dg", bar_digits), v)
bar_place(v) = bar_log ? log10(v / bar_low) / log10(bar_high / bar_low) : (v - bar_low) / (bar_high - bar_low)
set cbtics ()
# "≤" and "≥": values beyond the end have its colour
if (!exists("bar_below")) { bar_below = 0; bar_above = 0 }
bar_first = (bar_below ? "≤ " : "").bar_text(bar_low); bar_last = (bar_above ? "≥ " : "").bar_text(bar_high)
bar_letters = strlen(bar_first) > strlen(bar_last) ? strlen(bar_first) : strlen(bar_last)
set cbtics add (bar_first bar_low)
if (bar_high > bar_low) { set cbtics add (bar_last bar_high) }
if (bar_log) {
  bar_each = ceil(clamp(1.6 * bar_free * log10(bar_high / bar_low), 1, 100))   # of many decades every so many
  do for [e=floor(log10(bar_low)):ceil(log10(bar_high))] { do for [t in (e % bar_each == 0 ? tics_of(log10(bar_high / bar_low)) : "")] {
    v = t * 10.0**e                                 # not over the numbers of the ends
    if (bar_place(v) > bar_free && bar_place(v) < 1 - bar_free) { set cbtics add (sprintf("%g", v) v) }
  } }
}
if (!bar_log && bar_high > bar_low && bar_free < 0.3) {
  bar_step = tic_step(bar_high - bar_low)
  do for [i=ceil(bar_low / bar_step):floor(bar_high / bar_step)] {
    if (bar_place(i * bar_step) > bar_free && bar_place(i * bar_step) < 1 - bar_free) {
      set cbtics add (sprintf("%g", i * bar_step) i * bar_step)
    }
  }
}
