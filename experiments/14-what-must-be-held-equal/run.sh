#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: the plane of rate and decay, the variants, the counterfactuals; three figures and the
# tables, all of them from the runs in DIR. TEXT is for text.conf alone. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep text.conf sweep.dir="$dir/text"
text='' # the other sources are built in
sweep phase.conf
sweep variants.conf sweep.dir="$dir/variants"
sweep widths.conf sweep.dir="$dir/variants"
sweep mechanism.conf sweep.dir="$dir/mechanism"

steps=$("$maxlogit" show --json --parameters "$dir" | jq -r '.[0].parameters["train.steps"]')
end='probe/max_logit:last5%:max'
early="probe/max_logit:$((steps / 5))-$((steps / 4)):max" # a 20th of the steps, as the end is
half="probe/max_logit:$((steps * 9 / 20))-$((steps / 2)):max"

# compare A B BY METRICS RUNS...: a line a pair of arms: metric, values of BY, B / A with its interval and number of seeds;
# "-" where there is none
compare() {
  a=$1 b=$2 by=$3 of=$4
  shift 4
  "$maxlogit" compare --where 'state=finished,blown-up,diverged' "$@" "$a" "$b" --by "$by" --of "$of" --ratio --json >"$work/compare"
  jq -r 'def n: if type == "number" then . else "-" end;
    .[] | [.metric, (.by | gsub("[^ ]*="; "") | gsub(" "; "\t")), (.effect | .mean, .lo, .hi, .n | n)]
    | join("\t")' "$work/compare"
}

