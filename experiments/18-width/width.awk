# width.awk - max logits by width and the registered verdicts, with ../order.awk
# In: the selection runs, then those measured: optimizer width rate seed loss logit. Into files: logits (a block an optimizer: width,
# median, interval, at the best rates; then a block each at one rate: width, geometric mean, lowest, highest), ratios (width, Muon over
# Adam, interval).
BEGIN { kinds = split("adam muon", kind, " "); one["adam"] = 0.005; one["muon"] = 0.01 }
FNR == 1 { file++ }
file == 1 {
  if (!(($1, $2, $3) in tries)) rate[$1, $2, ++rates[$1, $2]] = $3
  k = ++tries[$1, $2, $3]
  tried_loss[$1, $2, $3] += $5; tried[$1, $2, $3, k] = $6
}
file == 2 {
  if (!($2 in known)) { known[$2] = 1; width[++widths] = $2 }
  if (!($4 in seen)) { seen[$4] = 1; seed[++seeds] = $4 }
  chosen[$1, $2] = $3; loss[$1, $2, $4] = $5; logit[$1, $2, $4] = $6
}
function middle(what, o, w,   i, n) { for (i = 1; i <= seeds; i++) if ((o, w, seed[i]) in loss) V[++n] = what == "loss" ? loss[o, w, seed[i]] : logit[o, w, seed[i]]; return median(V, n) }
# Ratio of (a, w) over (b, v), pairs of equal seed; lo and hi: its interval
function ratio(a, w, b, v,   i, n, e) {
  for (i = 1; i <= seeds; i++) if (logit[a, w, seed[i]] > 0 && logit[b, v, seed[i]] > 0) V[++n] = log(logit[a, w, seed[i]] / logit[b, v, seed[i]])
  e = exp(median(V, n))
  if (lo != "-") { lo = exp(lo); hi = exp(hi) }
  return e
}
function mean_at(o, w, r,   k, n, x) { # geometric; least and most
  n = tries[o, w, r]; x = 0; least = most = ""
  for (k = 1; k <= n; k++) { x += log(tried[o, w, r, k]) / n; if (least == "" || tried[o, w, r, k] < least) least = tried[o, w, r, k]; if (most == "" || tried[o, w, r, k] > most) most = tried[o, w, r, k] }
  return n ? exp(x) : 0
}
END {
  sort_of(width, widths)
  print "selection runs: loss and max logit (geometric mean) by rate; *: the rate with the lowest loss"
  for (o = 1; o <= kinds; o++) for (i = 1; i <= widths; i++) {
    a = kind[o]; w = width[i]
    for (j = 1; j <= rates[a, w]; j++) R[j] = rate[a, w, j]
    sort_of(R, rates[a, w])
    for (j = 1; j <= rates[a, w]; j++) {
      r = R[j]
      printf "%-5s %5d %9.3g%s %2d seeds %8.4f %8.4g\n", a, w, r, r == chosen[a, w] ? "*" : " ", tries[a, w, r], tried_loss[a, w, r] / tries[a, w, r], mean_at(a, w, r)
    }
  }
  printf "\nat its best rate, medians of %d seeds, 95 %% interval\n", seeds
  for (o = 1; o <= kinds; o++) {
    for (i = 1; i <= widths; i++) {
      a = kind[o]; w = width[i]
      l = middle("loss", a, w); m = middle("logit", a, w)
      printf "%-5s %5d %9.3g %8.4f %8.4g %s\n", a, w, chosen[a, w], l, m, told_interval("%.4g")
      print w, m, lo == "-" ? m : lo, hi == "-" ? m : hi >logits
    }
    print "\n" >logits
  }
  for (o = 1; o <= kinds; o++) {
    for (i = 1; i <= widths; i++) if ((kind[o], width[i], one[kind[o]]) in tries) { m = mean_at(kind[o], width[i], one[kind[o]]); print width[i], m, least, most >logits }
    print "\n" >logits
  }
  print "\n1, width: 256 over 64, at the best rate of either"
  for (o = 1; o <= kinds; o++) { e = ratio(kind[o], 256, kind[o], 64); printf "%-5s %.3g %s: %s\n", kind[o], e, told_interval("%.3g"), above(2, 1) }
  print "\n2, Muon over Adam by width"
  for (i = 1; i <= widths; i++) {
    e = ratio("muon", width[i], "adam", width[i]); printf "%5d %.3g %s: %s\n", width[i], e, told_interval("%.3g"), above(1.25, 1)
    print width[i], e, lo == "-" ? e : lo, hi == "-" ? e : hi >ratios
  }
  print "\n3, at one rate for all, selection seeds: a width over 32, geometric means"
  for (o = 1; o <= kinds; o++) {
    a = kind[o]; r = one[a]; first = mean_at(a, 32, r)
    for (i = 2; i <= widths; i++) if (first) printf "%-5s at %g: %d over 32 %.3g\n", a, r, width[i], mean_at(a, width[i], r) / first
  }
}
