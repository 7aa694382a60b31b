#!/bin/sh
# maxlogit tune: brackets, grows, chooses; what diverges, is flat, at a limit, maximised or NaN; a kill; what it leaves for sweep
plots=$(realpath "${top_srcdir:-.}/plots")
. "${top_srcdir:-.}/tests/small_runs.sh"
cd "$dir" || exit 99
command -v jq > /dev/null || { echo "tune.sh: skipped, no jq here"; exit 77; }

cat > tiny.conf << END
preset = adam, muon
[model]
layers = 1
width = 8
heads = 2
context = 8
[train]
batch = 4
steps = 12
warmup = 2
lr = 0.002
seed = 1, 2
[device]
threads = 1
END
tune() { "$program" tune "$@"; }

# killed, it goes on, and says what an undisturbed one says
true > killed
tune tiny.conf --seeds 3 --json > killed.json 2>> killed &
pid=$!
tries=0
while ! grep -q finished killed && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -9 $pid 2> /dev/null
wait $pid 2> /dev/null
MAXLOGIT_PLOTS="$plots" tune tiny.conf --seeds 3 --json > again.json 2> err || fail "again: $(cat err)"
grep -q 'runs, [1-9][0-9]* of them done before' err || fail "after a kill: $(cat err)"
tune tiny.conf --seeds 3 --json -q sweep.dir=other > whole.json 2> err || fail "whole: $(cat err)"
cmp again.json whole.json || fail "what was interrupted says something else"
if command -v gnuplot > /dev/null && grep -v 'the base kernels have no fused' err; then fail "-q is not quiet: $(cat err)"; fi
tune tiny.conf --seeds 3 > table 2> err || fail "table: $(cat err)"
grep 'runs, ' err | grep -qv '\([0-9]*\) runs, \1 of them done before' && fail "runs anew: $(cat err)"
test "$(grep -c '^\*' table)" = 2 || fail "a best for each arm: $(cat table)"
if command -v gnuplot > /dev/null; then
  grep -q '>validation loss,<' runs/tune-tiny/tuning.svg && grep -q '>mean over the last 3 recorded steps  (nat)<' runs/tune-tiny/tuning.svg || fail "the axis of the figure: $(grep '<tspan' runs/tune-tiny/tuning.svg)"
  test -s runs/tune-tiny/tuning.svg && test -s runs/tune-tiny/tuning.png || fail "no figure"
fi

# what jq finds in the values: means, the lowest of them with one on either side, on how many seeds the others are worse
jq -e '[.arms[].arm] == ["adam", "muon"] and .first_seed == 2101 and .seeds == 3 and all(.arms[];
    .end == "bracketed" and (.best["train.lr"] as $b | (.points | map(select(.["train.lr"] == $b))[0]) as $best | .points as $p |
      ($p | map(.mean) | min) == $best.mean and ($p | map(.["train.lr"]) | min < $b and max > $b) and
      all($p[]; (.mean - ([.runs[].value] | add / length) | fabs < 1e-6) and (.behind - (.mean - $best.mean) | fabs < 1e-5) and
        .worse_on_seeds == ([.runs, $best.runs] | transpose | map(select(.[0].value > .[1].value)) | length) and
        ([.runs[].seed] == [2101, 2102, 2103])) and ([$p[].chosen] | add - 1 | fabs < 1e-3)))' whole.json > /dev/null ||
  fail "the choice: $(jq -c '.arms[] | .end, .best' whole.json)"
# a factor of sqrt(3) apart, and so few that the grid grew no further than it had to
jq -e 'all(.arms[]; [.points[]["train.lr"]] | . == sort and all(range(1; length) as $i | .[$i] / .[$i - 1]; . - 1.7320508 | fabs < 2e-3))' \
  whole.json > /dev/null || fail "the grid"

# between them: the lowest point of the parabola through the best and its neighbors
jq -e 'all(.arms[]; .best["train.lr"] as $b | ([.points[]["train.lr"]] | index($b)) as $i | [.points[$i - 1, $i, $i + 1].mean] as $y |
    (($y[0] - $y[2]) / 2 / ($y[0] - 2 * $y[1] + $y[2])) as $t | .optimum as $o |
    ($o.mean / ($b * (3 | sqrt | log * $t | exp)) - 1 | fabs < 1e-3) and $o.lo == null and $o.hi == null)' whole.json > /dev/null ||
  fail "the optimum: $(jq -c '.arms[] | .best, .optimum' whole.json)"
