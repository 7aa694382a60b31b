#!/bin/sh
# plot: a map's cells are the groups of show --of; a difference over steps is that of the exported series
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
MAXLOGIT_PLOTS=$(cd "$srcdir/plots" && pwd); export MAXLOGIT_PLOTS
mkdir "$dir/runs"
for kind in adam muon; do for lr in 3e-3 0.01; do for decay in 0 0.1 1; do for seed in 1 2; do
  small_run "runs/$kind-$lr-$decay-$seed" preset=$kind train.lr=$lr train.weight_decay=$decay train.seed=$seed train.steps=10
done; done; done; done
small_run runs/broken preset=adam train.lr=1e25 train.warmup=0
small_run runs/half preset=adam train.lr=1e25 train.weight_decay=0 train.warmup=0

# the map: every cell is a group, by its place on the axes
"$program" plot --script "$dir/runs" --x train.lr --y train.weight_decay --of peak > "$dir/script" 2> "$dir/err" || fail "map: $(cat "$dir/err")"
grep -q "^array x_value\[3\] = \['0.003', '0.01', '1e+25'\]" "$dir/script" && grep -q "^array y_value\[3\] = \['0', '0.1', '1'\]" "$dir/script" ||
  fail "axes: $(grep -E '^array [xy]_value' "$dir/script")"
sed -n '/^\$cells/,/^EOD/p' "$dir/script" | awk '
  BEGIN { split("0.003 0.01 1e+25", x, " "); split("0 0.1 1", y, " ") } NF == 0 { blank++; if (blank == 2) panel++ } NF { blank = 0 }
  /^[0-9]/ { print panel ? "muon" : "adam", y[$2 + 1], x[$1 + 1], $4, $3, $5 }' | sort > "$dir/cells"
grep -q '^log_z = 1' "$dir/script" && mean=geometric || mean=arithmetic
"$program" show "$dir/runs" --by kind,train.weight_decay,train.lr --of peak --mean="$mean" --csv | sed 1d |
  sed -E 's/^([a-z]+) weight_decay=([^ ]*) lr=([^,]*),/\1,\2,\3,/' | awk -F, '{ print $1, $2, $3, $6, $7 == "" ? "NaN" : $7, $5 }' | sort > "$dir/groups"
test "$(wc -l < "$dir/cells")" -eq 14 || fail "not a cell a group: $(cat "$dir/cells")"
paste -d' ' "$dir/cells" "$dir/groups" | awk '{ if ($1 != $7 || $2 != $8 || $3 != $9 || $4 != $10 && $5 != "NaN") bad = 1; d = $5 - $11
  if ($5 != "NaN" && d * d > 1e-10 * $11 * $11) bad = 1; if ($5 != "NaN") n++; if ($6 != $12) bad = 1 } END { exit bad || n != 12 }' ||
  fail "cells and groups: $(paste -d' ' "$dir/cells" "$dir/groups")"
"$program" plot --script "$dir"/runs/adam-3e-3-1-*.h5 "$dir"/runs/adam-0.01-0-*.h5 --x train.lr --y train.weight_decay --of peak |
  grep -c "^array \(x_value\[2\] = \['0.003', '0.01'\]\|y_value\[2\] = \['0', '1'\]\)" | grep -qx 2 || fail "an axis in the order of the groups"
"$program" plot --script "$dir/runs" --x train.lr --y optimizer --of val --where state=finished --by data | grep -q "^array y_value\[2\] = \['adam', 'muon'\]" ||
  fail "a map over names"
# an axis that is a part of the kind: one panel; labels of any width stand apart
"$program" plot -t "$dir/runs" --x train.lr --y optimizer --of peak > "$dir/out" 2> "$dir/err" || fail "--y optimizer: $(cat "$dir/err")"
test "$(grep -c '^ *0.003  *0.01  *1e+25' "$dir/out")" = 1 && grep -q '^muon  *[0-9.]*  *[0-9.]* *$' "$dir/out" || fail "--y optimizer: $(cat "$dir/out")"
"$program" plot --script "$dir/runs" --x train.lr --y stabilizers --of peak 2> "$dir/err" | grep -q "^groups = 2$" || fail "optimizers in one cell"
"$program" plot -t "$dir/runs" --x optimizer --y date --of peak > "$dir/out" 2> "$dir/err" || fail "--y date: $(cat "$dir/err")"
grep -q '^20[0-9-]*T[0-9:]*Z  *[0-9.]' "$dir/out" || fail "labels touch: $(cat "$dir/out")"
"$program" plot -t "$dir/runs" --x train.lr --y train.weight_decay --of peak > "$dir/out" 2> "$dir/err" && grep -q 'Peak max logit over train.lr and train.weight_decay' "$dir/out" ||
  fail "map -t: $(cat "$dir/err")"

