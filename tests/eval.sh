#!/bin/sh
# eval --continue: so many steps from the run's weights at a constant rate, warm-up and schedule of the run apart
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
small_run from train.schedule=cosine
steps=20
"$program" eval --json --context=1x --continue=$steps "$dir/from.h5" > "$dir/out" 2> "$dir/err" ||
  fail "eval: $(cat "$dir/err")"
loss=$(sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$dir/out" | awk '{ printf "%.6g", $1 }')
small_run on train.init_from="$dir/from.h5" train.steps=$steps train.warmup=0 train.schedule=constant
"$program" export "$dir/on.h5" lr | awk '!/^#/ && $2 != 0.01 { bad = 1 } END { exit bad }' || fail "the rate varies"
wanted=$("$program" export "$dir/on.h5" val_loss | awk 'END { printf "%.6g", $2 }')
test -n "$loss" && test "$loss" = "$wanted" || fail "continued to $loss, the same training gives $wanted"
finish
