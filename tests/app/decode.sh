#!/bin/sh
# eval --decode: the text through a cache, runs that were clipped among them, equals the training form
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
small_run mha stabilizers=none
small_run gqa model.attention=gqa model.kv_heads=1 preset=muonclip qk_clip.tau=1
small_run mla model.attention=mla preset=muonclip qk_clip.tau=1
small_run centered model.attention=mla model.norm_gain=zero_centered
small_run window model.mask=window model.window=9 model.window_every=2
small_run prefix model.mask=prefix record.observe=default+decode
small_run normed model.attention=mla stabilizers=qk_norm record.observe=default+decode
small_run recorded record.observe=default+decode
for run in gqa mla; do
  "$program" show --events "$dir/$run.h5" | awk '$2 == "clip" { n++ } END { exit !n }' || fail "$run: no clip"
done

# The mean is the evaluation's, the cache has the size that it should have (two layers, head_dim 8, kv_rank 32,
# rope_dim 4), and no token is off by more than sums of up to 48 terms may be: 4 + 2 sqrt(48) roundings.
decode() { # RUN FORM NUMBERS
  "$program" eval --decode="$2" "$dir/$1.h5" > "$dir/out" 2> "$dir/err" || fail "$1 $2: $(cat "$dir/err")"
  loss=$("$program" eval --context=1x "$dir/$1.h5" | awk 'END { print $3 }')
  grep -q "^# $2: $3 numbers" "$dir/out" || fail "$1 $2: not $3 numbers: $(head -1 "$dir/out")"
  awk -v loss="$loss" 'function near(x) { return (x - loss)^2 < 1e-8 }
    END { exit !(NF == 6 && near($3) && near($4) && $6 >= 0 && $6 < 17.8) }' "$dir/out" ||
    fail "$1 $2: loss $loss, and $(tail -1 "$dir/out")"
}
# 48 tokens in blocks, the last of which begins in the one before, or one by one
for form in materialised absorbed; do
  for block in 1 7 16 1000; do "$program" eval --decode=$form --block=$block -j "$dir/mla.h5" > "$dir/by$block" || fail "--block=$block"; done
  for block in 7 16 1000; do cmp "$dir/by1" "$dir/by$block" || fail "$form: $block tokens at a time are not single ones"; done
done
decode mha materialised 64
decode gqa materialised 32
decode window materialised 64
decode mla materialised 80
decode mla absorbed 72
decode centered absorbed 72
decode normed materialised 80
decode normed absorbed 76

# A run's last row has what eval finds: of latents where there are some; earlier rows have nothing.
for of in normed:absorbed recorded:materialised; do
  run=${of%:*}
  for key in difference roundings; do "$program" export "$dir/$run.h5" decode/$key | awk '!/^#/ { print $2 }'; done > "$dir/rows"
  "$program" eval --decode=${of#*:} -j "$dir/$run.h5" > "$dir/json"
  [ "$(wc -l < "$dir/rows")" = 10 ] && [ "$(grep -cx NaN "$dir/rows")" = 8 ] || fail "$run: rows $(tr '\n' ' ' < "$dir/rows")"
  tr -d '{} "' < "$dir/json" | tr , '\n' | awk -F: -v row="$(sed -n 5p "$dir/rows")" -v of="$(sed -n 10p "$dir/rows")" '{ said[$1] = $2 }
    function near(a, b) { return (a - b)^2 <= 1e-10 * b^2 }
    END { d = said["largest_difference"]; exit !(d > 0 && near(row, d) && near(of, d / said["rounding"])) }' ||
    fail "$run: decode/... $(tr '\n' ' ' < "$dir/rows"), eval $(cat "$dir/json")"
done
# In company, too: what decodes has its memory in the run's slab.
printf '%s\n' 'model.attention = mla' 'stabilizers = qk_norm' 'model.width = 16' 'model.heads = 2' 'model.context = 16' \
  'train.batch = 4' 'train.steps = 4' 'record.observe = default+decode' 'train.seed = 1, 2' > "$dir/two.conf"
for together in 1 2; do
  "$program" sweep "$dir/two.conf" sweep.together=$together sweep.dir="$dir/together$together" > "$dir/out" 2>&1 || fail "$together together: $(cat "$dir/out")"
  for run in "$dir/together$together"/*.h5; do "$program" export "$run" decode/difference | tail -1; done > "$dir/rows$together"
done
cmp "$dir/rows1" "$dir/rows2" && ! grep NaN "$dir/rows2" || fail "decoded in company: $(cat "$dir/rows1" "$dir/rows2")"
"$program" export "$dir/prefix.h5" decode/difference > "$dir/out" 2>&1 && fail "a prefix has decode/difference"

for run in mha gqa; do
  "$program" eval --decode=absorbed "$dir/$run.h5" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 || fail "$run absorbed: exit $status"
  grep -q "model.attention = $run" "$dir/err" || fail "$run absorbed: $(cat "$dir/err")"
done
"$program" eval --decode=materialised "$dir/prefix.h5" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "a prefix, token by token: exit $status"
grep -q "model.mask = prefix.*allowed: causal, window" "$dir/err" || fail "a prefix, token by token: $(cat "$dir/err")"
"$program" run -q model.layers=1 model.width=16 model.heads=2 model.context=16 train.batch=2 train.steps=3 train.lr=1e30 train.warmup=0 \
  train.on_nonfinite=continue device.threads=1 record.path="$dir/broken.h5" 2> "$dir/err" || fail "a run that goes on: $(cat "$dir/err")"
"$program" eval --decode=materialised "$dir/broken.h5" > "$dir/out" 2>&1
grep -q ' nan  *nan ' "$dir/out" && ! grep -q -- '-nan' "$dir/out" || fail "weights that are NaN: $(cat "$dir/out")"
"$program" eval --decode=half "$dir/mla.h5" > "$dir/out" 2>&1; status=$?
test $status -eq 2 || fail "--decode=half: exit $status"
finish
