#!/bin/sh
# shellcheck disable=SC2086 # lists of settings
# Sequences that are cut over ranks: attention round a ring against the same whole, in single and in double precision; then
# runs. Where weights and inputs are one rank's the maxima are, bit for bit; losses and all else to rounding. Ranks that
# divide the batch besides, shared states, a resume change no bit; a resume with another cut goes on, and the file says so.
cd "${top_builddir:-.}" || exit 99
. "${top_srcdir:-.}/tests/comm/mpirun.sh"
. "${top_srcdir:-.}/tests/small_runs.sh"
program=$PWD/maxlogit
MAXLOGIT_MPI=$PWD/maxlogit_mpi.so
export MAXLOGIT_MPI
for ring in tests/comm/ring tests/comm/ring_d; do
  ranks 4 $ring >"$dir/log" 2>&1 || fail "$ring on 4 ranks: $(head -n 3 "$dir/log")"
done
ranks 2 tests/comm/ring isolated >"$dir/log" 2>&1 || fail "ring, isolated: $(head -n 3 "$dir/log")"

small="model.width=16 model.heads=2 model.context=16 train.batch=8 train.micro_batches=4 train.steps=9 train.warmup=2
  train.lr=0.03 train.val_every=4 train.val_batches=2 record.probe_every=3 record.level=0.5 record.pairs=1
  record.observe=default+outliers record.spectra_every=4 device.threads=1"
run() { "$program" run -q $small "$@" 2>"$dir/log" || fail "one rank: $* $(cat "$dir/log")"; }
on() { n=$1; shift; ranks "$n" "$program" run -q $small "$@" >"$dir/log" 2>&1 || fail "$n ranks: $* $(cat "$dir/log")"; }
same() { tests/same_run "$dir/$1" "$dir/$2" >"$dir/log" 2>&1 || fail "$1 and $2: $(head -n 5 "$dir/log")"; }
rows() { "$program" export "$dir/$1" "$2" | sed '/^#/d'; }
# FILE FILE SERIES ALLOWED: no number of the second is further from the first's than that, relatively
near() {
  rows "$1" "$3" >"$dir/a" && rows "$2" "$3" >"$dir/b"
  [ -s "$dir/a" ] || fail "$1: no $3"
  paste -d ' ' "$dir/a" "$dir/b" | awk -v most="$4" '{
    if (NF % 2) exit 1
    for (i = 1; i <= NF / 2; i++) {
      a = $i; b = $(i + NF / 2)
      if (a != b && (a + 0 != a || b + 0 != b || (a > b ? a - b : b - a) > most * (1 + (a < 0 ? -a : a)))) exit 1
    }}' || fail "$2: $3 is not near that of $1: $(paste "$dir/a" "$dir/b" | head -n 3)"
}
exactly() {
  rows "$1" "$3" >"$dir/a" && rows "$2" "$3" >"$dir/b"
  { [ -s "$dir/a" ] && cmp -s "$dir/a" "$dir/b"; } || fail "$2: $3 is not that of $1: $(paste "$dir/a" "$dir/b" | head -n 3)"
}

