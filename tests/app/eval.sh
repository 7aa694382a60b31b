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

# weights for which the model has no use are named
"$program" run -q train.init_from="$dir/from.h5" model.layers=1 model.width=16 model.heads=2 model.context=16 train.steps=0 record.path="$dir/less.h5" > "$dir/out" 2> "$dir/err"
grep -q 'from.h5: [0-9]* tensors are left out, as blocks.1' "$dir/err" || fail "weights that are left out: $(cat "$dir/err")"

# heads that were planted are so already
small_run planted train.plant=0:0:3
"$program" eval --json --context=1x "$dir/planted.h5" > "$dir/out" 2> "$dir/err" || fail "eval of planted heads: $(cat "$dir/err")"
loss=$(sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$dir/out" | awk '{ printf "%.6g", $1 }')
wanted=$("$program" export "$dir/planted.h5" val_loss | awk 'END { printf "%.6g", $2 }')
test -n "$loss" && test "$loss" = "$wanted" || fail "eval of planted heads: $loss, the run ended with $wanted"

# weights that are evaluated are not clipped: neither by a clip that was not due at the end, nor for a longer context
small_run unclipped stabilizers=bound_clip bound_clip.tau=1e-2 bound_clip.every=1000
for tau in 1e-2 1e9; do
  "$program" eval --context=1x,2x "$dir/unclipped.h5" bound_clip.tau=$tau > "$dir/$tau" || fail "eval under bound_clip.tau=$tau"
done
cmp -s "$dir/1e-2" "$dir/1e9" || fail "eval clips weights: $(cat "$dir/1e-2" "$dir/1e9")"

# every number of eval: by position and summed up, at its own context and at half of it
"$program" eval --context=1x,0.5x "$dir/from.h5" > "$dir/summary" 2> "$dir/err" || fail "eval: $(cat "$dir/err")"
"$program" eval --positions --context=1x,0.5x "$dir/from.h5" > "$dir/positions" || fail "eval --positions"
"$program" eval --json --context=1x,0.5x "$dir/from.h5" > "$dir/json" || fail "eval --json"
awk '/^# context/ { block++ } /^[0-9]/ { n[block]++; sum[block] += $2; loss[block, $1] = $2
    if ($1 != n[block] - 1) bad = 1 }
  END { if (bad || n[1] != 16 || n[2] != 8) exit 1
    for (b = 1; b <= 2; b++) { tail = 0
      for (i = n[b] * 3 / 4; i < n[b]; i++) tail += loss[b, i]
      printf "%gx %d %.6f %.6f\n", b == 1 ? 1 : 0.5, n[b], sum[b] / n[b], tail / (n[b] / 4) } }' \
  "$dir/positions" > "$dir/wanted" || fail "positions: $(cat "$dir/positions")"
as_wanted() { # OFF: how far the lines of standard input may be off
  paste -d ' ' - "$dir/wanted" | awk -v off="$1" 'function near(a, b) { return a - b <= off && b - a <= off }
    { n++; if ($1 != $5 || $2 != $6 || !near($3, $7) || !near($4, $8)) bad = 1 } END { exit bad || n != 2 }'
}
awk 'NR > 1 { print $1, $2, $3, $4 }' "$dir/summary" | as_wanted 6e-5 ||
  fail "the summary is not that of the positions: $(cat "$dir/summary" "$dir/wanted")"
sed -n 's/.*"context": \([0-9]*\), "multiple": \([0-9.]*\), "loss": \([^,]*\), "loss_last_quarter": \([^,]*\),.*/\2x \1 \3 \4/p' \
  "$dir/json" | as_wanted 1e-5 ||
  fail "the JSON is not that of the positions: $(cat "$dir/json")"
val=$("$program" export "$dir/from.h5" val_loss | awk 'END { printf "%.4f", $2 }')
test "$(awk 'NR == 2 { print $3 }' "$dir/summary")" = "$val" || fail "at its own context eval is not the last val_loss $val"

# at other contexts as many tokens a batch, and no fewer sequences: the first validation of a run that starts so
for c in 2:32:2:16 0.5:8:8:8; do
  set -- $(echo $c | tr : ' ')
  small_run at$1 train.init_from="$dir/from.h5" model.context=$2 train.batch=$3 train.val_batches=$4 train.steps=1
  wanted=$("$program" export "$dir/at$1.h5" val_loss | awk '/^0 / { printf "%.4f", $2 }')
  test "$("$program" eval --context=$1x "$dir/from.h5" | awk 'NR == 2 { print $3 }')" = "$wanted" || fail "at $1 of its context eval is not the loss $wanted of a run"
done

