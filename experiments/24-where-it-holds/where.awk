# where.awk - exponents, ends and losses of Adam and Muon in each regime, and the registered predictions
# A line a run: regime optimizer seed exponent end loss (validation) loss (training). Writes `exponents`: regime, optimizer, median, interval.
BEGIN {
  FS = "\t"
  regimes = split("plain gains latent deep long wide memorized text", regime, " ")
  EXPONENT = 4; END_ = 5; LOSS = 6; TRAINING = 7
}
{ n[$1, $2]++; seed[$1, $2, n[$1, $2]] = $3; for (c = EXPONENT; c <= TRAINING; c++) x[$1, $2, $3, c] = $c }
function of_arm(r, o, c,   i, v) {
  for (i = 1; i <= n[r, o]; i++) v[i] = x[r, o, seed[r, o, i], c]
  return median(v, n[r, o])
}
# The median over pairs of equal seed of B's exponent less A's; kind: the predicted sign. Nothing where an arm has no runs.
function predict(number, what, r, o, from, against, d, kind,   i, k, v, s, m, told) {
  for (i = 1; i <= n[r, o]; i++) {
    s = seed[r, o, i]
    if ((from, against, s, EXPONENT) in x) v[++k] = x[r, o, s, EXPONENT] - x[from, against, s, EXPONENT]
  }
  if (!k) return
  m = median(v, k)
  told = told_interval("%.2f")
  if (kind == "less") turn()
  printf "%d. %-46s %5.2f %-15s  %s\n", number, what, m, told, above(d)
}
END {
  print "regime     optimizer  seeds  exponent [95 %]        end  loss (validation)  loss (training)"
  for (i = 1; i <= regimes; i++)
    for (k = 1; k <= 2; k++) {
      r = regime[i]; o = k == 1 ? "adam" : "muon"
      if (!n[r, o]) continue
      m = of_arm(r, o, EXPONENT)
      print r, o, m, lo == "-" ? m : lo, hi == "-" ? m : hi >exponents
      printf "%-9s  %-9s  %5d  %5.2f %-15s", r, o, n[r, o], m, told_interval("%.2f")
      printf "  %5.4g  %17.4f  %15.4f\n", of_arm(r, o, END_), of_arm(r, o, LOSS), of_arm(r, o, TRAINING)
    }
  print ""
  for (i = 1; i <= regimes; i++)
    if (regime[i] !~ /^(gains|memorized|text)$/)
      predict(1, regime[i] ", Muon - Adam: above 0.25", regime[i], "muon", regime[i], "adam", 0.25, "more")
  predict(2, "Adam, gains - plain: below -0.25", "gains", "adam", "plain", "adam", 0.25, "less")
  predict(2, "Muon, gains - plain: below -0.25", "gains", "muon", "plain", "muon", 0.25, "less")
  predict(3, "memorized, Muon - Adam: above 0.25", "memorized", "muon", "memorized", "adam", 0.25, "more")
  predict(4, "Adam, memorized - text: above 0.25", "memorized", "adam", "text", "adam", 0.25, "more")
  predict(4, "Muon, memorized - text: above 0.25", "memorized", "muon", "text", "muon", 0.25, "more")
}