grep -q '^  optimum between them [0-9.]*$' table || fail "the optimum: $(cat table)"
# with an interval from six seeds on, and none between values that are not a factor apart
tune tiny.conf preset=muon -q -o six.conf > table 2> err || fail "six seeds: $(cat err)"
grep -q '^  optimum between them [0-9.]* \[[0-9.]*, [0-9.]*\]$' table || fail "the optimum of six seeds: $(cat table)"
tune tiny.conf preset=adam --over model.layers model.layers=2 --by loss:last --max --seeds 3 -q -o layers.conf > table 2> err || fail "layers: $(cat err)"
if ! grep -q ': bracketed$' table || grep -q '^  optimum between' table; then fail "an optimum between whole numbers: $(cat table)"; fi

# a file that is not of tune stays; it is said before any run
echo '# my own settings' > mine.conf
tune tiny.conf preset=muon -q -o mine.conf > table 2> err; status=$?
test $status -eq 2 && grep -q 'mine.conf exists, and does not begin with "# Tuned by "' err && test "$(cat mine.conf)" = '# my own settings' ||
  fail "tune over a file of another: exit $status, $(cat err)"

# what it leaves: each arm as it was tuned, to the run, on the seeds that the file has
cp tiny.tuned.conf written
echo '[arm mine]' >> tiny.tuned.conf
cp tiny.tuned.conf changed
"$program" tune tiny.conf --over train.lr --seeds 2 > out 2> err; status=$?
test $status -eq 2 && grep -q 'tiny.tuned.conf was changed since it was written' err && cmp -s tiny.tuned.conf changed || fail "a tuned file that was changed: exit $status, $(cat err)"
mv written tiny.tuned.conf
"$program" sweep tiny.tuned.conf --list > list 2>&1 || fail "sweep: $(cat list)"
test "$(wc -l < list)" = 4 || fail "two arms of two seeds: $(cat list)"
"$program" sweep tiny.tuned.conf --list train.seed=2102 | cut -f 2 | sort > ids
jq -r '.arms[] | .best["train.lr"] as $b | .points[] | select(.["train.lr"] == $b) | .runs[] | select(.seed == 2102) | .id' whole.json |
  sort > best
cmp ids best || fail "other runs than those that were chosen: $(cat ids best)"

# two keys: their product, the best inside of it
tune tiny.conf preset=adam --over train.lr,train.weight_decay train.lr=0.05 train.weight_decay=0.3 --seeds 1 --json -q -o two.conf > two.json 2> err ||
  test $? = 1 || fail "two keys: $(cat err)"
jq -e '.arms[0] | (.points | length) as $n | ([.points[]["train.lr"]] | unique | length) * ([.points[]["train.weight_decay"]] | unique | length) == $n and $n >= 25' \
  two.json > /dev/null || fail "two keys: $(cut -c1-300 two.json)"

# where every run diverges smaller values are tried; what diverges is never the best
tune tiny.conf preset=adam train.lr=1e30 --seeds 1 --json -q -o wild.conf > wild.json 2> err || test $? = 1 || fail "wild: $(cat err)"
jq -e '.arms[0] | (.points | map(select(.diverged > 0)) | length > 0 and all(.[]; .mean == null and .chosen == 0)) and (.points | length > 5)' \
  wild.json > /dev/null || fail "what diverges: $(cut -c1-300 wild.json)"

# a metric that the key does not change: the middle; one that is best at the end of the range, maximised
tune tiny.conf preset=adam --over train.weight_decay train.weight_decay=0.1 --by lr:0-0:mean --seeds 1 --json -q > flat.json 2> err || fail "flat"
jq -e '.arms[0] | (.end | startswith("flat")) and .best["train.weight_decay"] == 0.1 and (.points | length) == 5' flat.json > /dev/null ||
  fail "flat: $(cut -c1-300 flat.json)"
grep -q 'tuned is flat: every value is equally good' err || fail "flat: $(cat err)"
"$program" tune tiny.conf preset=adam train.seed=2101 --over train.warmup train.warmup=3 --seeds 1 > out 2> err
test $? -eq 2 && grep -q 'train.seed 2101 is one of those' err || fail "the seed that is chosen on: $(cat err)"
# (on seed 2101: that of the file may be the next one)
tune tiny.conf preset=adam train.seed=2102 --over train.warmup train.warmup=3 --by lr:0-0:mean --max --seeds 1 --json -q > limit.json 2> err || fail "limit"
jq -e '.maximised and (.arms[0] | (.end | startswith("at the limit")) and .best["train.warmup"] == 1 and (.points[0].mean | . == 0.002) and
  ([.points[]["train.warmup"]] == [1, 2, 3, 5, 9]))' limit.json > /dev/null || fail "limit: $(cut -c1-400 limit.json)"
