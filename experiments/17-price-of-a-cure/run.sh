#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: rates for every arm, their runs, the table and the figure. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

tuned rates
# a line a run: arm rate seed loss reach
told "$dir" val_loss:last3:mean,peak 'p("arm"), p("train.lr"), p("train.seed")' >"$work/runs"
sed -n 's/^\[arm \(.*\)\]$/\1/p' "$here/rates.conf" >"$work/arms"
awk -v prices="$work/prices" -v points="$work/points" -f "$here/../order.awk" -f "$here/price.awk" \
  "$work/arms" "$work/runs" >"$dir/table.txt"
draw figure.gp price prices="$work/prices" points="$work/points" seeds_are="$(cut -f 3 "$work/runs" | sort -u | wc -l) seeds"
finish price.png
