#!/bin/sh
# metrics of runs, and two arms compared over pairs: against the same sums done by awk on what export prints
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
mkdir "$dir/runs" "$dir/other"
for seed in 1 2 3 4; do
  small_run "runs/adam-$seed" preset=adam train.seed=$seed
  small_run "runs/muon-$seed" preset=muon train.seed=$seed
done
small_run runs/adam-9 preset=adam train.seed=9
small_run other/broken preset=muon train.seed=9 train.lr=1e25 train.warmup=0

show() { "$program" show "$@" 2> "$dir/err" || fail "show $*: $(cat "$dir/err")"; }
value() { show --of "$1" --csv "$dir/runs/$2.h5" | awk -F, 'NR == 2 { print $6 }'; } # METRIC RUN
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-4 * (b < 0 ? -b : b) + 1e-12 && a != "") }'; }
check() { near "$1" "$2" || fail "$3: $1, not $2"; }
column() { "$program" export "$dir/runs/$1.h5" "$2" --reduce=max | grep -v '^#'; }

# metrics: each window and reduction against the exported columns
check "$(value loss muon-1)" "$(column muon-1 loss | tail -1 | cut -d' ' -f2)" loss
check "$(value val_loss:last3:mean muon-1)" "$(column muon-1 val_loss | tail -3 | awk '{ s += $2 } END { print s / NR }')" last3
check "$(value loss:last25%:mean muon-1)" "$(column muon-1 loss | awk '$1 >= 30 { s += $2; n++ } END { print s / n }')" "last25%"
check "$(value loss:10-20:min muon-1)" "$(column muon-1 loss | awk '$1 >= 10 && $1 <= 20 && (m == "" || $2 < m) { m = $2 } END { print m }')" min
check "$(value loss:10-12:mean muon-1)" "$(column muon-1 loss | awk '$1 >= 10 && $1 <= 12 { s += $2; n++ } END { print s / n }')" "A-B"
check "$(value loss:3-7:median muon-1)" "$(column muon-1 loss | awk '$1 >= 3 && $1 <= 7 { print $2 }' | sort -g | sed -n 3p)" median
check "$(value peak muon-1)" "$(column muon-1 attn/max_logit | sort -gk2 | tail -1 | cut -d' ' -f2)" peak
check "$(value last muon-1)" "$(column muon-1 attn/max_logit | tail -1 | cut -d' ' -f2)" last
check "$(value attn/max_logit:all:mean muon-1)" "$("$program" export "$dir/runs/muon-1.h5" attn/max_logit |
  awk '!/^#/ { for (i = 2; i <= NF; i++) { s += $i; n++ } } END { print s / n }')" "mean over heads"
level=$(column muon-1 attn/max_logit | sort -gk2 | sed -n 30p | cut -d' ' -f2)
check "$(value loss:all:below=5 muon-1)" "$(column muon-1 loss | awk '$2 < 5 { print $1; exit }')" below
check "$(value "attn/max_logit:all:above=$level" muon-1)" "$(column muon-1 attn/max_logit | awk -v l="$level" '$2 > l { print $1; exit }')" above
check "$(value 'attn/max_logit@l1h*:last:max' muon-1)" "$("$program" export "$dir/runs/muon-1.h5" attn/max_logit --layer=1 --reduce=max | tail -1 | cut -d' ' -f2)" "heads by name"
check "$(value 'weight/spectral_norm@*w_q:last:min' muon-1)" "$("$program" export "$dir/runs/muon-1.h5" weight/spectral_norm |
  awk '/^# step/ { for (i = 3; i <= NF; i++) if ($i ~ /w_q$/) want[i - 1] = 1 } !/^#/ { m = ""; for (i in want) if (m == "" || $i < m) m = $i } END { print m }')" "tensors by name"
level=$(awk "BEGIN { print $level * 0.9999 }") # none of the values
check "$(value "attn/max_logit:all:over=$level" muon-1)" "$("$program" export "$dir/runs/muon-1.h5" attn/max_logit |
  awk -v l="$level" '!/^#/ { for (i = 2; i <= NF; i++) { s += $i > l; n++ } } END { print s / n }')" "over"