# the last quarter of a context that is not a multiple of four
"$program" eval --positions --context=0.625x "$dir/from.h5" | awk '/^[0-9]/ { loss[$1] = $2; n = $1 + 1 }
  END { for (i = int(n * 3 / 4); i < n; i++) { sum += loss[i]; k++ } printf "%d %.4f\n", n, sum / k }' > "$dir/wanted"
"$program" eval --context=0.625x "$dir/from.h5" | awk 'NR == 2 { print $2, $4 }' | cmp -s - "$dir/wanted" && grep -q '^10 ' "$dir/wanted" ||
  fail "the last quarter of ten positions: $(cat "$dir/wanted")"

# what is no longer the text of the run is told, unless another is asked for
head -c 3000 "$srcdir/README.md" > "$dir/book"
small_run book data=bytes data.path="$dir/book"
"$program" eval "$dir/book.h5" > "$dir/out" 2> "$dir/err" && test ! -s "$dir/err" || fail "eval of a text: $(cat "$dir/err")"
cp "$dir/book" "$dir/other"
echo more >> "$dir/book"
"$program" eval "$dir/book.h5" > "$dir/out" 2> "$dir/err" && test "$(grep -c 'book.h5: trained on other data' "$dir/err")" -eq 1 || fail "eval of another text: $(cat "$dir/err")"
"$program" eval "$dir/book.h5" data.path="$dir/other" > "$dir/out" 2> "$dir/err" && test ! -s "$dir/err" || fail "eval of a text asked for: $(cat "$dir/err")"

# modules that look ahead: their losses are those of the record; of a text that repeats they predict what the main head
# does, and do not before they have learned
awk 'BEGIN { for (i = 0; i < 500; i++) printf "abcdefgh" }' > "$dir/text"
for steps in 1 60; do
  small_run ahead$steps model.mtp=2 data=bytes data.path="$dir/text" train.steps=$steps train.warmup=0 record.observe=default+sink
  "$program" eval --json --context=1x "$dir/ahead$steps.h5" > "$dir/out" || fail "eval of modules"
  "$program" export "$dir/ahead$steps.h5" mtp/val_loss | awk 'END { printf "%.5g %.5g\n", $4, $5 }' > "$dir/wanted"
  sed -n 's/.*"modules": \[{"loss": \([^,]*\), "agreement": \([^}]*\)}, {"loss": \([^,]*\), "agreement": \([^}]*\)}.*/\1 \3 \2 \4/p' \
    "$dir/out" > "$dir/modules"
  awk '{ printf "%.5g %.5g\n", $1, $2 }' "$dir/modules" | cmp -s - "$dir/wanted" ||
    fail "modules: $(cat "$dir/modules"), recorded $(cat "$dir/wanted")"
  awk -v steps=$steps 'NF == 4 && $3 <= 1 && $4 <= 1 { ok = steps > 1 ? $3 > 0.99 && $4 > 0.99 : $3 < 0.9 && $4 < 0.9 }
    END { exit !ok }' "$dir/modules" || fail "agreement after $steps steps: $(cat "$dir/modules")"
done
"$program" eval --context=1x "$dir/ahead60.h5" | awk 'NR == 1 { head = NF } END { exit !(NR == 2 && NF == 8 && head == 14) }' ||
  fail "the table has no modules"

# weights of an earlier step are named
small_run earlier checkpoint.every=10 checkpoint.keep=all
"$program" eval "$dir/earlier.h5" > "$dir/out" 2> "$dir/err" && test ! -s "$dir/err" || fail "eval: $(cat "$dir/err")"
rm "$dir/earlier.ckpt/step-00000040.h5"
for command in "eval --context=1x,2x $dir/earlier.h5" "export $dir/earlier.h5 --safetensors=$dir/weights"; do
  # shellcheck disable=SC2086 # words
  "$program" $command > "$dir/out" 2> "$dir/err" && test "$(grep -c 'the weights are those after 30 of its 40 steps' "$dir/err")" = 1 ||
    fail "$command of an earlier step: $(cat "$dir/err")"
done

# a text that was given by a path from another folder
mkdir "$dir/there" && cp "$dir/text" "$dir/there/t.txt"
(cd "$dir/there" && small_run relative data=bytes data.path=t.txt train.steps=1 && mv "$dir/relative".* .)
"$program" eval "$dir/there/relative.h5" > "$dir/out" 2> "$dir/err" && fail "a text from another folder is read"
grep -qF "there/relative.h5: data.path: cannot read t.txt: No such file or directory (seen from $PWD; data.path=FILE names it anew)" "$dir/err" ||
  fail "a text from another folder: $(cat "$dir/err")"
"$program" eval "$dir/there/relative.h5" data.path="$dir/there/t.txt" > "$dir/out" 2> "$dir/err" || fail "a text named anew: $(cat "$dir/err")"
finish
