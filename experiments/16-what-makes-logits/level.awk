# level.awk - the level that a head's logits end at by the norm of its form: ln max|s| = a + p ln(sigma gain), with ../order.awk
# In: lines of heads.awk. Fitted on the set "fit", told on all; then what is left of it, Muon less Adam, in the last layer.
function fit(s,   i, n, mx, my, sxx, sxy) { # of set s: measured on x, into slope and level
  for (i = 1; i <= N; i++) if (set[i] == s) { n++; mx += x[i]; my += y[i] }
  mx /= n; my /= n
  for (i = 1; i <= N; i++) if (set[i] == s) { sxx += (x[i] - mx) ^ 2; sxy += (x[i] - mx) * (y[i] - my) }
  slope = sxy / sxx; level = my - slope * mx
}
{
  N++; set[N] = $1; x[N] = $18 + $19; y[N] = $20; last[N] = $7
  key[N] = $1 SUBSEP $2 SUBSEP $3 SUBSEP $4
  if (!($1 in heads)) order[++sets] = $1
  heads[$1]++
}
END {
  fit("fit"); a = level; p = slope
  printf "the level at the end: ln max|logit| = %.2f + %.2f ln(sigma gain), fitted on fit\n", a, p
  printf "%-10s %6s %7s %12s %10s %6s  %s\n", "set", "heads", "R^2", "slope there", "bias", "pairs", "Muon less Adam, last layer: median, 95 %"
  for (i = 1; i <= N; i++) if (last[i]) { n_of[key[i]]++; left[key[i]] += y[i] - a - p * x[i] }
  for (k in n_of) {
    split(k, part, SUBSEP)
    if (part[2] !~ /^muon/) continue
    other = part[1] SUBSEP "adam" substr(part[2], 5) SUBSEP part[3] SUBSEP part[4]
    if (other in n_of) d[part[1], ++pairs[part[1]]] = left[k] / n_of[k] - left[other] / n_of[other]
  }
  for (s = 1; s <= sets; s++) {
    o = order[s]; n = my = off = rest = all = 0
    for (i = 1; i <= N; i++) if (set[i] == o) { n++; my += y[i] }
    my /= n
    for (i = 1; i <= N; i++) if (set[i] == o) { e = y[i] - a - p * x[i]; off += e / n; rest += e ^ 2; all += (y[i] - my) ^ 2 }
    fit(o)
    printf "%-10s %6d %7.2f %12.2f %+10.2f %6d", o, n, 1 - rest / all, slope, off, pairs[o]
    if (pairs[o]) { for (j = 1; j <= pairs[o]; j++) V[j] = d[o, j]; m = median(V, pairs[o]); printf "  %+.2f %s", m, told_interval("%.2f") }
    print ""
    if (o != "fit") for (j = 1; j <= pairs[o]; j++) all_pairs[++total] = d[o, j]
  }
  if (total) { m = median(all_pairs, total); printf "all but fit %59d  %+.3f %s\n", total, m, told_interval("%.3f") }
}
