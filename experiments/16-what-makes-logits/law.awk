# law.awk - the law and its rivals: fitted by least squares on the set "fit", told on all sets (with ../order.awk; -v only=1: of the last
# layer alone)
# In: lines of heads.awk. Out: the table; into files named by -v: points (number of the set, predicted, measured, last layer,
# optimizer 1 Adam, 2 Muon, 3 another; set), judged (set, R^2 of each rival), sums (set, rate, predicted, measured, pairs, path,
# alignment: Muon less Adam).
function fit(x, y, n,   i, mx, my, sxx, sxy) {
  for (i = 1; i <= n; i++) { mx += x[i] / n; my += y[i] / n }
  for (i = 1; i <= n; i++) { sxx += (x[i] - mx) ^ 2; sxy += (x[i] - mx) * (y[i] - my) }
  slope = sxx > 0 ? sxy / sxx : 0
  level = my - slope * mx
}
function judge(c, s,   i, n, my, left, all) { # R^2 of what c predicts of set s (all: fit), slope of measured on predicted
  n = 0; my = 0; left = 0; all = 0; off = 0
  for (i = 1; i <= N; i++) if (set[i] == s) { X[++n] = a[c] + b[c] * x[c, i]; Y[n] = target(c, i); my += Y[n] }
  my /= n
  for (i = 1; i <= n; i++) { left += (Y[i] - X[i]) ^ 2; all += (Y[i] - my) ^ 2; off += (Y[i] - X[i]) / n }
  fit(X, Y, n)
  return all > 0 ? 1 - left / all : 0
}
function target(c, i) { return c == "signed" ? z[i] : y[i] }
BEGIN {
  m = split("law signed drive gain rates rms norm path", names, " ")
  split("the law: drive + gain|the law, of the signed maximum|drive alone|gain alone|sum of rates|path by RMS|path by spectral norm|the head's own path", told, "|")
}
only && !$7 { next }
{
  N++; set[N] = $1; opt[N] = $2; rate[N] = $3; seed[N] = $4; last[N] = $7; y[N] = $8; z[N] = $9
  x["drive", N] = $10; x["gain", N] = $11; x["rates", N] = $12; x["rms", N] = $13; x["norm", N] = $14; x["path", N] = $15
  x["law", N] = x["signed", N] = $16; forward[N] = $17
  if (!($1 in heads)) order[++sets] = $1
  heads[$1]++
  key = $1 SUBSEP $2 SUBSEP $3 SUBSEP $4
  if (!(key in run)) { run[key] = 1; runs[$1]++ }
}
END {
  if (only) heading = "the same, fitted and told on heads of the last layer alone"
  else heading = "fitted on the heads of the set fit; R^2 of what that predicts elsewhere, about the set's own mean (below 0: worse than the mean)"
  for (k = 1; k <= m; k++) {
    c = names[k]; n = 0
    for (i = 1; i <= N; i++) if (set[i] == "fit") { X[++n] = x[c, i]; Y[n] = target(c, i) }
    fit(X, Y, n)
    a[c] = level; b[c] = slope
  }
  print heading
  printf "%-16s", ""
  for (k = 1; k <= m; k++) printf " %7s", names[k]
  print ""
  printf "%-16s", "slope"; for (k = 1; k <= m; k++) printf " %7.3g", b[names[k]]; print ""
  printf "%-16s", "intercept"; for (k = 1; k <= m; k++) printf " %7.3g", a[names[k]]; print ""
  for (s = 1; s <= sets; s++) {
    printf "%-16s", order[s]
    for (k = 1; k <= m; k++) { r = judge(names[k], order[s]); printf " %7.2f", r; if (judged) print s, k, r >judged }
    print ""
    if (judged) print order[s] >(judged ".sets")
  }
  if (only) exit
  print "\n" told_names()
  print "the law, set by set: slope of measured on predicted growth, mean of measured less predicted"
  printf "%-10s %6s %6s %7s %8s %8s   %s\n", "set", "runs", "heads", "R^2", "slope", "bias", "registered: R^2 at least 0.7, slope 0.8 to 1.25"
  for (s = 1; s <= sets; s++) {
    r = judge("law", order[s])
    printf "%-10s %6d %6d %7.2f %8.2f %+8.2f   %s\n", order[s], runs[order[s]], heads[order[s]], r, slope, off,
      (order[s] == "fit" ? "(fitted here)" : r >= 0.7 && slope >= 0.8 && slope <= 1.25 ? "carries over" : "fails")
  }
  # pairs: last layer, Muon less Adam
  for (i = 1; i <= N; i++) {
    if (points) print order_of(set[i]), a["law"] + b["law"] * x["law", i], y[i], last[i], (opt[i] ~ /^adam/ ? 1 : opt[i] ~ /^muon/ ? 2 : 3), set[i] >points
    if (!last[i]) continue
    key = set[i] SUBSEP opt[i] SUBSEP rate[i] SUBSEP seed[i]
    tally[key]++
    left[key] += y[i] - a["law"] - b["law"] * x["law", i]; grown[key] += y[i]; driven[key] += forward[i]; gone[key] += x["path", i]
    meant[key] += b["law"] * x["law", i]; gained[key] += b["law"] * x["gain", i]
  }
  print "\nMuon less Adam, heads of the last layer: medians over pairs of equal seed (95 %: order statistics); logarithms"
  printf "%-10s %6s %5s  %-25s %10s %-25s %8s %10s %8s\n", "set", "rate", "pairs", "growth of ln max|logit|", "by the law", "left over", "path", "alignment", "gain"
  total = 0
  for (key in tally) {
    split(key, p, SUBSEP)
    if (p[2] !~ /^muon/) continue
    other = p[1] SUBSEP "adam" substr(p[2], 5) SUBSEP p[3] SUBSEP p[4]
    if (!(other in tally)) continue
    where = p[1] (p[2] == "muon" ? "" : "," substr(p[2], 6)) SUBSEP p[3]
    j = ++pairs[where]
    d_left[where, j] = left[key] / tally[key] - left[other] / tally[other]
    d_grown[where, j] = grown[key] / tally[key] - grown[other] / tally[other]
    d_meant[where, j] = meant[key] / tally[key] - meant[other] / tally[other]
    d_gain[where, j] = gained[key] / tally[key] - gained[other] / tally[other]
    d_path[where, j] = log(gone[key] / gone[other])
    d_align[where, j] = driven[key] > 0 && driven[other] > 0 ? log(driven[key] / gone[key] / (driven[other] / gone[other])) : 0
    if (p[1] != "fit") { all_left[++total] = d_left[where, j]; all_grown[total] = d_grown[where, j]; all_meant[total] = d_meant[where, j] }
  }
  for (where in pairs) lines[++wheres] = where
  sort_of(lines, wheres)
  for (w = 1; w <= wheres; w++) {
    where = lines[w]; n = pairs[where]; split(where, p, SUBSEP)
    for (j = 1; j <= n; j++) V[j] = d_grown[where, j]
    g = median(V, n); g_told = sprintf("%+.2f %s", g, told_interval("%.2f"))
    for (j = 1; j <= n; j++) V[j] = d_left[where, j]
    e = median(V, n); e_told = sprintf("%+.2f %s", e, told_interval("%.2f"))
    for (j = 1; j <= n; j++) V[j] = d_meant[where, j]
    l = median(V, n)
    for (j = 1; j <= n; j++) V[j] = d_path[where, j]
    pa = median(V, n)
    for (j = 1; j <= n; j++) V[j] = d_align[where, j]
    al = median(V, n)
    for (j = 1; j <= n; j++) V[j] = d_gain[where, j]
    ga = median(V, n)
    printf "%-10s %6s %5d  %-25s %+10.2f %-25s %+8.2f %+10.2f %+8.2f\n", p[1], p[2], n, g_told, l, " " e_told, pa, al, ga
    if (sums) print p[1], p[2], l, g, n, pa, al >sums
  }
  same = 0
  for (j = 1; j <= total; j++) { same += all_grown[j] * all_meant[j] > 0; X[j] = all_meant[j]; Y[j] = all_grown[j]; V[j] = all_left[j] }
  e = median(V, total)
  fit(X, Y, total)
  left_over = 0; all = 0; mean = 0
  for (j = 1; j <= total; j++) mean += Y[j] / total
  for (j = 1; j <= total; j++) { left_over += (Y[j] - X[j]) ^ 2; all += (Y[j] - mean) ^ 2 }
  printf "\nall pairs but those of fit: %d; left over %+.3f %s; the law tells whose grow more in %d; slope %.2f, R^2 %.2f\n", total, e, told_interval("%.3f"), same, slope, 1 - left_over / all
}
function told_names(   k, s) { for (k = 1; k <= m; k++) s = s sprintf("%-8s %s\n", names[k], told[k]); return s }
function order_of(s,   k) { for (k = 1; k <= sets; k++) if (order[k] == s) return k; return 0 }
