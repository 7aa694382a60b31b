#!/bin/sh
# run.sh [--keep] [DIR]: the plane of rate and decay, the variants, the counterfactuals; two figures and the tables.
# Everything comes from the runs in DIR, on built-in sources. See ../lib.sh.
built_in=1
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep phase.conf
sweep variants.conf sweep.dir="$dir/variants"
sweep mechanism.conf sweep.dir="$dir/mechanism"

steps=$("$maxlogit" show --json --parameters "$dir" | jq -r '.[0].parameters["train.steps"]')
seeds=$("$maxlogit" show --json "$dir" | jq -r '[.[].seed] | unique | length')
end='probe/max_logit:last5%:max'
early="probe/max_logit:$((steps / 5))-$((steps / 4)):max"

# compare A B BY METRICS RUNS...: a line a pair of arms: metric, values of BY, B / A with its interval, means of A and B;
# "-" where there is none
compare() {
  a=$1 b=$2 by=$3 of=$4
  shift 4
  "$maxlogit" compare --where 'state=finished,diverged' "$@" "$a" "$b" --by "$by" --of "$of" --ratio --json >"$work/compare"
  jq -r 'def n: if type == "number" then . else "-" end;
    .[] | [.metric, (.by | gsub("[^ ]*="; "") | gsub(" "; "\t")), (.effect | .mean, .lo, .hi | n), (.a.mean, .b.mean | n)]
    | join("\t")' "$work/compare"
}

# --- the plane: a block a panel (horizon, then what is held equal), rates across, decays up
compare arm=adam arm=muon override.match,train.lr,train.weight_decay "$early,$end" "$dir" >"$work/plane"
values() { cut -f "$1" "$work/plane" | sort -gu | tr '\n' ' ' | sed 's/ $//'; }
rates=$(values 3) decays=$(values 4)
# cells: x y ratio decided; edges: x y dx dy between neighbours on two sides of 1
awk -F '\t' -v rates="$rates" -v decays="$decays" -v early="$early" -v edges="$work/edges" '
  BEGIN {
    nx = split(rates, r, " "); ny = split(decays, d, " ")
    for (i = 1; i <= nx; i++) x[r[i] + 0] = i
    for (i = 1; i <= ny; i++) y[d[i] + 0] = i
    match_at["lr"] = 1; match_at["update_rms"] = 2; match_at["update_spectral_norm"] = 3
  }
  {
    p = match_at[$2] + ($1 == early ? 0 : 3)
    at = p " " x[$3 + 0] " " y[$4 + 0]
    ratio[at] = $5 == "-" ? 0 : $5
    decided[at] = $6 != "-" && ($6 > 1 || $7 < 1)
  }
  function side(p, i, j) { return ratio[p " " i " " j] == 0 ? 0 : ratio[p " " i " " j] > 1 ? 1 : -1 }
  END {
    for (p = 1; p <= 6; p++) {
      lines = 0
      for (j = 1; j <= ny; j++) for (i = 1; i <= nx; i++) {
        at = p " " i " " j
        print i - 1, j - 1, ratio[at] + 0, decided[at] + 0
        if (i < nx && side(p, i, j) * side(p, i + 1, j) < 0) { print i - 0.5, j - 1.5, 0, 1 >edges; lines++ }
        if (j < ny && side(p, i, j) * side(p, i, j + 1) < 0) { print i - 1.5, j - 0.5, 1, 0 >edges; lines++ }
      }
      if (!lines) print "-9 -9 0 0" >edges
      print "\n"; print "\n" >edges
    }
  }' "$work/plane" >"$work/cells"
draw phases.gp phases cells="$work/cells" edges="$work/edges" rates="$rates" decays="$decays" \
  horizons="$((steps / 4)) $steps" seeds_are="$seeds seeds"

# --- loss against logits: every run of the plane
"$maxlogit" show --json --where state=finished --of "$end,val_loss:last3:mean" "$dir" >"$work/all"
jq -r --arg peak "$end" 'def n: if type == "number" then . else "NaN" end;
  .[] | [(if .kind == "adam" then 1 else 2 end), (.metrics["val_loss:last3:mean"] | n), (.metrics[$peak] | n)] | @tsv' \
  "$work/all" >"$work/loss"

