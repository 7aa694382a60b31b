# price.awk - the table of prices and the registered verdicts, with ../order.awk
# In: the arms' names in order; the runs that are measured: arm rate seed loss reach. Into files: prices (a block a cure with a threshold: threshold over the
# reach of no cure, price, interval), points (arm, price, interval, reach, interval, 1 on the front).
BEGIN { cures = split("head layer cap", cure, " "); matters = 0.02; factor = 1.5 }
NR == FNR { arm[++arms] = $1; next }
{
  rate[$1] = $2
  if (!($3 in seen)) { seen[$3] = 1; seed[++seeds] = $3 }
  split($1, part, "-")
  kind[$1] = part[1]; tau[$1] = part[2]
  loss[$1, $3] = $4
  reach[$1, $3] = part[1] == "cap" ? bent($5 / part[2]) * part[2] : $5 # what enters the softmax
}
function bent(x,   e) { if (x > 20) return 1; e = exp(2 * x); return (e - 1) / (e + 1) }
# Pairs of equal seed into V: difference of losses, or logarithm of the ratio of reaches, a less b
function pairs(what, a, b,   i, n) {
  for (i = 1; i <= seeds; i++) {
    if (!((a, seed[i]) in loss) || !((b, seed[i]) in loss)) continue
    V[++n] = what == "loss" ? loss[a, seed[i]] - loss[b, seed[i]] : log(reach[a, seed[i]] / reach[b, seed[i]])
  }
  return n
}
function price(a,   e) { e = median(V, pairs("loss", a, "none")); return e }
function verdict() { return lo == "-" ? "few seeds" : hi < matters ? "is free" : lo > matters ? "costs" : "open" }
function middle(what, a,   i, n) { for (i = 1; i <= seeds; i++) if ((a, seed[i]) in loss) V[++n] = what == "loss" ? loss[a, seed[i]] : reach[a, seed[i]]; return median(V, n) }
function below(what, a, b) { median(V, pairs(what, a, b)); return hi != "-" && hi < 0 } # every pair, six or more
function size(x) { x = log(x); return x < 0 ? -x : x }
function nearest(c, aim,   i, best) {
  for (i = 1; i <= arms; i++) if (kind[arm[i]] == c && (best == "" || size(tau[arm[i]] / full / aim) < size(tau[best] / full / aim))) best = arm[i]
  return best
}
END {
  full = middle("reach", "none")
  printf "each arm at its own best rate, medians of %d seeds; price: loss less that of no cure, pairs of equal seed, 95 %% interval\n", seeds
  printf "%-14s %9s %9s %8s %8s %8s %22s\n", "arm", "threshold", "of reach", "rate", "reach", "loss", "price"
  for (i = 1; i <= arms; i++) {
    a = arm[i]
    printf "%-14s %9s %9s %8.3g ", kind[a], tau[a] == "" ? "-" : tau[a], tau[a] == "" ? "-" : sprintf("%.3f", tau[a] / full), rate[a]
    r = middle("reach", a); r_lo = lo == "-" ? r : lo; r_hi = hi == "-" ? r : hi
    printf "%8.3g %8.4f ", r, middle("loss", a)
    front = 1
    for (k = 1; k <= arms; k++) if (k != i && below("loss", arm[k], a) && below("reach", arm[k], a)) front = 0
    if (front) on = on " " a
    e = price(a)
    print a, e, lo == "-" ? e : lo, hi == "-" ? e : hi, r, r_lo, r_hi, front >points
    if (a == "none") print ""
    else printf "%+.4f %-20s %s\n", e, told_interval("%+.4f"), verdict()
  }
  for (c = 1; c <= cures; c++) {
    for (i = 1; i <= arms; i++) if (kind[arm[i]] == cure[c]) {
      e = price(arm[i])
      print tau[arm[i]] / full, e, lo == "-" ? e : lo, hi == "-" ? e : hi >prices
    }
    print "\n" >prices
  }
  print "\n1, the knee: a quarter of the reach is free, a thirtieth costs"
  for (c = 1; c <= cures; c++) {
    q = nearest(cure[c], 1 / 4); t = nearest(cure[c], 1 / 30)
    price(q); v = verdict(); price(t); w = verdict()
    printf "%-6s %.3f %s, %.3f %s: %s\n", cure[c], tau[q] / full, v, tau[t] / full, w, \
      v == "is free" && w == "costs" ? "holds" : v == "costs" || w == "is free" ? "refuted here" : v == "few seeds" ? v : "inconclusive"
  }
  print "\n2, per layer less per head at equal thresholds below half of the reach"
  for (i = 1; i <= arms; i++) if (kind[arm[i]] == "head" && tau[arm[i]] < full / 2) {
    e = median(V, pairs("loss", "layer-" tau[arm[i]], arm[i])); if (lo == "-") few = 1
    if (lo != "-" && lo > matters) dear++
    if (lo != "-" && lo < -matters) other++
    if (hi != "-" && hi < matters) short++
    compared++
    printf "%6s %+.4f %s\n", tau[arm[i]], e, told_interval("%+.4f")
  }
  print "layer costs more: " (few ? "few seeds" : dear && !other ? "holds" : short == compared ? "refuted here" : "inconclusive")
  print "\n3, the front (no other arm beats both loss and reach in every pair):" on
  print "\n4, reach over that of no cure"
  for (i = 1; i <= arms; i++) if (arm[i] ~ /^(learned_sink|output_gate|ssmax)$/) {
    e = exp(median(V, pairs("reach", arm[i], "none")))
    if (lo != "-") { lo = exp(lo); hi = exp(hi) }
    printf "%-14s %.3g %s  no cure: %s\n", arm[i], e, told_interval("%.3g"), \
      (lo == "-" ? "few seeds" : lo > 1 / factor && hi < factor ? "holds" : hi < 1 / factor || lo > factor ? "refuted here" : "inconclusive")
  }
  if (!(("decay_gains", seed[1]) in loss)) exit
  price("decay_gains"); v = verdict()
  e = exp(median(V, pairs("reach", "decay_gains", "none")))
  few = lo == "-"; if (!few) { lo = exp(lo); hi = exp(hi) }
  printf "\n5, decay of gains: reach over that of no cure\n%.3g %s  %s and lower, not below half: %s\n", e, told_interval("%.3g"), v, \
    (few ? "few seeds" : v == "is free" && hi < 1 && lo > 0.5 ? "holds" : v == "costs" || lo > 1 || hi < 0.5 ? "refuted here" : "inconclusive")
}
