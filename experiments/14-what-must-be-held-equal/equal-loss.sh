#!/bin/sh
# equal-loss.sh [--keep] [TEXT [DIR]]: Muon against Adam where their losses are equal; TEXT is not used, the runs have the built-in
# source. Leaves DIR/equal-loss.txt and the figure. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

levels=${LEVELS:-2.0 1.9 1.8 1.75}
text=''
sweep equal-loss.conf sweep.dir="$dir/equal-loss"
runs "$dir/equal-loss" 'select(.state == "finished" or .state == "blown-up" or .state == "diverged") |
  [.file, (if p("optimizer") == "adam" then 1 else 2 end), p("train.lr"), p("train.seed")] | @tsv' >"$work/list"
while IFS="$(printf '\t')" read -r run optimizer rate seed; do # at each probe the loss between the validations around it
  rows "$run" val_loss >"$work/val"
  rows "$run" probe/max_logit --reduce=max >"$work/logits"
  awk -v run="$optimizer $rate $seed" '
    NR == FNR { at[++n] = $1; loss[n] = $2; next }
    {
      while (i < n && at[i + 1] <= $1) i++
      if (i) print run, $1, i < n ? loss[i] + (loss[i + 1] - loss[i]) * ($1 - at[i]) / (at[i + 1] - at[i]) : loss[n], $2
    }' "$work/val" "$work/logits"
done <"$work/list" >"$work/looks"
awk -v levels="$levels" -v cells="$work/cells" -f "$here/../order.awk" -f "$here/equal-loss.awk" "$work/looks" >"$dir/equal-loss.txt"
draw equal-loss.gp equal-loss cells="$work/cells" levels="$levels" rates="$(cut -d' ' -f 2 "$work/looks" | sort -gu | tr '\n' ' ')" \
  seeds_are="$(cut -d' ' -f 3 "$work/looks" | sort -u | wc -l) pairs of equal seed"
finish -t equal-loss equal-loss.png
