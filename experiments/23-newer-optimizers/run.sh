#!/bin/sh
# run.sh [--keep] [DIR]: six optimizers at updates of one size, their exponents, the verdicts and the figure. See ../lib.sh.
builtin=1
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep arms.conf
steps=$("$maxlogit" show --json --parameters "$dir" | jq -r '.[0].parameters["train.steps"]')
# a line a run: arm rate seed exponent end loss
told "$dir" "probe/max_logit:$((steps / 10))-$steps:slope,probe/max_logit:last5%:max,val_loss:last3:mean" \
  'p("arm"), p("train.lr"), p("train.seed")' | sort >"$work/runs"
awk -v points="$work/points" -f "$here/../order.awk" -f "$here/newer.awk" "$work/runs" >"$dir/table.txt"
for arm in adam muon compositional klshampoo scion dion; do curve "$dir" "p(\"arm\") == \"$arm\""; done >"$work/curves"
draw figure.gp newer-optimizers curves="$work/curves" points="$work/points" steps="$steps"
finish newer-optimizers.png