check "$(value attn/max_logit:5-30:slope muon-1)" "$(column muon-1 attn/max_logit | awk '$1 >= 5 && $1 <= 30 { x = log($1); y = log($2); n++; sx += x; sy += y; xx += x * x; xy += x * y }
  END { print (n * xy - sx * sy) / (n * xx - sx * sx) }')" "slope"
"$program" show --of 'attn/max_logit@l9*:last:max' "$dir/runs/muon-1.h5" > /dev/null 2> "$dir/err" && fail "a name that nothing has"
grep -q 'matches l9' "$dir/err" || fail "a name that nothing has: $(cat "$dir/err")"
show --of attn/max_logit:all:above=1e6 --csv "$dir/runs/muon-1.h5" | tail -1 | grep -q ',39,1$' || fail "censored: $(show --of attn/max_logit:all:above=1e6 --csv "$dir/runs/muon-1.h5")"
show --of attn/max_logit:all:above=1e6 "$dir/runs/muon-1.h5" | grep -q ' >39 ' || fail "censored, as text"
"$program" compare --of attn/max_logit:all:over=2,attn/max_logit:all:slope,attn/max_logit:all:above=2,peak "$dir/runs/muon-1.h5" "$dir/runs/muon-1.h5" |
  grep -o '^[a-z].*: ' | tr '\n' ' ' > "$dir/units"
grep -q 'over=2: .*slope: .*above=2 \[step\]: .*peak \[nat\]: ' "$dir/units" || fail "units of metrics: $(cat "$dir/units")"
show --json --of loss:last "$dir/other" | grep -q '"metrics": {"loss:last": "\(NaN\|-*Infinity\)"}' || fail "a value that is not finite"

# of groups: n, mean, interval; what diverged is in none
show --by kind --csv --of val "$dir/runs" "$dir/other" > "$dir/out"
for seed in 1 2 3 4; do value val muon-$seed; done | awk '{ s += $1; q += $1 * $1; n++ } END {
  m = s / n; h = 3.182446305 * sqrt((q - n * m * m) / (n - 1) / n); printf "%.6f %.6f\n", m, m - h }' > "$dir/want"
found=$(awk -F, '$1 == "muon" { print $2, $3, $4, $5 }' "$dir/out"); set -- $found
test "$1 $2 $3" = "5 1 4" || fail "a group's n: $found"
check "$4" "$(cut -d' ' -f1 "$dir/want")" "a group's mean"
check "$(awk -F, '$1 == "muon" { print $6 }' "$dir/out")" "$(cut -d' ' -f2 "$dir/want")" "its interval"
show --by kind --of val,attn/max_logit:all:above=1e6 "$dir/runs" | grep -q 'muon .*n=4 .*not reached .*n=4, 0 reached' || fail "groups as text"
# each group against a baseline: the numbers that compare has of the two arms; of max logits the ratio
show --by kind --baseline adam --csv --of val,peak "$dir/runs" > "$dir/out"
effect() { "$program" compare "$dir/runs" kind=adam kind=muon --json "$@" | grep -o '"effect": {"n": [0-9]*, "mean": [^,]*, "lo": [^,]*' | grep -o '[-0-9.e]*$\|"n": [0-9]*\|"mean": [^,]*' | sed 's/.*: //' | tr '\n' ' '; }
# shellcheck disable=SC2046 # n, mean, lower end
set -- $(effect --of val) $(effect --of peak --ratio)
awk -F, '$1 == "muon" { print $4, $5, $7, $10, $11, $13 }' "$dir/out" | tr ' ' '\n' > "$dir/found"
printf '%s\n' "$2" "$3" "$1" "$5" "$6" "$4" | paste - "$dir/found" | while read -r want found; do near "$found" "$want" || echo "$found, not $want"; done > "$dir/differ"
test $# -eq 6 && test ! -s "$dir/differ" || fail "--baseline: $(cat "$dir/differ" "$dir/out")"
awk -F, '$1 == "adam" && $4 $5 $6 == "" { found = 1 } END { exit !found }' "$dir/out" || fail "--baseline: of itself: $(cat "$dir/out")"
show --by kind --baseline adam --json --of val "$dir/runs" | grep -q '"group": "muon", .*"baseline": "adam", .*"contrast": "difference", .*"p_holm": ' || fail "--baseline --json"
show --by kind --baseline adam --json --of attn/max_abs_logit:all:max "$dir/runs" | grep -q '"contrast": "ratio"' || fail "--baseline: largest absolute logits are compared by differences"
# ... and in JSON the intervals, and the p after Holm of two metrics, that compare has of the two arms
of_arms() { grep -o "\"\($1\)\": {[^}]*}\|\"p_holm\": [^,}]*" | sed 's/^"[^"]*": //'; } # NAMES of intervals, as a pattern
"$program" compare --json --of val,loss "$dir/runs" kind=adam kind=muon | of_arms 'a\|b\|effect' > "$dir/arms"
show --by kind --baseline adam --json --of val,loss "$dir/runs" | of_arms 'baseline\|group\|effect' | cmp - "$dir/arms" && test "$(wc -l < "$dir/arms")" -eq 8 ||
  fail "--baseline --json, of compare: $(cat "$dir/arms")"
