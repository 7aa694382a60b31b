# sensitivity.awk - sensitivities of the arms, the registered predictions, and the numbers of the figure
# First file: arm seed sensitivity. Second: arm rate seed loss. Writes `curves` (a block an arm: rate, median loss, lowest,
# highest) and `points` (arm, median sensitivity, lowest, highest).
BEGIN {
  FS = "\t"
  cures = split("clip norm cap decay", cure, " ")
  name["clip"] = "QK-Clip, tau 20"; name["norm"] = "QK-Norm"; name["cap"] = "soft cap 20"; name["decay"] = "decay 0.1, gains too"
}
NR == FNR { x[$1, $2] = $3; if (!(("of", $2) in seen)) { seen["of", $2]; seed[++seeds] = $2 } next }
{ loss[$1, $2, ++n[$1, $2]] = $4; if (!($2 in known)) { known[$2]; rate[++rates] = $2 } }
function of_arm(a,   i, v) {
  for (i = 1; i <= seeds; i++) v[i] = x[a, seed[i]]
  return median(v, seeds)
}
function effect(a, b,   i, v) {
  for (i = 1; i <= seeds; i++) v[i] = x[b, seed[i]] - x[a, seed[i]]
  return median(v, seeds)
}
function write_curve(a,   k, i, v, m) {
  for (k = 1; k <= rates; k++) {
    for (i = 1; i <= n[a, rate[k]]; i++) v[i] = loss[a, rate[k], i]
    m = median(v, n[a, rate[k]])
    print rate[k], m, v[1], v[n[a, rate[k]]] > curves
  }
  print "\n" > curves
}
function write_point(a,   i, v, m) {
  for (i = 1; i <= seeds; i++) v[i] = x[a, seed[i]]
  m = median(v, seeds)
  print a, m, v[1], v[seeds] > points
}
function least(a,   k, i, v, m, low, at) {
  for (k = 1; k <= rates; k++) {
    for (i = 1; i <= n[a, rate[k]]; i++) v[i] = loss[a, rate[k], i]
    m = median(v, n[a, rate[k]])
    if (low == "" || m < low) { low = m; at = rate[k] }
  }
  return sprintf("%8.4f at %-7s", low, at)
}
function row(optimizer, tail, what,   a, m, told, line) {
  a = optimizer tail
  m = of_arm(a)
  line = sprintf("%-5s %-22s %6.3f %-16s %s", optimizer, what, m, told_interval("%.3f"), least(a))
  if (tail != "") { m = effect(optimizer, a); told = told_interval("%.3f"); turn(); line = line sprintf(" %7.3f %-17s %s", m, told, above(0.02)) }
  sub(/ +$/, "", line)
  print line
  write_curve(a); write_point(a)
}
END {
  # rates in their order
  for (i = 2; i <= rates; i++) { t = rate[i]; for (k = i - 1; k >= 1 && rate[k] + 0 > t + 0; k--) rate[k + 1] = rate[k]; rate[k + 1] = t }
  print "      cure                   sensitivity [95 %]       least loss         effect of the cure"
  for (o = 1; o <= 2; o++) {
    optimizer = o == 1 ? "adam" : "muon"
    row(optimizer, "", "none")
    for (c = 1; c <= cures; c++) row(optimizer, "-" cure[c], name[cure[c]])
  }
  printf "Medians over %d seeds, %d rates from %s to %s; sensitivity and effect in nat.\n", seeds, rates, rate[1], rate[rates]
}