# weights that stay, one layer: all steps' maxima to the last bit, of the batch and of the probe
frozen="optimizer=none model.layers=1 train.steps=4"
for mask in causal:4 prefix:2; do
  n=${mask#*:} mask=${mask%:*}
  run $frozen model.mask=$mask record.path="$dir/$mask.h5"
  on $n $frozen model.mask=$mask comm.context=$n record.path="$dir/$mask-$n.h5"
  for series in attn/max_logit attn/max_abs_logit probe/max_logit probe/q_norm probe/k_norm attn/share_above; do
    exactly $mask.h5 $mask-$n.h5 $series
  done
done

# documents in windows, whose keys lie with others: what earlier micro-batches have seen is kept, so that four of them have
# the maxima of one rank's one (MagiAttention's accumulating buffer)
printf 'One two, three.\n\nFour. Five and six.\n\nSeven.\n\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 >"$dir/text"
varlen="$frozen data=bytes data.path=$dir/text data.packing=documents model.mask=window model.window=6 model.attention=gqa
  model.heads=4 model.kv_heads=2 optimizer=none"
run $varlen train.micro_batches=1 record.path="$dir/varlen.h5"
on 4 $varlen comm.context=4 record.path="$dir/varlen-4.h5"
for series in attn/max_logit attn/max_abs_logit; do exactly varlen.h5 varlen-4.h5 $series; done

# what is trained: one rank's to rounding
try() {
  name=$1 n=$2
  shift 2
  run "$@" record.path="$dir/$name.h5"
  on $n "$@" comm.context=$n record.path="$dir/$name-$n.h5"
  for series in loss val_loss grad_norm attn/max_logit attn/entropy probe/max_logit probe/cosine attn/share_above \
    queries/max_abs keys/kurtosis stream/rms; do near $name.h5 $name-$n.h5 $series 2e-5; done
}
try clip 2 preset=muonclip qk_clip.tau=0.3
try documents 4 preset=adam data=bytes data.path="$dir/text" data.packing=documents model.attention=gqa model.heads=4 \
  model.kv_heads=2 stabilizers=qk_norm
try latent 2 preset=muonclip qk_clip.tau=0.3 model.attention=mla model.value_dim=6 model.mask=window model.window=5 \
  model.window_every=2
try experts 4 preset=muon model.ffn=moe moe.experts=4 moe.active=2 moe.balance=bias model.mtp=2 stabilizers=soft_cap \
  soft_cap.cap=3
near experts.h5 experts-4.h5 mtp/loss 2e-5
near experts.h5 experts-4.h5 moe/load 2e-5

# queries and keys are rounded before they go round, logits in every stage
run $frozen precision.qk=bf16 precision.scores=fp16 record.path="$dir/rounded.h5"
on 4 $frozen precision.qk=bf16 precision.scores=fp16 comm.context=4 record.path="$dir/rounded-4.h5"
for series in attn/max_logit attn/max_abs_logit probe/max_logit; do exactly rounded.h5 rounded-4.h5 $series; done
for series in loss grad_norm attn/entropy; do near rounded.h5 rounded-4.h5 $series 2e-5; done
rows causal.h5 attn/max_logit >"$dir/a" && rows rounded-4.h5 attn/max_logit >"$dir/b"
! cmp -s "$dir/a" "$dir/b" || fail "nothing was rounded"

# a NaN, and logits that overflow, are told of the same steps, layers and heads
for gone in train.plant=0:0:1e25 'train.plant=0:1:1e25 train.on_nonfinite=continue' 'train.lr=1e30 train.warmup=0'; do
  for n in 1 4; do
    on $n preset=muonclip $gone comm.context=$n record.path="$dir/gone-$n.h5" record.overwrite=1
    "$program" show "$dir/gone-$n.h5" --events | grep -v checkpoint >"$dir/events-$n" # those are by the clock, too
  done
  grep -q 'nonfinite 1 1' "$dir/events-4" && cmp -s "$dir/events-1" "$dir/events-4" ||
    fail "$gone: other events: $(diff "$dir/events-1" "$dir/events-4")"
done

# what else divides a run changes no bit of it
clip="preset=muonclip qk_clip.tau=0.3 comm.context=2"
on 4 $clip comm.shard=states record.path="$dir/both.h5"
same clip-2.h5 both.h5
on 4 $clip train.steps=4 record.path="$dir/parts.h5"
ranks 2 "$program" resume -q "$dir/parts.h5" train.steps=9 >"$dir/log" 2>&1 || fail "resumed by 2: $(cat "$dir/log")"
same clip-2.h5 parts.h5

# another cut
on 2 $clip train.steps=4 record.path="$dir/other.h5"
"$program" resume -q "$dir/other.h5" train.steps=9 comm.context=1 2>"$dir/log" || fail "alone: $(cat "$dir/log")"
near clip.h5 other.h5 loss 2e-5
"$program" show "$dir/other.h5" --events | grep -q 'context' || fail "no event tells of another cut"
"$program" show "$dir/other.h5" --parameters | grep -q 'comm.context = 2' || fail "another cut has changed what the run is"
"$program" eval "$dir/clip-2.h5" >"$dir/log" 2>&1 || fail "eval: $(cat "$dir/log")"

# a dry run tells who has what
ranks 4 "$program" run -n $small $clip >"$dir/log" 2>&1 || fail "run -n: $(cat "$dir/log")"
for line in 'rank 0: micro-batches 0 to 1; positions 0 to 3 and 12 to 15' \
  'rank 3: micro-batches 2 to 3; positions 4 to 11 of'; do
  grep -q "$line" "$dir/log" || fail "run -n does not say '$line': $(head -n 8 "$dir/log")"
done

refused() {
  want=$1
  shift
  "$@" >"$dir/log" 2>&1
  status=$?
  [ $status = 2 ] || fail "$*: exit $status"
  [ "$(grep -c "$want" "$dir/log")" = 1 ] || fail "$*: not once '$want': $(cat "$dir/log")"
}
refused 'comm.context = 2, and 1 rank is there' "$program" run $small comm.context=2 record.path="$dir/no.h5"
refused 'comm.context = 4, and 2 ranks are there' ranks 2 "$program" run $small comm.context=4 record.path="$dir/no.h5"
refused 'comm.context = 3: allowed is a power of two' ranks 3 "$program" run $small comm.context=3 record.path="$dir/no.h5"
refused 'cannot cut model.context = 18' ranks 2 "$program" run $small comm.context=2 model.context=18 record.path="$dir/no.h5"
refused 'sink looks at whole sequences' ranks 2 "$program" run $small comm.context=2 record.observe=sink record.path="$dir/no.h5"
for cure in learned_sink pointwise sigmoid softpick ssmax; do
  refused "$cure makes weights of whole rows" ranks 2 "$program" run $small comm.context=2 stabilizers=$cure \
    record.path="$dir/no.h5"
done
refused 'the loss of balance is that of whole sequences' ranks 2 "$program" run $small comm.context=2 model.ffn=moe \
  moe.balance=both record.path="$dir/no.h5"
# the same run again wants the same cut
ranks 4 "$program" rerun "$dir/clip-2.h5" record.probe_every=1 >"$dir/log" 2>&1 && grep -q 'the same to the bit' "$dir/log" ||
  fail "rerun on 4 ranks: $(cat "$dir/log")"
refused 'comm.context = 2, and 1 rank is there.*multiples of it$' "$program" rerun "$dir/clip-2.h5"
refused 'from step 4 on this run had comm.context = 1' "$program" rerun "$dir/other.h5"
refused 'comm.context = 2, and 1 rank is there' "$program" resume "$dir/other.h5" train.steps=12
[ ! -e "$dir/no.h5" ] || fail "a refused run has left a file"
finish
