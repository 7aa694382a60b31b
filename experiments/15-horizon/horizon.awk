# horizon.awk - the table of the horizon, with ../order.awk
# In: the selection runs, then those measured: arm rate seed loss middle end and a column a horizon. Into files: ratios (a block a
# schedule: step, Muon over Adam, interval), tuned (a block an arm: rate, loss, chosen).
BEGIN { arms = split("adam-constant muon-constant adam-cosine muon-cosine", arm, " ") }
FNR == 1 { file++ }
file == 1 { # rates of an arm, with what the selection seeds have there
  if (!(($1, $2) in tries)) rate[$1, ++rates[$1]] = $2
  k = ++tries[$1, $2]
  tried_loss[$1, $2] += $4; tried[$1, $2, k] = $6; tried_middle[$1, $2, k] = $5
  for (h = 1; h <= 5; h++) tried_at[$1, $2, k, h] = $(6 + h)
}
file == 2 {
  chosen[$1] = $2
  if (!($3 in seen)) { seen[$3] = 1; seed[++seeds] = $3 }
  loss[$1, $3] = $4; middle[$1, $3] = $5; end[$1, $3] = $6
  for (h = 1; h <= 5; h++) at[$1, $3, h] = $(6 + h)
}
function pairs_of(a, b, what, h,   i, n, x, y) { # V: logarithms of b over a, pairs of equal seed
  n = 0
  for (i = 1; i <= seeds; i++) {
    x = what == "end" ? end[a, seed[i]] : what == "middle" ? middle[a, seed[i]] : at[a, seed[i], h]
    y = what == "end" || what == "middle" ? end[b, seed[i]] : at[b, seed[i], h]
    if (x > 0 && y > 0) V[++n] = log(y / x)
  }
  return n
}
function tell(n,   e) { # effect as a ratio, with its interval
  if (!n) return "-"
  e = median(V, n)
  if (lo != "-") { lo = exp(lo); hi = exp(hi) }
  return sprintf("%.3g %s", exp(e), told_interval("%.3g"))
}
function verdict(more,   a, b) { # of the interval in lo and hi; d = 1.25, predicted above 1 (more) or below
  if (lo == "-") return "few seeds"
  a = more ? lo : 1 / hi; b = more ? hi : 1 / lo
  return a > 1.25 ? "holds" : b < 1.25 ? "refuted here" : a > 1 ? "partly" : "inconclusive"
}
function tried_median(a, r,   i, n) { n = tries[a, r]; for (i = 1; i <= n; i++) V[i] = log(tried[a, r, i]); return median(V, n) }
function place(a,   i) { for (i = 1; i <= rates[a]; i++) if (rate[a, i] == chosen[a]) return i; return 0 }
function flips(s,   a, b, i, j, k, other, text) { # at which neighboring rate the ratio lies on the other side of 1
  a = "adam-" s; b = "muon-" s; i = place(a); j = place(b)
  if (!i || !j) return ""
  other = tried_median(b, rate[b, j]) - tried_median(a, rate[a, i]); text = ""
  near[1] = i - 1; near[2] = i + 1
  for (k = 1; k <= 2; k++) if (((a, near[k]) in rate) && (tried_median(b, rate[b, j]) - tried_median(a, rate[a, near[k]])) * other < 0) text = text " Adam " rate[a, near[k]]
  near[1] = j - 1; near[2] = j + 1
  for (k = 1; k <= 2; k++) if (((b, near[k]) in rate) && (tried_median(b, rate[b, near[k]]) - tried_median(a, rate[a, i])) * other < 0) text = text " Muon " rate[b, near[k]]
  return text == "" ? "; stands at the neighboring rates" : "; flips at" text
}
END {
  for (i = 1; i <= arms; i++) { # rates upwards
    for (j = 2; j <= rates[arm[i]]; j++) { t = rate[arm[i], j]; for (k = j - 1; k >= 1 && rate[arm[i], k] + 0 > t + 0; k--) rate[arm[i], k + 1] = rate[arm[i], k]; rate[arm[i], k + 1] = t }
  }
  split(horizons, step, " ")
  for (i = 1; i <= arms; i++) { # what was not run yet has its lowest loss for chosen
    a = arm[i]
    if (!(a in chosen)) { best = ""; for (j = 1; j <= rates[a]; j++) { l = tried_loss[a, rate[a, j]] / tries[a, rate[a, j]]; if (best == "" || l < best) { best = l; lowest[a] = rate[a, j] } } }
    else lowest[a] = chosen[a]
  }
  print "selection runs: max logit by step, geometric mean over seeds; *: the rate with the lowest loss"
  printf "%-14s %9s %6s %8s", "arm", "rate", "seeds", "loss"; for (h = 1; h <= 5; h++) printf " %7d", step[h]; print "  end over 30 to 70 %"
  for (i = 1; i <= arms; i++) {
    a = arm[i]
    for (j = 1; j <= rates[a]; j++) {
      r = rate[a, j]; n = tries[a, r]; l = tried_loss[a, r] / n
      printf "%-14s %8.3g%s %6d %8.4f", a, r, (r == lowest[a] ? "*" : " "), n, l
      for (h = 1; h <= 5; h++) { x = 0; for (k = 1; k <= n; k++) x += log(tried_at[a, r, k, h]) / n; printf " %7.4g", exp(x) }
      x = 0; for (k = 1; k <= n; k++) x += (log(tried[a, r, k]) - log(tried_middle[a, r, k])) / n
      printf "  %.3g\n", exp(x)
      print r, l, (r == lowest[a]), tried_ends(a, r) >tuned
    }
    if (!rates[a]) print "NaN NaN 0 NaN" >tuned
    print "\n" >tuned
  }
  if (!seeds) exit
  printf "\nmax logit, median of %d seeds, by step\n%-14s %8s %8s", seeds, "arm", "rate", "loss"
  for (h = 1; h <= 5; h++) printf " %8d", step[h]
  print ""
  for (i = 1; i <= arms; i++) {
    a = arm[i]
    for (j = 1; j <= seeds; j++) V[j] = loss[a, seed[j]]
    printf "%-14s %8.3g %8.4f", a, chosen[a], median(V, seeds)
    for (h = 1; h <= 5; h++) { for (j = 1; j <= seeds; j++) V[j] = at[a, seed[j], h]; printf " %8.4g", median(V, seeds) }
    print ""
  }
  print "\nMuon over Adam by step: median over pairs of equal seed, 95 % interval"
  for (k = 1; k <= 2; k++) {
    s = k == 1 ? "constant" : "cosine"
    for (h = 1; h <= 5; h++) {
      n = pairs_of("adam-" s, "muon-" s, "at", h)
      text = tell(n)
      if (h == 5) v = "  1: " verdict(1) flips_kept(s)
      else v = ""
      printf "%-10s %6d  %s%s\n", s, step[h], text, v
      split(text, part, " ")
      print step[h], part[1], (lo == "-" ? part[1] : lo), (hi == "-" ? part[1] : hi) >ratios
    }
    print "\n" >ratios
  }
  print "\nwhat decay of the rate does: median over pairs of equal seed, 95 % interval"
  for (k = 1; k <= 2; k++) {
    o = k == 1 ? "adam" : "muon"
    text = tell(pairs_of(o "-constant", o "-cosine", "end")); printf "%-6s cosine over constant, at the end        %-22s 3: %s\n", o, text, verdict(0)
    text = tell(pairs_of(o "-cosine", o "-cosine", "middle")); printf "%-6s cosine, end over 30 to 70 %% of the run  %-22s 3: %s\n", o, text, verdict(0)
    text = tell(pairs_of(o "-constant", o "-constant", "middle")); printf "%-6s constant, likewise (control)            %s\n", o, text
  }
}
function tried_ends(a, r,   i, n, x) { n = tries[a, r]; for (i = 1; i <= n; i++) x += log(tried[a, r, i]) / n; return exp(x) }
function flips_kept(s,   a, b, text) { a = lo; b = hi; text = flips(s); lo = a; hi = b; return text }
