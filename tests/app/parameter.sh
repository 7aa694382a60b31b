#!/bin/sh
# plot --x: the curves of a metric over a parameter are the groups of show --of; every form can be drawn
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
MAXLOGIT_PLOTS=$(cd "$srcdir/plots" && pwd); export MAXLOGIT_PLOTS
mkdir "$dir/runs"
for kind in adam muon; do for lr in 3e-3 0.01 0.5; do for seed in 1 2; do
  small_run "runs/$kind-$lr-$seed" preset=$kind train.lr=$lr train.seed=$seed train.steps=10
done; done; done
small_run runs/broken preset=adam train.lr=1e25 train.warmup=0

"$program" plot --script "$dir/runs" --x train.lr --y peak > "$dir/script" 2> "$dir/err" || fail "plot --x: $(cat "$dir/err")"
sed -n '/^\$curves/,/^EOD/p' "$dir/script" | awk '/^[0-9]/ { print $1, $2, $3, $4, $5, $6 }' > "$dir/curves"
"$program" show "$dir/runs" --by kind,train.lr --of peak --mean=geometric --csv | sed -e 1d -e 's/^[a-z]* lr=//' |
  awk -F, '{ print $1, $4, $5, $6, $7, $3 }' > "$dir/groups"
test "$(wc -l < "$dir/curves")" -eq 7 || fail "not a point a value: $(cat "$dir/curves")"
grep -q '^log_y = 1' "$dir/script" && paste -d' ' "$dir/curves" "$dir/groups" | awk '{ for (i = 1; i <= 6; i++) {
  a = $i; b = $(i + 6); if (a == "NaN" || b == "") continue; d = a - b; if (d * d > 1e-10 * b * b) bad = 1; n++ } }
  END { exit bad || n < 36 }' || fail "curves: $(paste -d' ' "$dir/curves" "$dir/groups")"
grep -q "^kind = \|^array kind\[2\] = \['adam', 'muon'\]" "$dir/script" || fail "one curve a kind: $(grep '^array kind' "$dir/script")"
grep -q '^crosses = 1' "$dir/script" || fail "what diverged has no cross"
"$program" plot --script "$dir/runs" --x train.lr --by optimizer,train.seed | grep -q '^groups = 4$' || fail "plot --x --by"
"$program" plot -t "$dir/runs" --where "train.lr<2" --x train.lr > "$dir/out" 2> "$dir/err" && grep -q 'Validation loss against train.lr' "$dir/out" ||
  fail "plot --x -t: $(cat "$dir/err")"
if command -v gnuplot > /dev/null; then
  "$program" plot "$dir/runs" --x train.lr --y peak -o "$dir/f" > "$dir/out" 2> "$dir/err" || fail "plot --x: $(cat "$dir/err")"
  test -s "$dir/f/parameter.svg" && test -s "$dir/f/parameter.png" && test ! -s "$dir/err" || fail "plot --x: $(cat "$dir/err")"
fi

# curves are joined by x, whatever the groups are sorted by
"$program" plot --script "$dir/runs" --x train.lr --y peak --sort=-train.lr | sed -n '/^\$curves/,/^EOD/p' | awk '/^[0-9]/ { print $1, $2, $3, $4, $5, $6 }' > "$dir/sorted"
sed -n '/e+25/d;p' "$dir/curves" | sort > "$dir/a"; sed -n '/e+25/d;p' "$dir/sorted" | sort > "$dir/b"
cmp -s "$dir/a" "$dir/b" && awk '$1 + 0 <= last + 0 { falls++ } { last = $1 } END { exit falls != 1 }' "$dir/sorted" ||
  fail "plot --x --sort: $(cat "$dir/sorted")"

# times: a run that diverged passed the level, here and in the comparison; where no run did, nothing is drawn
above=attn/max_logit:all:above
"$program" plot --script "$dir/runs" --x train.lr --y $above=1e6 > "$dir/script" 2> "$dir/err" || fail "above: $(cat "$dir/err")"
sed -n '/^\$runs/,/^EOD/p' "$dir/script" | grep -q '^1e+25 [0-9]' || fail "a run that diverged passed no level"
grep -q '^crosses = 0$' "$dir/script" || fail "a cross for a run that counts"
small_run other preset=muon train.lr=1e25 train.warmup=0
"$program" compare "$dir/runs/broken.h5" "$dir/other.h5" --of $above=1e6 > "$dir/out" 2>&1
grep -q '^  A .* n=1$' "$dir/out" && ! grep -q 'left out' "$dir/out" || fail "times of runs that diverged: $(cat "$dir/out")"
mkdir -p "$dir/f"
echo old > "$dir/f/parameter.svg"
"$program" plot "$dir/runs" --where "train.lr<2" --x train.lr --y $above=1e6 -o "$dir/f" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 && grep -q 'no run passed the level' "$dir/err" || fail "no run above: exit $status, $(cat "$dir/err")"
test "$(cat "$dir/f/parameter.svg")" = old || fail "a figure that cannot be drawn takes the old one away"
if command -v gnuplot > /dev/null; then
  mkdir "$dir/scripts"; cp "$MAXLOGIT_PLOTS"/*.gp "$dir/scripts"; echo 'no such command' >> "$dir/scripts/parameter.gp"
  MAXLOGIT_PLOTS=$dir/scripts "$program" plot "$dir/runs" --x train.lr -o "$dir/f" > "$dir/out" 2> "$dir/err" && fail "a script that fails"
  test "$(cat "$dir/f/parameter.svg")" = old && test "$(ls "$dir/f" | grep -c .)" = 2 || fail "a script that fails: $(ls "$dir/f")"
  "$program" plot -t "$dir/runs/broken.h5" --x train.lr --y $above=1e6 > "$dir/out" 2> "$dir/err" || fail "one huge value of x: $(cat "$dir/err")"
  "$program" plot "$dir/runs" --x train.lr --y $above=1e6 -o "$dir/f" > "$dir/out" 2> "$dir/err" || fail "above: $(cat "$dir/err")"
  grep -q 'Muon, not reached' "$dir/f/parameter.svg" || fail "a curve that never got there has no name"
  many= # several that draw one figure into one folder at the same time: each succeeds, and the figure is whole
  for i in 1 2 3 4 5 6 7 8; do
    "$program" plot "$dir/runs" --x train.lr --format=svg -o "$dir/many" > /dev/null 2>> "$dir/err" &
    many="$many $!"
  done
  for pid in $many; do wait "$pid" || fail "one figure, drawn many times: $(cat "$dir/err")"; done
  test "$(ls "$dir/many")" = parameter.svg && tail -n 3 "$dir/many/parameter.svg" | grep -q '</svg>' || fail "one of many: $(ls "$dir/many")"
  "$program" plot "$dir/runs" --x train.lr --y clips --format=svg -o "$dir/f" > "$dir/out" 2> "$dir/err" || fail "zero: $(cat "$dir/err")"
  grep -q 'e-[0-9][0-9]</' "$dir/f/parameter.svg" && fail "zero throughout, on an axis of next to nothing"
fi
"$program" plot --script "$dir/runs" --x train.lr 2>&1 > "$dir/out" | grep -q 'plot: val, .* over train.lr; --y METRIC' ||
  fail "plot --x without --y does not say what it draws"
for bad in "--x train.lrr" "--x optimizer" "--y val" "--x train.lr --y nosuch" "--x train.lr --figure=loss"; do
  # shellcheck disable=SC2086
  "$program" plot --script "$dir/runs" $bad > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 || fail "plot $bad: exit $status"
done
finish
