#!/bin/sh
# spectra of the last checkpoint are those that the run file's last row has: another road to the same numbers
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
small_run mha preset=muonclip qk_clip.tau=2
small_run gqa preset=muon model.attention=gqa model.heads=4 model.kv_heads=2

# last FILE SERIES: head and value of its last row, a line each
last() {
  "$program" export "$1" "$2" | awk '/^# step/ { for (i = 3; i <= NF; i++) head[i - 1] = $i } !/^#/ { row = $0 }
    END { n = split(row, x, " "); for (i = 2; i <= n; i++) print head[i], x[i] }'
}

# six numbers close a line of spectra; the record has them in single precision
for run in mha gqa; do
  "$program" spectra "$dir/$run.h5" > "$dir/spectra" 2> "$dir/err" || fail "spectra: $(cat "$dir/err")"
  for object in head_q:w_q head_k:w_k head_qk:'w_q^T w_k'; do
    field=0
    for name in spectral_norm frobenius_norm svd_entropy effective_rank_p effective_rank_r stable_rank; do
      field=$((field + 1))
      last "$dir/$run.h5" "${object%%:*}/$name" > "$dir/wanted"
      test "$(grep -c . "$dir/wanted")" -gt 3 || fail "$run: no record of ${object%%:*}/$name"
      while read -r head value; do
        awk -v start="$head ${object#*:} " -v field=$field -v value="$value" 'index($0, start) == 1 {
          found = 1; off = $(NF - 6 + field) - value; if (off < 0) off = -off
          if (!(off <= 2e-4 * value + 1e-6)) { print; exit 1 } } END { exit !found }' \
          "$dir/spectra" > "$dir/off" || fail "$run: $head $object $name is $value: $(cat "$dir/off")"
      done < "$dir/wanted"
    done
  done
done

# checkpoints of others: a table, the same as JSON, one clear message where something is wrong
others=$srcdir/tests/checkpoints
"$program" spectra "$others/deepseek_v3" > "$dir/table" 2> "$dir/err" || fail "deepseek_v3: $(cat "$dir/err")"
test ! -s "$dir/err" || fail "deepseek_v3 says $(cat "$dir/err")"
for wanted in 'family deepseek_v3: 2 layers, 4 heads' 'l1h3 w_qr^T w_kr' 'experts.*.up_proj (3) median' 'content'; do
  grep -qF "$wanted" "$dir/table" || fail "deepseek_v3: no $wanted"
done
"$program" spectra --threads=1 "$others/deepseek_v3" | cmp -s - "$dir/table" || fail "other numbers on one thread"
"$program" spectra --json "$others/deepseek_v3" "$others/gpt2/model.safetensors" > "$dir/json" || fail "no JSON"
for wanted in '"family": "gpt2"' '"bound":' '"query bias":' '"experts": [{"name": "model.layers.1.mlp.experts.*.gate_proj"'; do
  grep -qF "$wanted" "$dir/json" || fail "JSON without $wanted"
done
"$program" spectra --only=heads "$others/bert" > "$dir/heads"
grep -q '^bert.encoder' "$dir/heads" && fail "--only=heads has matrices"
grep -q '^l1h3 w_q ' "$dir/heads" || fail "--only=heads has no heads"
"$program" spectra --only=matrices "$others/bert" > "$dir/heads"
grep -q '^l1h3' "$dir/heads" && fail "--only=matrices has heads"

# the same numbers as a file that export, plot and show read
"$program" spectra "$others/deepseek_v3" -o "$dir/numbers.h5" > "$dir/table" || fail "-o"
"$program" export "$dir/numbers.h5" attn/bound head_qkr/spectral_norm --layer=1 --head=2 > "$dir/out" 2> "$dir/err" ||
  fail "export of a checkpoint's spectra: $(cat "$dir/err")"