# --- variants against the optimiser they vary, at a decay of 0.1: name, rate, ratio, its interval
vary() { # NAME A B RUNS...
  title=$1 a=$2 b=$3
  shift 3
  compare "$a" "$b" train.lr "$end" "$@" | awk -F '\t' -v name="$title" 'BEGIN { OFS = "\t" } { print name, $2, $3, $4, $5 }'
}
equal_rms='override.match=update_rms & train.weight_decay=0.1'
equal_rate='override.match=lr & train.weight_decay=0.1'
{
  vary 'Muon / Adam' "arm=adam & $equal_rms" "arm=muon & $equal_rms" "$dir"
  vary 'the same, width 32' arm=adam-narrow arm=muon-narrow "$dir/variants"
  vary 'the same, width 128' arm=adam-wide arm=muon-wide "$dir/variants"
  vary 'the same, recall' arm=adam-recall arm=muon-recall "$dir/variants"
  vary 'per-head Muon / Muon' "arm=muon & $equal_rms" arm=per-head "$dir" "$dir/variants"
  vary 'Adam on q, k / Muon' "arm=muon & $equal_rms" arm=adam-on-qk "$dir" "$dir/variants"
  vary 'scale keller / moonlight' "arm=muon & $equal_rate" arm=keller "$dir" "$dir/variants"
  vary 'scale mup / moonlight' "arm=muon & $equal_rate" arm=mup "$dir" "$dir/variants"
} >"$work/variants"

# --- counterfactuals: the logits, how well an update is aligned with the leading singular pair of w_q and w_k, and
# how often it lengthens it
align='update/alignment@*w_[qk]' window="$((steps / 6))-$((steps - 1))" # after the last step there is no update
"$maxlogit" show --json --by spliced.vectors,spliced.spectrum --group \
  --of "$end,$align:$window:mean,$align:$window:over=0,update/spectral_norm@*w_[qk]:$window:mean" \
  "$dir/mechanism" >"$work/groups"
jq -r 'def n: if type == "number" then . else "NaN" end;
  .[] | [(.group | gsub("[^ ]*="; "") | gsub(" "; "\t")), (.metrics | to_entries[] | .value | (.mean, .lo, .hi | n))]
  | join("\t")' "$work/groups" >"$work/mechanism"

draw what-else.gp what-else loss="$work/loss" variants="$work/variants" mechanism="$work/mechanism"

# --- the tables
{
  awk -F '\t' -v rates="$rates" -v decays="$decays" -v early="$early" -v steps="$steps" '
    BEGIN {
      nr = split(rates, r, " "); nd = split(decays, d, " ")
      nm = split("lr update_rms update_spectral_norm", m, " ")
      split("the rate alone|the RMS of the update|the spectral norm of the update", name, "|")
    }
    { cell[$1 == early, $2, $3 + 0, $4 + 0] = $5 == "-" ? "-" : sprintf("%.3g%s", $5, $6 != "-" && ($6 > 1 || $7 < 1) ? "*" : "") }
    END {
      print "max logit of Muon over that of Adam, geometric mean; *: the 95 % interval does not hold 1"
      for (early = 1; early >= 0; early--) for (i = 1; i <= nm; i++) {
        printf "\nequal: %s, %d steps\n%-10s", name[i], early ? steps / 4 : steps, "decay"
        for (k = 1; k <= nr; k++) printf " %10s", "lr " r[k]
        print ""
        for (j = 1; j <= nd; j++) {
          printf "%-10s", d[j]
          for (k = 1; k <= nr; k++) printf " %10s", cell[early, m[i], r[k] + 0, d[j] + 0]
          print ""
        }
      }
    }' "$work/plane"
  printf '\nat equal loss: runs of the plane by their validation loss\n%-12s %22s %22s\n' 'loss' 'Adam: max logit (n)' 'Muon: max logit (n)'
  awk -F '\t' '$2 != "NaN" && $3 != "NaN" && $3 > 0 {
      b = int($2 / 0.1); n[b, $1]++; sum[b, $1] += log($3)
      if (low == "" || b < low) low = b
      if (b > high) high = b
    }
    function tell(b, o) { return n[b, o] ? sprintf("%.4g (%d)", exp(sum[b, o] / n[b, o]), n[b, o]) : "-" }
    END { for (b = low; b <= high; b++) if (n[b, 1] && n[b, 2]) printf "%.1f to %.1f %24s %22s\n", b / 10, b / 10 + 0.1, tell(b, 1), tell(b, 2) }' \
    "$work/loss"
  printf '\nvariants, decay 0.1: ratio of max logits with its 95 %% interval\n'
  awk -F '\t' '{ printf "%-26s lr %-6s %s\n", $1, $2, $3 == "-" ? "-" : $4 == "-" ? sprintf("%.3g", $3) : sprintf("%.3g [%.3g, %.3g]", $3, $4, $5) }' "$work/variants"
  printf '\ncounterfactuals, no decay, updates of one RMS\n%-9s %-9s %12s %22s %16s %16s\n' vectors spectrum 'max logit' \
    "alignment u1'dW v1" 'share above 0' 'spectral norm'
  awk -F '\t' '{ printf "%-9s %-9s %12.4g %22.3g %16.3g %16.3g\n", $1, $2, $3, $6, $9, $12 }' "$work/mechanism"
} >"$dir/table.txt"
finish phases.png what-else.png
