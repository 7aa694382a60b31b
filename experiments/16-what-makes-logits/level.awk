# level.awk - the level that a head's logits end at, by a size of its form: ln max|s| = a + p ln(size gain), with ../order.awk
# Sizes: sigma_1 of w_q^T w_k; its bound sigma_1(w_q) sigma_1(w_k); sigma_1 of the form rotated as RoPE rotates it, the largest over distances.
# In: lines of heads.awk. Fitted on the set "fit", or only its level with p = 1, which a scale of w_q demands; told on all. Then
# what is left of it, Muon less Adam, in the last layer.
function fit(s, k,   i, n, mx, my, sxx, sxy) { # of set s: measured on x[., k], into slope and level
  for (i = 1; i <= N; i++) if (set[i] == s) { n++; mx += x[i, k]; my += y[i] }
  mx /= n; my /= n
  for (i = 1; i <= N; i++) if (set[i] == s) { sxx += (x[i, k] - mx) ^ 2; sxy += (x[i, k] - mx) * (y[i] - my) }
  slope = sxy / sxx; level = my - slope * mx; level_of_one = my - mx
}
function explained(s, k, a, p,   i, n, my, e, rest, all) { # R^2 of a + p x[., k] on set s; bias: mean of measured less that
  bias = 0
  for (i = 1; i <= N; i++) if (set[i] == s) { n++; my += y[i] }
  my /= n
  for (i = 1; i <= N; i++) if (set[i] == s) { e = y[i] - a - p * x[i, k]; bias += e / n; rest += e ^ 2; all += (y[i] - my) ^ 2 }
  return 1 - rest / all
}
# d[set, pair]: Muon less Adam, of what a + p x[., k] leaves, over the last layer; pairs[set]
function compare(k, a, p,   i, j, part, other, left, n_of) {
  split("", d); split("", pairs)
  for (i = 1; i <= N; i++) if (last[i]) { n_of[key[i]]++; left[key[i]] += y[i] - a - p * x[i, k] }
  for (j in n_of) {
    split(j, part, SUBSEP)
    if (part[2] !~ /^muon/) continue
    other = part[1] SUBSEP "adam" substr(part[2], 5) SUBSEP part[3] SUBSEP part[4]
    if (other in n_of) d[part[1], ++pairs[part[1]]] = left[j] / n_of[j] - left[other] / n_of[other]
  }
}
function over_all(form,   o, s, j, total, V, m) {
  for (s = 1; s <= sets; s++) { o = order[s]; if (o != "fit") for (j = 1; j <= pairs[o]; j++) V[++total] = d[o, j] }
  if (!total) return "-"
  m = median(V, total)
  return sprintf("%d pairs " form " ", total, m) told_interval(form)
}
{
  N++; set[N] = $1; y[N] = $20; last[N] = $7
  x[N, 1] = $18 + $19; x[N, 2] = $21 + $19; x[N, 3] = $22 + $19
  key[N] = $1 SUBSEP $2 SUBSEP $3 SUBSEP $4
  if (!($1 in heads)) order[++sets] = $1
  heads[$1]++
}
END {
  name[1] = "form"; name[2] = "bound"; name[3] = "rotated"
  for (k = 1; k <= 3; k++) { fit("fit", k); p[2 * k - 1] = slope; a[2 * k - 1] = level; p[2 * k] = 1; a[2 * k] = level_of_one }
  printf "the level at the end: ln max|logit| = %.2f + %.2f ln(sigma gain), fitted on fit\n", a[1], p[1]
  printf "%-10s %6s %7s %12s %10s %6s  %s\n", "set", "heads", "R^2", "slope there", "bias", "pairs", "Muon less Adam, last layer: median, 95 %"
  compare(1, a[1], p[1])
  for (s = 1; s <= sets; s++) {
    o = order[s]
    r = explained(o, 1, a[1], p[1])
    fit(o, 1)
    printf "%-10s %6d %7.2f %12.2f %+10.2f %6d", o, heads[o], r, slope, bias, pairs[o]
    if (pairs[o]) { for (j = 1; j <= pairs[o]; j++) V[j] = d[o, j]; m = median(V, pairs[o]); printf "  %+.2f %s", m, told_interval("%.2f") }
    print ""
  }
  printf "\nrivals of the level: R^2 with the slope fitted on fit, and with slope 1\n%-10s", "set"
  for (k = 1; k <= 3; k++) printf " %9s (%.2f)  (1)", name[k], p[2 * k - 1]
  print ""
  for (s = 1; s <= sets; s++) {
    printf "%-10s", order[s]
    for (q = 1; q <= 6; q++) printf q % 2 ? " %16.2f" : " %5.2f", explained(order[s], int((q + 1) / 2), a[q], p[q])
    print ""
  }
  print "\nMuon less Adam in the last layer, of what each leaves, all sets but fit: median, 95 %"
  for (q = 1; q <= 6; q++) {
    compare(int((q + 1) / 2), a[q], p[q])
    printf "%-8s slope %.2f  %s\n", name[int((q + 1) / 2)], p[q], over_all("%+.3f")
  }
}