show --by kind --baseline adam --of val,loss "$dir/runs" | grep -q "Holm's correction for 2 comparisons[.]" || fail "--baseline: the number of comparisons"
for bad in '--baseline adm' '--baseline adam --mean=median' '--baseline adam --events'; do
  # shellcheck disable=SC2086
  "$program" show --by kind $bad --of val "$dir/runs" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && test ! -s "$dir/out" || fail "show $bad: exit $status"
done
"$program" show --by kind --baseline adm "$dir/runs" 2>&1 | grep -q "no such group; allowed: 'adam', 'muon'" || fail "--baseline: the groups are not named"
show --by kind --mean=median --json --of val "$dir/runs" | grep -q '"median": ' || fail "--mean"

for bad in loss:lst loss:last0 loss:last200% loss:9-3 loss:last:most loss:last:above=x loss:last:below=nan loss::max loss:a:b:c los \
  attn/max_logit attn/max_logit:last5%; do
  "$program" show --of "$bad" "$dir/runs/muon-1.h5" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && grep -q "metric $bad: " "$dir/err" || fail "--of $bad: exit $status, $(cat "$dir/err")"
done
grep -q 'attn/max_logit:last:max' "$dir/err" || fail "a missing reduction is not explained: $(cat "$dir/err")"
for bad in '@l0*:last:max SERIES@GLOB is wanted' 'loss@:last:max SERIES@GLOB is wanted' 'loss@l0*:last none by name' 'attn/max_logit@l9*:last:max called l1h1'; do
  "$program" show --of "${bad%% *}" "$dir/runs/muon-1.h5" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && grep -qF "metric ${bad%% *}: " "$dir/err" && grep -qF "${bad#* }" "$dir/err" || fail "--of $bad: exit $status, $(cat "$dir/err")"
done
"$program" compare --where kind=adam "$dir/runs" train.seed=1 train.seed=2 > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 && grep -q 'no run has a partner of the same seed$' "$dir/err" || fail "nobody has a partner: exit $status, $(cat "$dir/err")"
"$program" compare --where kind=adam --by train.lr "$dir/runs" train.seed=1 train.seed=2 > "$dir/out" 2> "$dir/err"
grep -q 'no run has a partner of the same seed and the same train.lr$' "$dir/err" || fail "nobody has a partner --by: $(cat "$dir/err")"

# two arms: mean, edges and p of the differences
compare() { "$program" compare "$@" > "$dir/out" 2> "$dir/err" || fail "compare $*: $(cat "$dir/err")"; }
number() { sed -n "s/.*\"$1\": \([-0-9.e]*\)[,}].*/\1/p" "$dir/out"; }
effect() { sed -n 's/.*"effect": {"n": \([0-9]*\), "mean": \([-0-9.e]*\), "lo": \([-0-9.e]*\), "hi": \([-0-9.e]*\)}.*/\1 \2 \3 \4/p' "$dir/out"; }
for seed in 1 2 3 4; do echo "$(value val_loss:last3:mean muon-$seed) $(value val_loss:last3:mean adam-$seed) $(value peak muon-$seed) $(value peak adam-$seed)"; done > "$dir/values"
compare --json "$dir/runs" kind=adam kind=muon
set -- $(effect)
want=$(awk '{ d = $1 - $2; s += d; q += d * d; n++ } END { m = s / n; e = sqrt((q - n * m * m) / (n - 1) / n)
  printf "%.7f %.7f %.7f\n", m, m - 3.182446305 * e, e * (3.182446305 + 0.978472312) }' "$dir/values")