set -- $(grep -v '^#' "$dir/out")
awk -v bound="$2" -v norm="$3" '
  $1 == "l1h2" && $2 == "w_qr^T" { near(norm, $5) } $1 == "l1h2" && NF == 6 { near(bound, $3) }
  function near(a, b) { n++; if (!(a > b * 0.9999 && a < b * 1.0001)) { print a, b; bad = 1 } }
  END { exit bad || n != 2 }' "$dir/table" || fail "the file has other numbers: $*"
"$program" export "$dir/numbers.h5" experts_q100/spectral_norm | grep -q 'mlp.experts.\*.up_proj' || fail "no experts in the file"
"$program" show "$dir/numbers.h5" | grep -q deepseek_v3 || fail "show does not name the family"
"$program" show "$dir/numbers.h5" | grep -qi nan && fail "show has numbers of no training: $("$program" show "$dir/numbers.h5")"
"$program" show "$dir/numbers.h5" --of loss 2>&1 | grep -q 'did you mean loss' && fail "the series that is missing is offered"
if command -v gnuplot > /dev/null 2>&1; then
  "$program" plot "$dir/numbers.h5" -o "$dir/figures" > /dev/null 2> "$dir/err" || fail "plot: $(cat "$dir/err")"
  test -s "$dir/figures/bounds.svg" || fail "no bounds.svg"
  "$program" plot -t "$dir/numbers.h5" > "$dir/out" 2> "$dir/err" || fail "plot -t: $(cat "$dir/err")"
  grep -q 'Bound on |logit|' "$dir/out" || fail "plot -t draws something else"
fi
"$program" spectra "$others/gpt2" -o "$dir/numbers.h5" > "$dir/out" 2> "$dir/err"
test $? -eq 2 && grep -q 'give another name' "$dir/err" || fail "-o replaces a file, or says what is of runs"

# refused WANTED ARGUMENT ...: one line, status 2
refused() {
  wanted=$1; shift
  "$program" spectra "$@" > "$dir/out" 2> "$dir/err"
  test $? -eq 2 || fail "spectra $*: no status 2"
  test ! -s "$dir/out" || fail "spectra $*: wrote $(cat "$dir/out")"
  test "$(grep -c . "$dir/err")" -eq 1 || fail "spectra $*: not one line: $(cat "$dir/err")"
  grep -qF -- "$wanted" "$dir/err" || fail "spectra $*: $(cat "$dir/err")"
}
mkdir "$dir/cut" "$dir/shards"
head -c 300 "$others/llama/model.safetensors" > "$dir/cut/model.safetensors"
refused 'cut short' "$dir/cut"
"$program" spectra "$dir/cut" "$others/qwen2" "$others/llama" > "$dir/out" 2> "$dir/err"
test $? -eq 1 && grep -q '^# .*qwen2' "$dir/out" && grep -q '^# .*llama' "$dir/out" && grep -q 'cut short' "$dir/err" && test "$(grep -c . "$dir/err")" -eq 1 ||
  fail "a damaged file hides the others: $(cat "$dir/out" "$dir/err")"
