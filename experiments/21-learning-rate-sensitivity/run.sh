#!/bin/sh
# run.sh [--keep] [DIR]: seven rates of ten arms, their sensitivities, the verdicts and the figure. See ../lib.sh.
builtin=1
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep arms.conf
# a line a run: arm rate seed loss
told "$dir" val_loss:last:mean 'p("arm"), p("train.lr"), p("train.seed")' | sort >"$work/runs"
# a line an arm and seed: arm seed sensitivity
"$maxlogit" show --json --sensitivity --by arm,train.seed "$dir" |
  jq -r '.[] | [(.group | capture("arm=(?<arm>[^ ]*) seed=(?<seed>.*)") | .arm, .seed), .sensitivity.mean] | @tsv' >"$work/seeds"
awk -v curves="$work/curves" -v points="$work/points" -f "$here/../order.awk" -f "$here/sensitivity.awk" "$work/seeds" "$work/runs" \
  >"$dir/table.txt"
draw figure.gp sensitivity curves="$work/curves" points="$work/points"
finish sensitivity.png