# the difference: of logits the geometric mean of the largest heads' ratios
arms="kind=adam kind=muon"; only="train.lr=0.01 & train.weight_decay=0.1"
# shellcheck disable=SC2086
"$program" plot --script --diff "$dir/runs" $arms --where "$only" > "$dir/script" 2> "$dir/err" || fail "diff: $(cat "$dir/err")"
largest() { "$program" export "$dir/runs/$1-0.01-0.1-$2.h5" attn/max_logit | awk '/^[0-9]/ { m = $2; for (i = 3; i <= NF; i++) if ($i > m) m = $i; print m }'; }
for kind in adam muon; do for seed in 1 2; do largest $kind $seed > "$dir/$kind.$seed"; done; done
paste -d' ' "$dir/adam.1" "$dir/muon.1" "$dir/adam.2" "$dir/muon.2" | awk '{ printf "%d 2 %.10g\n", NR - 1, sqrt($2 / $1 * $4 / $3) }' > "$dir/wanted"
sed -n '/^\$data/,/^EOD/p' "$dir/script" | awk '/^[0-9]/ { print $1, $2, $3, $4, $5 }' > "$dir/found"
test "$(wc -l < "$dir/found")" -eq 10 && paste -d' ' "$dir/found" "$dir/wanted" | awk '{ d = $3 - $8; if ($1 != $6 || $2 != $7 || d * d > 1e-8 * $8 * $8 ||
  !($4 <= $3 && $3 <= $5)) bad = 1 } END { exit bad }' || fail "ratios: $(paste -d' ' "$dir/found" "$dir/wanted")"
# shellcheck disable=SC2086
"$program" plot --script --diff "$dir/runs" $arms --where "$only" --of loss > "$dir/script" || fail "diff --of loss"
grep -q '^ratio = 0' "$dir/script" || fail "a loss is no ratio"
a=$("$program" export --band --where "kind=adam & $only" "$dir/runs" loss | awk '$1 == 9 { print $3 }')
b=$("$program" export --band --where "kind=muon & $only" "$dir/runs" loss | awk '$1 == 9 { print $3 }')
sed -n '/^\$data/,/^EOD/p' "$dir/script" | awk -v a="$a" -v b="$b" '$1 == 9 { d = $3 - (b - a); ok = d * d < 1e-12 } END { exit !ok }' || fail "differences: $a $b"
"$program" plot --script --diff "$dir/runs" kind=adam kind=muon --where 'train.lr<1' --by train.lr,train.weight_decay | grep -q '^groups = 6$' || fail "diff --by"
"$program" plot --script --diff "$dir/runs" train.lr=0.003 train.lr=0.01 --where 'train.weight_decay=0.1' --by 'kind, train.batch' --of loss > "$dir/script" 2> "$dir/err" ||
  fail "diff of rates: $(cat "$dir/err")"
grep -q "^y_name = 'training loss, train.lr=0.01 - train.lr=0.003  (nat)'" "$dir/script" || fail "the difference has no unit: $(grep ^y_name "$dir/script")"
grep '^about = ' "$dir/script" | grep -q ' lr ' && fail "arms of two rates are said to have one: $(grep ^about "$dir/script")"
grep -q "kind=adam batch=4" "$dir/script" || fail "the curves' names: $(grep '^array kind' "$dir/script")"
mkdir "$dir/b"; cp "$dir/runs/broken.h5" "$dir/b"
for f in "$dir"/runs/muon-0.01-0.1-*.h5; do cp "$f" "$dir/b"; done
"$program" plot --script --diff "$dir/runs" kind=adam kind=muon --where 'seed=1' > "$dir/out" 2> "$dir/err"; test $? -eq 2 && grep -q 'same seed' "$dir/err" || fail "two runs of a seed: $(cat "$dir/err")"
# shellcheck disable=SC2086
"$program" plot -t --diff "$dir/runs" $arms --where "$only" > "$dir/out" 2> "$dir/err" && grep -q 'Max logit, max over heads: kind=muon over kind=adam' "$dir/out" || fail "diff -t: $(cat "$dir/err")"

if command -v gnuplot > /dev/null; then
  "$program" plot "$dir/runs" --x train.lr --y train.weight_decay --of peak -o "$dir/f" > "$dir/out" 2> "$dir/err" || fail "map: $(cat "$dir/err")"
  # shellcheck disable=SC2086
  "$program" plot --diff "$dir/runs" $arms --where "$only" -o "$dir/f" >> "$dir/out" 2>> "$dir/err" || fail "diff: $(cat "$dir/err")"
  for f in map.svg map.png difference.svg difference.png; do test -s "$dir/f/$f" || fail "no $f"; done
  test ! -s "$dir/err" || fail "gnuplot says: $(cat "$dir/err")"
fi
for bad in "--x train.lr --y train.lrr --of peak" "--x train.lr --of peak" "--of peak" "--x train.lr --y train.lr --of peak" "--diff" "--diff kind=adam" \
  "--diff kind=adam kind=muon --x train.lr" "--diff kind=adam kind=muon --of nosuch" "--diff kind=adam kind=muon --figure=loss"; do
  # shellcheck disable=SC2086
  "$program" plot --script "$dir/runs" $bad > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && grep -q 'maxlogit' "$dir/err" || fail "plot $bad: exit $status, $(cat "$dir/err")"
done
finish
