#!/bin/sh
# run.sh [--keep] [DIR]: rates of four arms, runs at the best ones, the verdicts and the figure. See ../lib.sh.
builtin=1
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

tuned rates
steps=$("$maxlogit" show --json --parameters "$dir" | jq -r '.[0].parameters["train.steps"]')
# a line a run: arm rate seed end exponent loss
of="probe/max_logit:last5%:max,probe/max_logit:$((steps / 10))-$steps:slope,val_loss:last3:mean"
for from in "$dir" "$dir/rates"; do
  told "$from" "$of" 'p("arm"), p("train.lr"), p("train.seed")' | sort >"$work/$(basename "$from")"
done
mv "$work/$(basename "$dir")" "$work/runs"
awk -v points="$work/points" -f "$here/../order.awk" -f "$here/vocabulary.awk" "$work/rates" "$work/runs" >"$dir/table.txt"
for arm in adam-64 adam-8192 muon-64 muon-8192; do curve "$dir" "p(\"arm\") == \"$arm\""; done >"$work/curves"
draw figure.gp vocabulary curves="$work/curves" points="$work/points" steps="$steps"
finish vocabulary.png