test "$1" = 4 || fail "pairs: $*"
check "$2" "$(echo "$want" | cut -d' ' -f1)" "B - A"
check "$3" "$(echo "$want" | cut -d' ' -f2)" "its lower edge"
check "$(number detectable)" "$(echo "$want" | cut -d' ' -f3)" "what could be seen"
test "$(grep -o '"start": "equal"' "$dir/out" | wc -l)" -eq 4 || fail "the same start is not seen: $(cat "$dir/out")"
grep -q '"no_partner": \[".*runs/adam-9.h5"\]' "$dir/out" || fail "no partner: $(cat "$dir/out")"
compare --json "$dir/runs" kind=muon kind=adam
set -- "$2" $(effect); check "$3" "$(awk -v x="$1" 'BEGIN { print -x }')" "arms the other way"
compare --json --ratio --of peak --margin 1.5 "$dir/runs" kind=adam kind=muon
set -- $(effect); check "$2" "$(awk '{ s += log($3 / $4) } END { print exp(s / NR) }' "$dir/values")" "the ratio"
grep -q '"equivalence_p": [0-9]' "$dir/out" || fail "no equivalence: $(cat "$dir/out")"
compare "$dir/runs" kind=adam kind=muon --of val,peak --margin 10
grep -q '^val \[nat\]: ' "$dir/out" && grep -q 'Holm, of 2' "$dir/out" && grep -q 'within +-10: p = ' "$dir/out" &&
  grep -q 'no partner .*adam-9.h5 (seed 9)' "$dir/out" || fail "compare as text: $(cat "$dir/out")"
test "$(grep -c '^  differ in    optimizer$' "$dir/out")" -eq 2 || fail "in what the arms differ: $(cat "$dir/out")"
# the verdict is that of the corrected p: differences 1, 1.3, 0.7 have p = 0.0287, which is 0.0573 of two
mkdir "$dir/A" "$dir/B"
if imports; then
for seed in 1 2 3; do
  for arm in A B; do
    value=$(awk -v arm=$arm -v seed=$seed 'BEGIN { split("2 2.3 1.7", b, " "); print arm == "A" ? 1 : b[seed] }')
    printf 'step,loss,other\n0,3,3\n1,%s,%s\n' "$value" "$value" > "$dir/log.csv"
    "$program" import "$dir/log.csv" --set train.seed=$seed -o "$dir/$arm/$seed.h5" > "$dir/out" 2>&1 || fail "import: $(cat "$dir/out")"
  done
done
compare "$dir/A" "$dir/B" --of loss:last
grep -qE '^loss:last.*B is higher by 1$' "$dir/out" || fail "one p of 0.0287: $(cat "$dir/out")"
compare "$dir/A" "$dir/B" --of loss:last,other:last
test "$(grep -c ': undecided$' "$dir/out")" -eq 2 && grep -q '0.0573 (Holm, of 2)\|0.0574 (Holm, of 2)' "$dir/out" ||
  fail "two of them: $(cat "$dir/out")"
fi
small_run longer preset=adam train.seed=1 train.steps=60
compare "$dir/runs/muon-1.h5" "$dir/longer.h5"; grep -q '^  differ in    optimizer, train.steps$' "$dir/out" || fail "a longer arm: $(cat "$dir/out")"
compare --json "$dir/runs/muon-1.h5" "$dir/longer.h5"; grep -q '"differ_in": "optimizer, train.steps"' "$dir/out" || fail "a longer arm: $(cat "$dir/out")"
compare "$dir/runs/muon-1.h5" "$dir/runs/muon-1.h5"; grep -q 'too few pairs' "$dir/out" || fail "one pair: $(cat "$dir/out")"
grep -q '1 pair is one run with itself' "$dir/out" || fail "both arms have a run: $(cat "$dir/out")"
compare "$dir/runs" kind=adam kind=muon --of clips --ratio; grep -q '  A  *kind=adam  *-  n=0 ' "$dir/out" || fail "of no value: $(cat "$dir/out")"

