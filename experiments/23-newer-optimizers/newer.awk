# newer.awk - exponents, ends and losses of the optimizers, and the registered predictions
# A line a run: arm rate seed exponent end loss. Writes `points` (arm, exponent, lowest, highest).
BEGIN {
  FS = "\t"
  arms = split("adam muon compositional klshampoo scion dion", arm, " ")
  EXPONENT = 4; END_ = 5; LOSS = 6
}
{ rate[$1] = $2; runs[$1]++; seed[$1, runs[$1]] = $3; for (c = EXPONENT; c <= LOSS; c++) x[$1, $3, c] = $c }
function of_arm(a, c,   i, v) {
  for (i = 1; i <= runs[a]; i++) v[i] = x[a, seed[a, i], c]
  return median(v, runs[a])
}
# The exponent of b minus Muon's over pairs of equal seed: the median; lo and hi are its interval.
function effect(b,   i, n, v, s) {
  for (i = 1; i <= runs["muon"]; i++) { s = seed["muon", i]; if ((b, s, EXPONENT) in x) v[++n] = x[b, s, EXPONENT] - x["muon", s, EXPONENT] }
  return n ? median(v, n) : "-"
}
function predict(number, what, b, kind,   m, word, form) {
  m = effect(b)
  form = told_interval("%.2f")
  if (kind != "within" && kind != "above") turn()
  word = kind == "within" ? within(0.25) : kind == "not below" ? denied(above(0.25)) : above(0.25)
  printf "%d. %-44s %6.2f %-16s %s\n", number, what, m, form, word
}
END {
  print "optimizer        rate  seeds  exponent [95 %]           end   loss"
  for (i = 1; i <= arms; i++) {
    a = arm[i]
    m = of_arm(a, EXPONENT)
    printf "%-14s %6.3g  %5d  %5.2f %-16s  %6.4g  %.4f\n", a, rate[a], runs[a], m, told_interval("%.2f"), of_arm(a, END_), of_arm(a, LOSS)
    of_arm(a, EXPONENT)
    print a, m, lo == "-" ? m : lo, hi == "-" ? m : hi > points
  }
  print ""
  print "Exponent minus Muon's:"
  predict(1, "compositional: below by more than 0.25", "compositional", "below")
  predict(2, "KL-Shampoo: within 0.25", "klshampoo", "within")
  predict(3, "Scion: above by more than 0.25", "scion", "above")
  predict(4, "Dion: not below by more than 0.25", "dion", "not below")
}