# --- the plane: a block a panel (horizon, then what is held equal), rates across, decays up
compare arm=adam arm=muon override.match,train.lr,train.weight_decay "$early,$half,$end" "$dir" >"$work/plane"
values() { cut -f "$1" "$work/plane" | sort -gu | tr '\n' ' ' | sed 's/ $//'; }
rates=$(values 3) decays=$(values 4)
seeds=$(cut -f 8 "$work/plane" | sort -g | awk '$1 > 0 { if (!low) low = $1; high = $1 } END { print low == high ? low : low " to " high }')
# cells: x y ratio decided; edges: x y dx dy between neighbors that are decided, on two sides of 1
awk -F '\t' -v rates="$rates" -v decays="$decays" -v early="$early" -v half="$half" -v edges="$work/edges" '
  BEGIN {
    nx = split(rates, r, " "); ny = split(decays, d, " ")
    for (i = 1; i <= nx; i++) x[r[i] + 0] = i
    for (i = 1; i <= ny; i++) y[d[i] + 0] = i
    match_at["lr"] = 1; match_at["update_rms"] = 2; match_at["update_spectral_norm"] = 3
  }
  {
    p = match_at[$2] + ($1 == early ? 0 : $1 == half ? 3 : 6)
    at = p " " x[$3 + 0] " " y[$4 + 0]
    ratio[at] = $5 == "-" ? 0 : $5
    decided[at] = $6 != "-" && ($6 > 1 || $7 < 1)
  }
  function side(p, i, j) { return !decided[p " " i " " j] || ratio[p " " i " " j] == 0 ? 0 : ratio[p " " i " " j] > 1 ? 1 : -1 }
  END {
    for (p = 1; p <= 9; p++) {
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
  horizons="$((steps / 4)) $((steps / 2)) $steps" seeds_are="$seeds seeds"

# --- loss against logits: every run of the plane
"$maxlogit" show --json --where 'state=finished,blown-up' --of "$end,val_loss:last3:mean" "$dir" >"$work/all"
jq -r --arg peak "$end" 'def n: if type == "number" then . else "NaN" end;
  .[] | [(if .kind == "adam" then 1 else 2 end), (.metrics["val_loss:last3:mean"] | n), (.metrics[$peak] | n)] | @tsv' \
  "$work/all" >"$work/loss"

# --- variants against Adam, and against the Muon they vary, at a decay of 0.1: name, rate, ratio, its interval
vary() { # NAME A B RUNS...
  title=$1 a=$2 b=$3
  shift 3
  compare "$a" "$b" train.lr "$end" "$@" | awk -F '\t' -v name="$title" 'BEGIN { OFS = "\t" } { print name, $2, $3, $4, $5, $6 }'
}
equal_rms='override.match=update_rms & train.weight_decay=0.1'
equal_rate='override.match=lr & train.weight_decay=0.1'
{
  vary 'Muon, width 32' arm=adam-narrow arm=muon-narrow "$dir/variants"
  vary 'Muon, width 64' "arm=adam & $equal_rms" "arm=muon & $equal_rms" "$dir"
  vary 'Muon, width 128' arm=adam-wide arm=muon-wide "$dir/variants"
  vary 'Muon, a text' arm=adam-text arm=muon-text "$dir/text"
  vary 'Muon, recall' arm=adam-recall arm=muon-recall "$dir/variants"
  vary 'Muon per head' "arm=adam & $equal_rms" arm=per-head "$dir" "$dir/variants"
  vary 'Muon, Adam on q and k' "arm=adam & $equal_rms" arm=adam-on-qk "$dir" "$dir/variants"
  vary 'Muon, equal rate, moonlight' "arm=adam & $equal_rate" "arm=muon & $equal_rate" "$dir"
  vary 'Muon, equal rate, keller' "arm=adam & $equal_rate" arm=keller "$dir" "$dir/variants"
  vary 'Muon, equal rate, mup' "arm=adam & $equal_rate" arm=mup "$dir" "$dir/variants"
} >"$work/variants"
{
  vary 'per head' "arm=muon & $equal_rms" arm=per-head "$dir" "$dir/variants"
  vary 'Adam on q and k' "arm=muon & $equal_rms" arm=adam-on-qk "$dir" "$dir/variants"
  vary 'keller' "arm=muon & $equal_rate" arm=keller "$dir" "$dir/variants"
  vary 'mup' "arm=muon & $equal_rate" arm=mup "$dir" "$dir/variants"
} >"$work/against-muon"

# --- counterfactuals: the logits, how well an update is aligned with the leading singular pair of w_q and w_k, and
# how often it lengthens it
align='update/alignment@*w_[qk]' window="$((steps / 6))-$((steps - 1))" # after the last step there is no update
"$maxlogit" show --json --by spliced.vectors,spliced.spectrum --group \
  --of "$align:$window:mean,$align:$window:over=0,update/spectral_norm@*w_[qk]:$window:mean,update/alignment_persistence@*w_[qk]:$window:mean" \
  "$dir/mechanism" >"$work/groups"
# geometric means of the logits with their intervals, as one side of a ratio has them
pairs='adam,adam adam,muon muon,adam muon,muon random,adam random,muon'
logits_of() {
  other=adam,adam
  test "$1" != $other || other=muon,muon
  "$maxlogit" compare "spliced.vectors=${1%,*} & spliced.spectrum=${1#*,}" \
    "spliced.vectors=${other%,*} & spliced.spectrum=${other#*,}" --of "$end" --ratio --json "$dir/mechanism" |
    jq -r 'def n: if type == "number" then . else "NaN" end; .[0].a | [(.mean, .lo, .hi | n)] | @tsv'
}
for pair in $pairs; do logits_of "$pair"; done >"$work/logits"
jq -r 'def n: if type == "number" then . else "NaN" end;
  .[] | [(.group | gsub("[^ ]*="; "") | gsub(" "; "\t")), (.metrics | to_entries[] | .value | (.mean, .lo, .hi | n))]
  | join("\t")' "$work/groups" >"$work/measures" # in the order of the pairs
cut -f 1-2 "$work/measures" | paste - "$work/logits" >"$work/mechanism.logits"
cut -f 3- "$work/measures" | paste "$work/mechanism.logits" - >"$work/mechanism"

# for how long an update's alignment has kept its sign, over the steps: mean over w_q, w_k of all blocks and runs; a block
# a pair of vectors and spectrum
for pair in $pairs; do
  runs "$dir/mechanism" "select(p(\"spliced.vectors\") == \"${pair%,*}\" and p(\"spliced.spectrum\") == \"${pair#*,}\") | .file" \
    >"$work/of"
  while read -r run; do
    "$maxlogit" export "$run" update/alignment_persistence
  done <"$work/of" | awk '
    /^# step / { for (i = 3; i <= NF; i++) wanted[i - 1] = $i ~ /w_[qk]$/; next }
    /^#/ { next }
    {
      if (!($1 in n)) at[++rows] = $1
      for (i = 2; i <= NF; i++) if (wanted[i] && $i != "NaN") { n[$1]++; sum[$1] += $i }
    }
    END { for (i = 1; i <= rows; i++) if (n[at[i]]) print at[i], sum[at[i]] / n[at[i]]; print "\n" }'
done >"$work/persistence"

draw what-else.gp what-else loss="$work/loss" variants="$work/variants" rates="$rates"
draw mechanism.gp mechanism mechanism="$work/mechanism" persistence="$work/persistence"

# --- the tables
{
  awk -F '\t' -v rates="$rates" -v decays="$decays" -v early="$early" -v half="$half" -v steps="$steps" '
    BEGIN {
      nr = split(rates, r, " "); nd = split(decays, d, " ")
      nm = split("lr update_rms update_spectral_norm", m, " ")
      split("the rate alone|the RMS of the update|the spectral norm of the update", name, "|")
    }
    { cell[$1 == early ? 1 : $1 == half ? 2 : 4, $2, $3 + 0, $4 + 0] = $5 == "-" ? "-" : sprintf("%.3g%s", $5, $6 != "-" && ($6 > 1 || $7 < 1) ? "*" : "") }
    END {
      print "max logit of Muon over that of Adam, geometric mean; *: the 95 % interval does not hold 1"
      for (h = 1; h <= 4; h *= 2) for (i = 1; i <= nm; i++) {
        printf "\nequal: %s, %d steps\n%-10s", name[i], steps * h / 4, "decay"
        for (k = 1; k <= nr; k++) printf " %10s", "lr " r[k]
        print ""
        for (j = 1; j <= nd; j++) {
          printf "%-10s", d[j]
          for (k = 1; k <= nr; k++) printf " %10s", cell[h, m[i], r[k] + 0, d[j] + 0]
          print ""
        }
      }
    }' "$work/plane"
  ratios() {
    awk -F '\t' '{ printf "%-28s lr %-6s %s\n", $1, $2, $3 == "-" ? "-" : $4 == "-" ? sprintf("%.3g", $3) : sprintf("%.3g [%.3g, %.3g] (%d)", $3, $4, $5, $6) }' "$1"
  }
  printf '\nover Adam, decay 0.1: ratio of max logits with its 95 %% interval (seeds); updates of one RMS where no rate is named\n'
  ratios "$work/variants"
  printf '\nthe same over Muon as it is\n'
  ratios "$work/against-muon"
  printf '\ncounterfactuals, no decay, updates of one RMS; sign kept: mean of update/alignment_persistence\n'
  printf '%-9s %-9s %12s %20s %15s %15s %18s\n' vectors spectrum 'max logit' "alignment u1'dW v1" 'share above 0' \
    'spectral norm' 'sign kept [steps]'
  awk -F '\t' '{ printf "%-9s %-9s %12.4g %20.3g %15.3g %15.3g %18.3g\n", $1, $2, $3, $6, $9, $12, $15 }' "$work/mechanism"
} >"$dir/table.txt"
finish phases.png what-else.png mechanism.png
