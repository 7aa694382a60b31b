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