# equal differences: no resample lies beside another
mkdir "$dir/equal"
for seed in 1 2 3; do for lr in 1e-3 4e-3 6e-3; do
  small_run "equal/$lr-$seed" preset=muon train.lr=$lr train.seed=$seed train.steps=2 train.warmup=0
done; done
for lr in 4e-3 6e-3; do for ratio in "" --ratio; do
  # shellcheck disable=SC2086
  compare "$dir/equal" train.lr=1e-3 train.lr=$lr --of lr $ratio
  grep -q 'bootstrap' "$dir/out" || fail "equal differences: $(cat "$dir/out")"
done; done

# which bootstrap is rough
for seed in 4 5 6 7 8; do for lr in 1e-3 4e-3; do
  small_run "equal/$lr-$seed" preset=muon train.lr=$lr train.seed=$seed train.steps=2 train.warmup=0
done; done
for seeds in 7 8; do
  compare "$dir/equal" train.lr=1e-3 train.lr=4e-3 --where "train.seed<=$seeds"
  test "$(grep -c 'bootstrap .*(rough: few pairs)' "$dir/out")" -eq $((8 - seeds)) || fail "bootstrap of $seeds pairs: $(cat "$dir/out")"
done

# a run that has not finished counts as it stands, and that is said
mkdir "$dir/begun"
for kind in adam muon; do
  small_run "begun/$kind-1" preset=$kind train.seed=1
  "$program" run --quiet preset=$kind train.seed=2 model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4 \
    train.steps=1000000 train.warmup=5 train.val_every=10 device.threads=1 train.max_time=0.5 record.path="$dir/begun/$kind-2.h5" > /dev/null 2>&1
done
compare "$dir/begun" kind=adam kind=muon --of peak
grep -q 'unfinished *1 pair ' "$dir/out" || fail "compare of runs that have not finished: $(cat "$dir/out")"
compare --json "$dir/begun" kind=adam kind=muon --of peak
grep -q '"pairs_diverged": 0, "pairs_blown_up": 0, "pairs_unfinished": 1' "$dir/out" || fail "the same in JSON: $(cat "$dir/out")"
for what in "--by=kind" "--by=kind --of=peak"; do
  # shellcheck disable=SC2086
  "$program" show $what "$dir/begun" | tail -1 | grep -q '2 runs have not finished' || fail "show $what of such"
  "$program" show $what --json "$dir/begun" | grep -q '"unfinished": 1' || fail "show $what --json of such"
done
"$program" export --band "$dir/begun" loss --by kind --bins=4 | grep -q '^# group muon: runs 2, 1 not finished' || fail "export --band of such"

# what is no pair is said: a run that diverged, another shape, other weights
compare "$dir/runs" "$dir/other" --where 'seed=9'
grep -q '1 pair with a run that diverged' "$dir/out" || fail "a diverged run: $(cat "$dir/out")"
small_run other/wide preset=muon train.seed=1 model.width=32
rm "$dir/other/broken.h5"
compare "$dir/other" "$dir/runs" --where kind=muon
grep -q 'equal in 0 of 1 pair$' "$dir/out" && grep -q 'differ in model' "$dir/out" || fail "another shape: $(cat "$dir/out")"
for seed in 1 2; do small_run "other/lr-$seed" preset=muon train.seed=$seed train.lr=0.005; small_run "other/lr2-$seed" preset=muon train.seed=$seed train.lr=0.02; done
rm "$dir/other/wide.h5"
"$program" compare "$dir/runs" "$dir/other" --where kind=muon > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 && grep -q 'B: .*differ in train.lr' "$dir/err" || grep -q 'they differ in train.lr' "$dir/err" || fail "two runs of a seed: exit $status, $(cat "$dir/err")"
compare "$dir/other" "$dir/other" --by 'train.batch , train.lr'
test "$(grep -c '^val_loss:last3:mean.* train.batch=4 train.lr=0' "$dir/out")" -eq 2 || fail "--by: $(cat "$dir/out")"
# runs of unlike lengths are named where they are compared or averaged
mkdir "$dir/lengths"
for at in long:muon:40:1 short:adam:30:1 other:muon:35:2; do
  IFS=: read -r name preset steps seed <<AT
$at
AT
  small_run "lengths/$name" preset="$preset" train.steps="$steps" train.seed="$seed"
