#!/bin/sh
# plot: every figure draws without a word from gnuplot; PNG has content, SVG is well-formed, text has curves
srcdir=${srcdir:-$(dirname "$0")/..}
command -v gnuplot > /dev/null || { echo "gnuplot is not installed: figures not tested"; exit 77; }
. "$srcdir/tests/small_runs.sh"
for preset in adam muon muonclip; do
  for seed in 1 2; do small_run "$preset-$seed" preset=$preset train.seed=$seed qk_clip.tau=2; done
done

check_figures() { # FOLDER WHAT
  for figure in logits heads heatmap loss spectra; do
    size=$(wc -c < "$1/$figure.png")
    test "$size" -gt 10000 || fail "$2: $figure.png has $size bytes"
    if command -v xmllint > /dev/null; then xmllint --noout "$1/$figure.svg" || fail "$2: $figure.svg"
    else tail -n 2 "$1/$figure.svg" | grep -q '</svg>' || fail "$2: $figure.svg has no end"; fi
  done
}

"$program" plot "$dir" -o "$dir/all" > "$dir/out" 2> "$dir/err" || fail "plot: $(cat "$dir/err")"
test -s "$dir/err" && fail "plot: words on standard error: $(cat "$dir/err")"
test "$(grep -c . "$dir/out")" -eq 10 || fail "plot does not say where the figures are"
check_figures "$dir/all" "three groups"
"$program" plot "$dir/muon-1.h5" -o "$dir/one" > /dev/null 2> "$dir/err" || fail "one run: $(cat "$dir/err")"
check_figures "$dir/one" "one run"

# without spectra and validation; a run that diverges in its middle; runs of different lengths
small_run bare preset=muon record.spectra_every=0 train.val_every=0
small_run broken preset=adam train.lr=1e6 train.warmup=0
small_run long preset=muon train.steps=60
"$program" plot "$dir/bare.h5" "$dir/broken.h5" "$dir/long.h5" -o "$dir/odd" > /dev/null 2> "$dir/err" ||
  fail "odd runs: $(cat "$dir/err")"
"$program" plot "$dir/broken.h5" -o "$dir/odd" > /dev/null 2> "$dir/err" ||
  fail "diverged run: $(cat "$dir/err")"

# in the terminal: no escape codes in a pipe
"$program" plot -t "$dir" > "$dir/text" 2> "$dir/err" || fail "-t: $(cat "$dir/err")"
grep -q 'training step' "$dir/text" || fail "-t draws nothing"
grep -q "$(printf '\033')" "$dir/text" && fail "-t: escape codes in a pipe"
"$program" plot -t --figure=heads "$dir" > "$dir/text" 2> "$dir/err" || fail "-t heads: $(cat "$dir/err")"
"$program" plot -t --figure=loss "$dir" > "$dir/text" 2> "$dir/err" || fail "-t loss: $(cat "$dir/err")"

# the printed script draws the same figure; a folder of one's own is taken
"$program" plot --script --figure=logits --format=svg "$dir/muon-1.h5" "$dir/muon-2.h5" |
  sed 's|^out = .*|out = "own.svg"|' > "$dir/own.gp"
(cd "$dir" && gnuplot own.gp) 2> "$dir/err" || fail "--script: $(cat "$dir/err")"
test -s "$dir/own.svg" || fail "--script draws nothing"
MAXLOGIT_PLOTS=$dir/nowhere "$program" plot "$dir/muon-1.h5" -o "$dir/x" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "MAXLOGIT_PLOTS to nowhere: exit $status"
"$program" plot --figure=logit "$dir/muon-1.h5" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "unknown figure: exit $status"
grep -q "logits" "$dir/err" || fail "unknown figure: no suggestion: $(cat "$dir/err")"
(PATH=$dir; export PATH; "$program" plot "$dir/muon-1.h5" -o "$dir/x") > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 1 || fail "no gnuplot: exit $status"
grep -q 'gnuplot is not installed' "$dir/err" || fail "no gnuplot: $(cat "$dir/err")"
finish
