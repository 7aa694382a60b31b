#!/bin/sh
# Every experiment's one command on runs of a few steps: it ends, its table has a row for each question without a
# missing number, its figures are drawn, and nothing beside the script changes.
srcdir=${srcdir:-$(dirname "$0")/..}
for tool in jq gnuplot; do
  command -v $tool > /dev/null || { echo "$tool is not installed: experiments not tested"; exit 77; }
done
. "${top_srcdir:-.}/tests/small_runs.sh"

cp -R "$srcdir/experiments" "$srcdir/plots" "$srcdir/README.md" "$dir/"
chmod -R u+w "$dir"
cp -R "$dir/experiments" "$dir/before"
cd "$dir" || exit 99
MAXLOGIT=$program
MAXLOGIT_PLOTS=$dir/plots
KEYS='train.seed=1,2 train.steps=4 train.warmup=2 train.batch=4 train.val_batches=1 model.layers=2 record.spectra_every=2'
export MAXLOGIT MAXLOGIT_PLOTS KEYS

try() { # NAME[/SCRIPT] ROWS FIGURE... (ROWS empty: not counted)
  name=$1 rows=$2 script=run table=table text=README.md
  shift 2
  case $name in */*) script=${name#*/} table=$script name=${name%/*} ;; esac
  if grep -q '^builtin=1' "experiments/$name/$script.sh"; then text=''; fi
  "experiments/$name/$script.sh" ${text:+"$text"} "$name" > "$name.out" 2> "$name.err" ||
    { fail "$name: exit $?"; tail -n 5 "$name.err"; return; }
  cmp -s "$name.out" "$name/$table.txt" || fail "$name: does not print its table"
  tail -n 1 "$name.out" | grep -q '^maxlogit .* revision .* numerics' || fail "$name: the table does not say what made it"
  sed -i '$d' "$name.out"
  test -z "$rows" || test "$(grep -c '[0-9]\.[0-9]' "$name.out")" -eq "$rows" || fail "$name: $(cat "$name.out")"
  grep -qiE 'nan|null|inf' "$name.out" && fail "$name: a number is missing: $(cat "$name.out")"
  for figure; do
    test "$(wc -c < "$name/$figure")" -gt 5000 || fail "$name: $figure has nothing in it"
  done
}
try 02-over-clipping 6 over-clipping.png over-clipping.svg
try 03-mla-family 6 mla-family.png mla-family.svg
try 13-six-models 6 six-models.png six-models.svg
if [ -n "${MAXLOGIT_TEST_LONG:-}" ]; then
  try 01-four-presets 7 logits.png heads.png loss.png
  try 04-cures 17 cures.png cures.svg
  KEYS="$KEYS train.lr=0.01 train.weight_decay=0.1 train.steps=40 train.val_every=20 record.probe_every=1"
  try 14-what-must-be-held-equal '' phases.png phases.svg what-else.png what-else.svg mechanism.png \
    mechanism.svg # a row a bin of losses: any number
  test "$(grep -cE '^0\.1 +[0-9.e+-]+\*?$' "$name.out")" -eq 9 || fail "$name: the plane: $(cat "$name.out")"
  test "$(grep -cE ' lr 0\.01 +[0-9.e+-]+ \[' "$name.out")" -eq 14 || fail "$name: variants: $(cat "$name.out")"
  test "$(grep -cE '^(muon|adam|random) +(muon|adam) +[0-9]' "$name.out")" -eq 6 || fail "$name: vectors: $(cat "$name.out")"
  LEVELS='4.7 4.6' # from the start's loss on
  export LEVELS
  try 14-what-must-be-held-equal/equal-loss '' equal-loss.png equal-loss.svg
  KEYS=${KEYS%% train.lr=*}
  KEYS='train.steps=200 train.val_every=50 train.warmup=20 train.batch=2 train.val_batches=1 record.every=1 record.probe_every=2'
  SEEDS=1
  export SEEDS
  try 15-horizon '' horizon.png horizon.svg rates.png rates.svg
  test "$(grep -c '^muon .*3: ' "$name.out")" -eq 2 || fail "$name: the verdicts: $(cat "$name.out")"
  try 23-newer-optimizers '' newer-optimizers.png newer-optimizers.svg
  test "$(grep -cE '^[1-4]\. .* (holds|partly|refuted here|inconclusive)$' "$name.out")" -eq 4 || fail "$name: the verdicts: $(cat "$name.out")"
  try 20-when-it-explodes '' when-it-explodes.png when-it-explodes.svg tug-of-war.png tug-of-war.svg
  test "$(grep -cE ': (above|below|not above|not below|within|more than) .* (holds|partly|refuted here|inconclusive|differs, size open|few seeds)$' "$name.out")" -ge 17 ||
    fail "$name: the verdicts: $(cat "$name.out")"
  KEYS='train.steps=20 train.val_every=10 train.warmup=2 train.batch=2 train.val_batches=1 record.probe_every=1'
  few=$KEYS
  KEYS="$KEYS train.seed=1,2 train.lr=0.01,0.1,1"
  try 21-learning-rate-sensitivity '' sensitivity.png sensitivity.svg
  test "$(grep -cE '^(adam|muon) .* at .* few seeds$' "$name.out")" -eq 8 || fail "$name: the verdicts: $(cat "$name.out")"
  KEYS="$few train.seed=1,2 train.steps=40"
  SEEDS=1
  try 22-vocabulary '' vocabulary.png vocabulary.svg
  test "$(grep -cE '^[123]\. .* few seeds$' "$name.out")" -eq 3 || fail "$name: the verdicts: $(cat "$name.out")"
  KEYS='train.seed=1 train.steps=60 train.val_every=20 train.batch=2 record.every=2 record.probe_every=2'
  try 24-where-it-holds '' where-it-holds.png where-it-holds.svg
  test "$(grep -cE '^[1-4]\. .* few seeds$' "$name.out")" -eq 10 || fail "$name: the verdicts: $(cat "$name.out")"
  KEYS=$few
  try 17-price-of-a-cure '' price.png price.svg
  test "$(grep -cE ': (holds|refuted here|inconclusive)$' "$name.out")" -eq 8 || fail "$name: the verdicts: $(cat "$name.out")"
  try 18-width '' width.png width.svg
  test "$(grep -cE ': (holds|partly|refuted here|inconclusive)$' "$name.out")" -eq 6 || fail "$name: the verdicts: $(cat "$name.out")"
  KEYS='train.steps=40 train.warmup=2 train.batch=4 train.val_batches=1 record.probe_every=1 record.spectra_every=2'
  FROM=10 SPAN=12 LEDGER=14-what-must-be-held-equal/equal-loss
  export FROM SPAN LEDGER
  try 16-what-makes-logits '' what-makes-logits.png what-makes-logits.svg
  test "$(grep -cE '^(seeds|rates|norm|narrow|text) +[0-9]+ +[0-9]+ ' "$name.out")" -ge 5 || fail "$name: sets: $(cat "$name.out")"
fi
diff -r before experiments || fail "the sources changed"

# --keep: the table goes into README.md, and nothing else of it changes
experiments/02-over-clipping/run.sh --keep README.md 02-over-clipping > out 2> err || fail "--keep: $(tail -n 3 err)"
awk '/^<!-- table -->/ { wait = 1 } /^```/ && inside { exit } inside { print } /^```/ && wait { inside = 1 }' \
  experiments/02-over-clipping/README.md | cmp - 02-over-clipping/table.txt || fail "--keep: not the table"
for file in before experiments; do
  awk '/^```/ { skip = 0 } !skip { print } /^<!-- table -->/ { getline; print; skip = 1 }' "$file/02-over-clipping/README.md" > "$file.rest"
done
cmp before.rest experiments.rest || fail "--keep: more than the table changed"
cmp -s 02-over-clipping/over-clipping.png experiments/02-over-clipping/over-clipping.png || fail "--keep: not the figure"

experiments/02-over-clipping/run.sh nowhere.txt > out 2> err; status=$?
test $status -eq 2 || fail "no text: exit $status"
finish