done
compare "$dir/lengths" kind=muon kind=adam
grep -q 'note *1 pair is of unlike lengths (40 and 30 steps)$' "$dir/out" || fail "a pair of unlike lengths: $(cat "$dir/out")"
"$program" show --group --by kind "$dir/lengths" > "$dir/out" 2> "$dir/err"
grep -q 'muon: a mean over runs of unlike lengths, as 40 and 35 steps' "$dir/err" && ! grep -q 'adam:' "$dir/err" || fail "a mean over unlike lengths: $(cat "$dir/err")"
# recordings: other settings are named, and numbers of unlike units are not compared
if imports; then
  mkdir "$dir/logs"
  log() { # NAME SEED UNIT SETTING...
    name=$1 seed=$2 unit=$3; shift 3
    printf 'step 0 loss=4 time=1%s\nstep 1 loss=3 time=2%s\n' "$unit" "$unit" > "$dir/log.txt"
    "$program" import "$dir/log.txt" --set train.seed="$seed" "$@" -o "$dir/logs/$name.h5" > "$dir/out" 2>&1 || fail "import: $(cat "$dir/out")"
  }
  for seed in 1 2; do log a$seed $seed s --set optimizer=muon --set batch=8; log b$seed $seed ms --set optimizer=adam --set batch=64; done
  compare "$dir/logs" kind=muon kind=adam --of time:all:max
  grep -q 'differ in *optimizer, batch$' "$dir/out" && grep -q 'A  *optimizer=muon\|kind=muon' "$dir/out" || fail "settings of recordings: $(cat "$dir/out")"
  grep -q '0\.002' "$dir/out" || fail "ms are no seconds: $(cat "$dir/out")"
  log c 3 s --set optimizer=muon --set batch=16 --unit=loss=bit
  for command in "compare kind=muon kind=adam --of=loss:last:max" "show --group --of=loss:last:max" "export loss --band" "plot --y=loss:last:max --x=train.seed" "plot --figure=loss"; do
    # shellcheck disable=SC2086 # words
    set -- $command; verb=$1; shift
    "$program" "$verb" "$dir/logs" "$@" > "$dir/out" 2> "$dir/err"; status=$?
    test $status -eq 2 && grep -q 'loss is in nat in .*, and in bit in .*logs/c.h5' "$dir/err" || fail "$command of two units: exit $status, $(cat "$dir/err")"
  done
  "$program" show "$dir/logs" --of=loss:last:max > "$dir/out" 2> "$dir/err" && grep -q 'warning: loss is in nat in ' "$dir/err" || fail "a list of two units: $(cat "$dir/err")"
  rm "$dir/logs/c.h5"; log c 3 s --set optimizer=muon --set batch=16
  for command in "export loss --band" "report -o $dir/page" "show --group"; do
    # shellcheck disable=SC2086 # words
    set -- $command; verb=$1; shift
    "$program" "$verb" "$dir/logs" "$@" > "$dir/out" 2> "$dir/err"
    grep -q 'runs of one group differ in batch: --by batch' "$dir/err" || fail "$command of unlike recordings: $(cat "$dir/err")"
  done
fi
# a damaged file of either arm counts in the exit status
mkdir "$dir/whole" "$dir/hurt" && cp "$dir"/runs/*.h5 "$dir/whole" && cp "$dir"/runs/*.h5 "$dir/hurt" && head -c 3000 "$(find "$dir/runs" -name "*.h5" | head -n 1)" > "$dir/hurt/cut.h5"
for arms in "hurt whole" "whole hurt"; do
  # shellcheck disable=SC2086
  (cd "$dir" && "$program" compare $arms --where kind=muon > out 2> err); status=$?
  test $status -eq 1 && grep -q 'hurt/cut.h5' "$dir/err" || fail "compare $arms: exit $status, $(cat "$dir/err")"
done
for bad in "$dir/runs" "$dir/runs kind=muon" "$dir/runs kind=muon kind=adam kind=sgd" "$dir/runs $dir/other --margin=0" \
  "$dir/runs $dir/other --ratio --margin=0.5" "$dir/runs seed=1 seed=2" "$dir/runs kind=muon kind=nosuch"; do
  # shellcheck disable=SC2086
  "$program" compare $bad > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 || fail "compare $bad: exit $status"
done
finish