# behind the best is what is lower, where the metric is to be high
jq -e '.arms[0].points as $p | ($p | map(.mean) | max) as $best | all($p[]; (.behind - ($best - .mean) | fabs < 1e-9) and
    .worse_on_seeds == (if .mean < $best then 1 else 0 end))' limit.json > /dev/null || fail "behind the highest: $(jq -c '.arms[].points' limit.json)"
# the upper end of a range is a value like others
tune tiny.conf preset=adam --over adam.beta2 adam.beta2=0.9 --by lr:0-0:mean --seeds 1 --json -q > end.json 2> err || fail "end: $(cat err)"
jq -e '[.arms[0].points[]["adam.beta2"]] | max == 0.999999' end.json > /dev/null || fail "end: $(cut -c1-400 end.json)"
# monotone: as far as it goes, and then it says so
tune tiny.conf preset=adam --over train.warmup train.warmup=30 --by lr:0-0:mean --seeds 1 --json -q > far.json 2> err
test $? = 1 || fail "far: status"
jq -e '.arms[0] | (.end | startswith("not bracketed")) and (.points | length) == 17' far.json > /dev/null || fail "far: $(cut -c1-300 far.json)"
# a setting that was given stands in the file that is left, also where it is the default that the preset changes
tune tiny.conf preset=muonh train.weight_decay=0.1 --over train.warmup train.warmup=3 --by lr:0-0:mean --seeds 1 -q -o given.conf > out 2>&1
if command -v gnuplot > /dev/null; then grep -q '>muonh (no bracket)<' runs/tune-tiny/tuning.svg || fail "an arm without a name: $(grep '<tspan' runs/tune-tiny/tuning.svg)"; fi
grep -qx 'train.weight_decay = 0.1' given.conf || fail "a setting that was given: $(cat given.conf)"
# NaN everywhere
tune tiny.conf preset=adam --by attn/max_logit:0-0:slope --seeds 1 --json -q -o nan.conf > nan.json 2> err
test $? = 1 || fail "NaN: status"
jq -e '.arms[0] | .best == null and (.end | startswith("without a score"))' nan.json > /dev/null || fail "NaN: $(cut -c1-300 nan.json)"
test -e nan.conf && fail "settings without a best"

# wrong input: one message, status 2, nothing written
wrong() { # PATTERN words
  pattern=$1; shift
  tune tiny.conf sweep.dir=wrong -o wrong.conf "$@" > out 2>&1
  status=$?
  [ $status = 2 ] || fail "tune $*: status $status"
  grep -q -- "$pattern" out || fail "tune $*: $(cat out)"
  test "$(grep -c '^maxlogit: ' out)" = 1 || fail "tune $*: more than one message: $(cat out)"
  test -e wrong.conf && fail "tune $* leaves something"
}
wrong "did you mean 'train.lr'" --over train.lrr
wrong "is not KEY or KEY,KEY" --over train.lr,train.lr
wrong "is not KEY or KEY,KEY" --over train.lr,train.batch,train.steps
wrong "data is not a number" --over data
wrong "does not use muon.momentum" preset=adam --over muon.momentum
wrong "train.weight_decay is 0, and a grid of factors" --over train.weight_decay train.weight_decay=0
wrong "train.lr has a list of values" train.lr=0.1,0.2
wrong "train.seed 2102 is one of those that values are chosen on" train.seed=1,2102
wrong "out of range (allowed: 1 to 100)" --seeds 0
wrong "the window is" --by val_loss:x
# a metric that no run records is refused when the first run has ended
wrong "has no series vall; did you mean val?" --by vall -j 1 -q
wrong "several values a step; say which" --by attn/max_logit -j 1 -q
test "$(ls wrong/*.h5 | grep -c .)" -le 4 || fail "trained before the metric was tried: $(ls wrong)"
# arms get names of their own, also where one of them is called as the second of another would be
printf '[arm m-2]\npreset = adam\n[arm m]\npreset = muon\n' > arms.txt
sed '1d' tiny.conf > named.conf && cat arms.txt >> named.conf
tune named.conf sweep.dir=named --seeds 1 -q -j 1 > /dev/null 2> err || fail "named arms: $(cat err)"
test "$(grep '^\[arm' named.tuned.conf | sort -u | grep -c .)" = 2 || fail "arms of one name: $(grep '^\[arm' named.tuned.conf)"
"$program" plot runs/tune-tiny --figure tuning > out 2>&1; test $? = 2 && grep -q 'it is drawn by maxlogit tune' out || fail "plot: $(cat out)"

finish
