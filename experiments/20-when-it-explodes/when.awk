# when.awk - exponents, ends and losses of the arms, and the registered predictions
# A line a run: arm rate seed exponent end loss training-loss, then shares without a clip early and late ("NaN": no clip).
BEGIN {
  FS = "\t"
  arms = split("adam muon adam-decay-0.01 muon-decay-0.01 adam-decay muon-decay adam-noise muon-noise polargrad normuon lion soap muonclip muonclip-decay adam-tuned muon-tuned", arm, " ")
  EXPONENT = 4; END_ = 5; LOSS = 6; TRAINING = 7; EARLY = 8; LATE = 9
}
{
  if (!($1 in runs)) rate[$1] = $2
  runs[$1]++
  seed[$1, runs[$1]] = $3
  for (c = EXPONENT; c <= LATE; c++) x[$1, $3, c] = $c
}
function of_arm(a, c,   i, v, m) {
  for (i = 1; i <= runs[a]; i++) v[i] = x[a, seed[a, i], c]
  return median(v, runs[a])
}
# The median over pairs of equal seed of B - A, or of B / A; lo and hi are its interval.
function effect(a, b, c, ratio,   i, n, v, s) {
  for (i = 1; i <= runs[a]; i++) {
    s = seed[a, i]
    if (!((b, s, c) in x) || x[a, s, c] == "NaN" || x[b, s, c] == "NaN") continue
    v[++n] = ratio ? x[b, s, c] / x[a, s, c] : x[b, s, c] - x[a, s, c]
  }
  return n ? median(v, n) : "-"
}
function line(number, what, m, interval, word,   t) {
  t = sprintf("%-3s %-58s %7.3f %-18s %s", number, what, m, interval, word)
  sub(/ +$/, "", t)
  print t
}
# B - A of column c, predicted above d, or with sign -1 below -d; "not": at most d; "same": within d.
function predict(number, what, a, b, c, d, kind,   m, told, word) {
  if (!(a in runs) || !(b in runs)) return
  m = effect(a, b, c, 0)
  if (m == "-") return
  told = told_interval("%.3f")
  if (kind == "less") { turn(); word = above(d) }
  else if (kind == "more") word = above(d)
  else if (kind == "not more") word = denied(above(d))
  else if (kind == "not less") { turn(); word = denied(above(d)) }
  else word = within(d)
  line(number, what, m, told, word)
}
END {
  print "arm                  rate  seeds  exponent [95 %]           end   loss (validation)  loss (training)"
  for (i = 1; i <= arms; i++) {
    a = arm[i]
    if (!(a in runs)) continue
    m = of_arm(a, EXPONENT)
    printf "%-16s %8.3g  %5d  %5.2f %-16s  %6.4g  %17.4f  %15.4f\n", a, rate[a], runs[a], m, told_interval("%.2f"),
      of_arm(a, END_), of_arm(a, LOSS), of_arm(a, TRAINING)
    m = of_arm(a, EXPONENT)
    print a, m, lo == "-" ? m : lo, hi == "-" ? m : hi >exponents
  }
  print ""
  print "predictions, median over pairs of equal seed, 95 % interval"
  predict("1", "exponent, Muon - Adam: above 0.25", "adam", "muon", EXPONENT, 0.25, "more")
  predict("2", "exponent, Adam with decay 0.1 - Adam: below -0.25", "adam", "adam-decay", EXPONENT, 0.25, "less")
  predict("2", "exponent, Muon with decay 0.1 - Muon: below -0.25", "muon", "muon-decay", EXPONENT, 0.25, "less")
  predict("2", "exponent, Adam with decay 0.01 - Adam: below -0.25", "adam", "adam-decay-0.01", EXPONENT, 0.25, "less")
  predict("2", "exponent, Muon with decay 0.01 - Muon: below -0.25", "muon", "muon-decay-0.01", EXPONENT, 0.25, "less")
  predict("3", "exponent, Adam with label noise - Adam: below -0.25", "adam", "adam-noise", EXPONENT, 0.25, "less")
  predict("3", "exponent, Muon with label noise - Muon: below -0.25", "muon", "muon-noise", EXPONENT, 0.25, "less")
  predict("4", "exponent, PolarGrad - Muon: below -0.5", "muon", "polargrad", EXPONENT, 0.5, "less")
  predict("5", "exponent, NorMuon - Muon: not below -0.25", "muon", "normuon", EXPONENT, 0.25, "not less")
  predict("5", "exponent, Lion - Adam: above 0.25", "adam", "lion", EXPONENT, 0.25, "more")
  predict("5", "exponent, SOAP - Adam: within 0.25", "adam", "soap", EXPONENT, 0.25, "same")
  for (i = 1; i <= runs["muonclip"]; i++) acting += x["muonclip", seed["muonclip", i], LATE] < 1
  if (runs["muonclip"])
    printf "%-3s %-58s %7s %-18s %s\n", "6", "runs with a clip in the last tenth, no decay: more than half", acting " of " runs["muonclip"], "",
      (acting > runs["muonclip"] / 2 ? "holds" : "refuted here")
  for (k = 1; k <= 2; k++) {
    a = k == 1 ? "muonclip" : "muonclip-decay"
    if (!(a in runs)) continue
    m = 1 - of_arm(a, LATE)
    if (lo != "-") { t = 1 - lo; lo = 1 - hi; hi = t }
    line("", "share of heads and steps clipped, last tenth, " (k == 1 ? "no decay" : "decay 0.1"), m, told_interval("%.3f"), "")
  }
  # less clipping late: a larger share without
  for (i = 1; i <= runs["muonclip-decay"]; i++) {
    s = seed["muonclip-decay", i]
    gain[++gains] = x["muonclip-decay", s, LATE] - x["muonclip-decay", s, EARLY]
  }
  if (gains) {
    m = median(gain, gains)
    line("6", "share not clipped with decay, late - early: above 0", m, told_interval("%.3f"), above(0))
  }
  predict("6", "loss, MuonClip - Muon [nat]: not above 0.02", "muon", "muonclip", LOSS, 0.02, "not more")
  predict("6", "loss, both with decay [nat]: not above 0.02", "muon-decay", "muonclip-decay", LOSS, 0.02, "not more")
  for (k = 1; k <= 2; k++) {
    a = k == 1 ? "adam-tuned" : "muon-tuned"
    if (!(a in runs)) continue
    m = of_arm(a, END_)
    line("7", "end, " (k == 1 ? "Adam" : "Muon") " at its best rate, " rate[a] ": below 100", m, told_interval("%.3g"),
      lo == "-" ? "few seeds" : hi < 100 ? "holds" : lo > 100 ? "refuted here" : "inconclusive")
  }
  if ("adam-tuned" in runs && "muon-tuned" in runs) {
    m = effect("adam-tuned", "muon-tuned", END_, 1)
    told = told_interval("%.3g")
    if (lo != "-") { lo = log(lo); hi = log(hi) }
    line("7", "end at the best rates, Muon / Adam: not above 1.25", m, told, denied(above(log(1.25))))
  }
}
