# vocabulary.awk - ends, exponents and losses of the arms at their best rates, the registered predictions, and the figure's numbers
# Both files, a line a run: arm rate seed end exponent loss. First the runs that chose the rates, then those at the best.
# Writes `points` (a block an arm: rate, median end, median loss; the best rate marked by 1).
BEGIN {
  FS = "\t"
  arms = split("adam-64 adam-8192 muon-64 muon-8192", arm, " ")
  END_ = 4; EXPONENT = 5; LOSS = 6
}
FNR == 1 { file++ }
file == 1 { n[$1, $2]++; for (c = END_; c <= LOSS; c++) tried[$1, $2, c, n[$1, $2]] = $c; if (n[$1, $2] == 1) rate[$1, ++rates[$1]] = $2; next }
{ best[$1] = $2; runs[$1]++; seed[$1, runs[$1]] = $3; for (c = END_; c <= LOSS; c++) x[$1, $3, c] = $c }
function of_arm(a, c,   i, v) {
  for (i = 1; i <= runs[a]; i++) v[i] = x[a, seed[a, i], c]
  return median(v, runs[a])
}
function at_rate(a, r, c,   i, v) {
  for (i = 1; i <= n[a, r]; i++) v[i] = tried[a, r, c, i]
  return median(v, n[a, r])
}
function predict(number, what, a, b,   i, v, m, s) {
  for (i = 1; i <= runs[a]; i++) { s = seed[a, i]; v[i] = x[b, s, END_] / x[a, s, END_] }
  m = median(v, runs[a])
  printf "%d. %-38s %6.3g %-16s %s\n", number, what, m, told_interval("%.3g"), above(1.25, 1)
}
END {
  print "arm          rate  seeds  end [95 %]               exponent [95 %]       loss"
  for (i = 1; i <= arms; i++) {
    a = arm[i]
    m = of_arm(a, END_)
    printf "%-9s %7.3g  %5d  %6.3g %-16s", a, best[a], runs[a], m, told_interval("%.3g")
    m = of_arm(a, EXPONENT)
    printf "  %5.2f %-14s  %.4f\n", m, told_interval("%.2f"), of_arm(a, LOSS)
    for (k = 1; k <= rates[a]; k++) print rate[a, k], at_rate(a, rate[a, k], END_), at_rate(a, rate[a, k], LOSS), (rate[a, k] == best[a]) > points
    print "\n" > points
  }
  print ""
  predict(1, "Muon, 8192 / 64 symbols: above 1.25", "muon-64", "muon-8192")
  predict(2, "Adam, 8192 / 64 symbols: above 1.25", "adam-64", "adam-8192")
  predict(3, "8192 symbols, Muon / Adam: above 1.25", "adam-8192", "muon-8192")
}