cp "$others/deepseek_v3"/*.json "$others/deepseek_v3"/model-0000[13]-of-00003.safetensors "$dir/shards"
refused 'its shard model-00002-of-00003.safetensors is missing' "$dir/shards"
refused 'No such file' "$dir/absent.safetensors"
refused 'allowed for 6 heads of 6' --set=num_attention_heads=6 "$others/llama"
refused 'KEY=VALUE' --set=12 "$others/llama"
cp "$others/qwen2/model.safetensors" "$dir/cut/model.safetensors"
refused 'num_attention_heads is wanted' "$dir/cut/model.safetensors"
"$program" spectra --set=num_attention_heads=4 --set=head_dim=6 "$dir/cut" > "$dir/out" 2> "$dir/err" || fail "by names: $(cat "$dir/err")"
grep -q 'read as qwen2 by the tensors' "$dir/err" && test "$(grep -c . "$dir/err")" -eq 1 || fail "by names: no warning"
grep -q '^l1h3 w_q ' "$dir/out" && ! grep -q '^# |logit|' "$dir/out" || fail "by names: a bound, or no spectra"
"$program" spectra --json --set=logit_scale=2 "$others/llama" > "$dir/out" 2> "$dir/err" || fail "an unknown factor: $(cat "$dir/err")"
grep -q 'no bounds on logits: logit_scale of config.json could change them' "$dir/err" && grep -q '"bound": "NaN"' "$dir/out" ||
  fail "an unknown factor: $(cat "$dir/err")"
"$program" spectra --set=logit_scale=2 "$others/llama" -o "$dir/unbounded.h5" > "$dir/out" 2> "$dir/err" || fail "-o without bounds"
"$program" show "$dir/unbounded.h5" | grep -qi nan && fail "show of spectra without bounds: $("$program" show "$dir/unbounded.h5")"

# our own checkpoint for other tools, and back
small_run latent preset=muon model.attention=mla model.q_rank=8 train.steps=3 train.warmup=1
"$program" export "$dir/latent.h5" --safetensors > "$dir/out" 2> "$dir/err" || fail "export --safetensors: $(cat "$dir/err")"
test -s "$dir/latent.safetensors/config.json" || fail "no config.json"
"$program" spectra --only=heads "$dir/latent.h5" | grep -v '^# /' > "$dir/wanted"
"$program" spectra --only=heads "$dir/latent.safetensors" | grep -v '^# /' > "$dir/out"
awk 'NR == FNR { line[FNR] = $0; next }
  { n = split(line[FNR], a); if (n != NF) exit 1
    for (i = 1; i <= NF; i++) if ($i != a[i] && !($i > a[i] * 0.9999 && $i < a[i] * 1.0001)) { print; exit 1 } }
  END { exit FNR < 20 }' "$dir/wanted" "$dir/out" || fail "other numbers in the naming of DeepSeek-V3"
small_run capped preset=muon stabilizers=soft_cap train.steps=3 train.warmup=1
"$program" export "$dir/capped.h5" --safetensors > "$dir/out" 2> "$dir/err"
test $? -eq 2 && grep -q 'soft_cap changes what the model computes' "$dir/err" || fail "a capped model goes out: $(cat "$dir/err")"
for other in model.mask=full model.mask=window model.mask=prefix precision.qk=bf16 precision.scores=bf16; do
  small_run other preset=adam train.steps=3 train.warmup=1 record.overwrite=1 $other
  "$program" export "$dir/other.h5" --safetensors="$dir/other" > "$dir/out" 2> "$dir/err"
  test $? -eq 2 && grep -q "${other%%[.=]*}.* is exported .*; allowed: " "$dir/err" && test ! -e "$dir/other" || fail "$other goes out: $(cat "$dir/err")"
done
small_run full preset=muon stabilizers=qk_norm qk_norm.kind=l2 train.steps=3 train.warmup=1
"$program" export "$dir/full.h5" --safetensors="$dir/full" > "$dir/out" 2> "$dir/err"
test $? -eq 2 && grep -q 'attn.qk_scale has no place' "$dir/err" || fail "unit queries go out: $(cat "$dir/err")"
test ! -e "$dir/full/model.safetensors" || fail "a refused export wrote a file"

# the checkpoints of a run that was at the name of the output stay
small_run stays train.steps=4 train.warmup=0 checkpoint.every=2
mv "$dir/stays.h5" "$dir/moved.h5"
"$program" spectra "$dir/stays.ckpt/step-00000004.h5" -o "$dir/stays.h5" > "$dir/out" 2> "$dir/err" && fail "spectra over checkpoints of another run"
grep -q 'stays.ckpt is of a run that was at' "$dir/err" && test "$(ls "$dir/stays.ckpt")" || fail "checkpoints of another run: $(cat "$dir/err")"

# of weights that are lost: a NaN has no sign
small_run lost train.lr=1e30 train.warmup=0
"$program" spectra "$dir/lost.h5" > "$dir/out" 2> "$dir/err" || fail "spectra of lost weights: $(cat "$dir/err")"
grep -q ' nan' "$dir/out" && ! grep -q -e '-nan' "$dir/out" || fail "spectra of lost weights: $(cat "$dir/out")"
finish
