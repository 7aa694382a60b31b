# equal-loss.awk - Muon's max logit over Adam's where the validation losses are the same, with ../order.awk
# In: optimizer (1 Adam, 2 Muon) rate seed step loss logit, run by run upwards in the step. Set: levels. Out: the table; into
# cells, a block a level: x (Adam's rate) y (Muon's rate), both counted from 0, ratio, state (2: decided, 1: not, 0: too few pairs);
# into paths a block an optimizer and rate: loss, median logit over seeds.
function ask(   l, w, key) { # the level that a run passes between its last two looks
  for (l = 1; l <= n_levels; l++) {
    key = $1 SUBSEP $2 SUBSEP $3 SUBSEP l
    if ($5 > level[l] || (key in at)) continue
    w = before_loss > level[l] ? (level[l] - $5) / (before_loss - $5) : 1
    at[key] = w * before_logit + (1 - w) * log($6)
    step_of[key] = w * before_step + (1 - w) * $4
  }
}
BEGIN { n_levels = split(levels, level, " ") }
$6 > 0 && $5 == $5 + 0 {
  id = $1 SUBSEP $2 SUBSEP $3
  if (id == before_id) ask()
  before_id = id; before_loss = $5; before_logit = log($6); before_step = $4
  if (!(($2) in rated)) { rated[$2] = 1; rate[++rates] = $2 }
  if (!(($3) in seeded)) { seeded[$3] = 1; seed[++seeds] = $3 }
}
END {
  for (i = 2; i <= rates; i++) { t = rate[i]; for (k = i - 1; k >= 1 && rate[k] + 0 > t + 0; k--) rate[k + 1] = rate[k]; rate[k + 1] = t }
  printf "at equal loss: Muon's max logit over Adam's, median over pairs of equal seed, 95 %% interval (pairs); *: decided\n"
  for (l = 1; l <= n_levels; l++) {
    printf "\nloss %s\n%-16s", level[l], "Muon \\ Adam"
    for (i = 1; i <= rates; i++) printf " %-24s", "lr " rate[i]
    print ""
    for (j = 1; j <= rates; j++) {
      printf "%-16s", "lr " rate[j]
      for (i = 1; i <= rates; i++) {
        n = 0
        for (s = 1; s <= seeds; s++) {
          a = 1 SUBSEP rate[i] SUBSEP seed[s] SUBSEP l; b = 2 SUBSEP rate[j] SUBSEP seed[s] SUBSEP l
          if ((a in at) && (b in at)) V[++n] = at[b] - at[a]
        }
        if (n) { e = median(V, n) } else lo = "-"
        sure = lo != "-" && (lo > 0 || hi < 0)
        if (lo != "-") { lo = exp(lo); hi = exp(hi) }
        printf " %-24s", (!n ? "-" : n < 6 ? sprintf("(%d)", n) : sprintf("%.3g%s %s (%d)", exp(e), sure ? "*" : "", told_interval("%.3g"), n))
        print i - 1, j - 1, (n < 6 ? 0 : exp(e)), (n < 6 ? 0 : sure ? 2 : 1) >cells
      }
      print ""
    }
    print "\n" >cells
  }
  print "\nsteps to that loss, median over the seeds that reach it (seeds)"
  printf "%-16s", ""; for (l = 1; l <= n_levels; l++) printf " %-12s", "loss " level[l]; print ""
  for (o = 1; o <= 2; o++) for (i = 1; i <= rates; i++) {
    printf "%-16s", (o == 1 ? "Adam" : "Muon") ", lr " rate[i]
    for (l = 1; l <= n_levels; l++) {
      n = 0
      for (s = 1; s <= seeds; s++) { key = o SUBSEP rate[i] SUBSEP seed[s] SUBSEP l; if (key in at) V[++n] = step_of[key] }
      printf " %-12s", (n ? sprintf("%.0f (%d)", median(V, n), n) : "-")
    }
    print ""
  }
}
