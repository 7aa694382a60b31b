# order.awk - medians with intervals between order statistics, which hold for any distribution (see README.md: the rule)
function sort_of(v, n,   i, k, t) { for (i = 2; i <= n; i++) { t = v[i]; for (k = i - 1; k >= 1 && v[k] > t; k--) v[k + 1] = v[k]; v[k + 1] = t } }
# The median of v[1..n], which it sorts; lo and hi: its 95 % interval, "-" of fewer than six.
function median(v, n,   i, c, p, rank) {
  sort_of(v, n)
  lo = hi = "-"
  p = 0.5 ^ n; c = 0; rank = 0
  for (i = 0; i < n / 2; i++) { c += p; if (c > 0.025) break; rank = i + 1; p *= (n - i) / (i + 1) }
  if (rank) { lo = v[rank]; hi = v[n + 1 - rank] }
  return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
}
function told_interval(form) { return lo == "-" ? "-" : sprintf("[" form ", " form "]", lo, hi) }
# Verdicts of an interval (lo and hi), in the words of the ledger. above: by more than d, partly if only more than `none`, what no
# effect has (without it 0). turn: the interval of the negative, for "below". denied: that it is not so. within: less than d from 0.
function above(d, none) {
  return lo == "-" ? "few seeds" : lo > d ? "holds" : hi < d ? "refuted here" : lo > none + 0 ? "partly" : "inconclusive"
}
function turn(   t) { if (lo != "-") { t = lo; lo = -hi; hi = -t } }
function denied(word) { return word == "holds" ? "refuted here" : word == "refuted here" ? "holds" : word == "partly" ? "differs, size open" : word }
function within(d) {
  return lo == "-" ? "few seeds" : lo > -d && hi < d ? "holds" : lo > d || hi < -d ? "refuted here" : lo > 0 || hi < 0 ? "differs, size open" : "inconclusive"
}
