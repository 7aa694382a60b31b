#!/bin/sh
# shellcheck disable=SC2086 # lists of settings
# A run divided among ranks has the bits of one rank: on 2, 4 and 8, stopped and resumed on another number, with whatever
# adds something up over micro-batches; what cannot be divided, and what no launcher has started, is said.
cd "${top_builddir:-.}" || exit 99
. "${top_srcdir:-.}/tests/comm/mpirun.sh"
. "${top_srcdir:-.}/tests/small_runs.sh"
program=$PWD/maxlogit
small="model.width=16 model.heads=2 model.context=16 train.batch=8 train.micro_batches=8 train.steps=9 train.warmup=2
  train.lr=0.03 train.val_every=4 train.val_batches=2 record.probe_every=3 record.level=0.5 record.pairs=1
  record.observe=default+outliers+sink+momentum record.spectra_every=4 device.threads=1"
run() { "$program" run -q $small "$@" 2>"$dir/log" || fail "one rank: $* $(cat "$dir/log")"; }
on() { n=$1; shift; ranks "$n" "$program" run -q $small "$@" >"$dir/log" 2>&1 || fail "$n ranks: $* $(cat "$dir/log")"; }
same() { tests/same_run "$dir/$1" "$dir/$2" >"$dir/log" 2>&1 || fail "$1 and $2: $(head -n 5 "$dir/log")"; }

refused() {
  want=$1; shift
  "$@" >"$dir/log" 2>&1
  status=$?
  [ $status = 2 ] || fail "$*: exit $status"
  [ "$(grep -c "$want" "$dir/log")" = 1 ] || fail "$*: not once '$want': $(cat "$dir/log")"
}

# every kind of sum and maximum; 6: an odd rest
try() {
  name=$1 count=$2
  shift 2
  run "$@" record.path="$dir/$name.h5"
  for n in $count; do
    on "$n" "$@" record.path="$dir/$name-$n.h5"
    same "$name.h5" "$name-$n.h5"
  done
}
try clip "2 4 8" preset=muonclip qk_clip.tau=0.3
try odd 2 preset=adam train.batch=6 train.micro_batches=6 train.grad_clip=0.5
try experts 4 preset=muonclip qk_clip.tau=0.3 model.attention=gqa model.kv_heads=1 model.ffn=moe moe.experts=4 moe.active=2 \
  moe.balance=both model.mtp=1
try heard 2 preset=muon stabilizers=max_output_clip+quack

# one micro-batch a rank, and layers large enough: sums of gradients beside the reverse pass
large="model.width=96 model.layers=3 train.batch=4 train.micro_batches=4 train.steps=6"
try early 4 preset=muonclip qk_clip.tau=0.3 $large train.grad_clip=0.5
try tied 2 preset=adamclip qk_clip.tau=0.3 $large train.batch=2 train.micro_batches=2 model.tied=1 model.mtp=1
try lost 4 preset=adam $large train.lr=1e30 train.warmup=0
# and on 8 ranks, more than cores; begun there, gone on with by one, ended there
eight="preset=muonclip qk_clip.tau=0.3 $large train.batch=8 train.micro_batches=8"
try eight "2 4 8" $eight
on 8 $eight train.steps=2 record.path="$dir/eighths.h5"
"$program" resume -q "$dir/eighths.h5" train.steps=4 2>"$dir/log" || fail "resumed alone: $(cat "$dir/log")"
ranks 8 "$program" resume -q "$dir/eighths.h5" train.steps=6 >"$dir/log" 2>&1 || fail "resumed by 8: $(cat "$dir/log")"
same eight.h5 eighths.h5
if [ -n "$MAXLOGIT_TEST_LONG" ]; then # whole runs, of all ways of an update; each on every number of ranks in turn
  for way in "preset=muonclip qk_clip.tau=0.3 train.grad_clip=0.5" "preset=adamclip qk_clip.tau=0.3 comm.shard=states" \
    "preset=muonclip qk_clip.tau=0.3 model.attention=gqa model.kv_heads=1 comm.shard=states"; do
    long="$way $large train.batch=8 train.micro_batches=8 train.steps=60 checkpoint.every=20"
    rm -f "$dir"/long*.h5 "$dir/turns.h5"
    try long "2 4 8" $long
    on 8 $long train.steps=12 record.path="$dir/turns.h5"
    for turn in 4:24 2:36 1:48 8:60; do
      ranks ${turn%:*} "$program" resume -q "$dir/turns.h5" train.steps=${turn#*:} >"$dir/log" 2>&1 ||
        fail "$way: resumed by ${turn%:*}: $(cat "$dir/log")"
    done
    same long.h5 turns.h5
  done
fi

# what is planted to diverge does so in the same step
try nan 2 preset=adam train.lr=1e30 train.warmup=0

# optimizers' states shared out: pieces end within heads, matrices are whole; a clip scales their momenta, too
shared() {
  name=$1 count=$2
  shift 2
  run "$@" record.path="$dir/$name.h5"
  for n in $count; do
    on "$n" "$@" comm.shard=states checkpoint.every=4 checkpoint.keep=all record.path="$dir/$name-$n.h5"
    same "$name.h5" "$name-$n.h5"
  done
}
shared whole 4 preset=muonclip qk_clip.tau=0.3 qk_clip.momentum=scale
shared pieces "2 4" preset=adamclip qk_clip.tau=0.3 qk_clip.momentum=scale qk_clip.when=before model.bias=1
shared gone 2 preset=adam train.lr=1e30 train.warmup=0
shared beside 4 preset=muonclip qk_clip.tau=0.3 $large
shared latent 2 optimizer=sgd train.lr=0.1 model.attention=mla
on 4 preset=adamclip qk_clip.tau=0.3 qk_clip.momentum=scale qk_clip.when=before model.bias=1 train.steps=4 comm.shard=states \
  record.path="$dir/half.h5"
ranks 2 "$program" resume -q "$dir/half.h5" train.steps=9 >"$dir/log" 2>&1 || fail "shared by 2: $(cat "$dir/log")"
same pieces.h5 half.h5
memory() { ranks "$1" "$program" run -n optimizer=adam model.width=128 train.micro_batches=4 comm.shard=states |
  sed -n 's/.* \([0-9.]*\) for the optimizers.*/\1/p'; }
# directions and two moments of each number: 3 of them, and 1 + 2/4
one=$(memory 1) four=$(memory 4)
awk -v one="$one" -v four="$four" 'BEGIN { exit !(one > 1 && four < 0.55 * one && four > 0.45 * one) }' ||
  fail "memory of states: $one MiB, and $four of each of 4 ranks"

# bench tells what goes over the wire against the least: nothing less, and by micro-batches and round the ring no more;
# shared out, directions go besides; of weights, whole matrices make unequal parts
ranks 2 "$program" bench --stack=toy -t 1e-3 --json >"$dir/bench" 2>"$dir/log" || fail "bench: $(cat "$dir/log")"
tr '{' '\n' <"$dir/bench" | sed -n 's/.*"divided": "\([^"]*\)".*"sent_bytes": \([0-9.]*\), "least_bytes": \([0-9.]*\).*/\2 \3 \1/p' |
  awk '{ most = $4 == "states" ? 1.6 : $4 == "weights" ? 1.2 : 1.01 }
    $1 < $2 || $1 > most * $2 { wrong = 1 }
    END { exit wrong || NR != 8 }' || fail "bench: $(cat "$dir/bench")"
refused 'bench on 2 ranks: of steps' ranks 2 "$program" bench --products

# stopped, and resumed on another number
on 4 preset=muonclip qk_clip.tau=0.3 train.steps=4 record.path="$dir/parts.h5"
"$program" resume -q "$dir/parts.h5" train.steps=6 2>"$dir/log" || fail "resumed alone: $(cat "$dir/log")"
ranks 2 "$program" resume -q "$dir/parts.h5" train.steps=9 >"$dir/log" 2>&1 || fail "resumed by 2: $(cat "$dir/log")"
same clip.h5 parts.h5

# the same run again, on other ranks, from a checkpoint, too; rank 0 alone has its files
again() { # RANKS RUN ...
  n=$1
  shift
  ranks "$n" "$program" rerun "$@" >"$dir/log" 2>&1 && [ "$(grep -c 'the same to the bit' "$dir/log")" = 1 ] ||
    fail "rerun on $n ranks: $* $(cat "$dir/log")"
}
again 2 "$dir/clip-4.h5" record.probe_every=1 -o "$dir/again.h5"
same clip.h5 clip-4.h5
again 4 "$dir/pieces-4.h5" record.probe_every=1 --from 5
"$program" export "$dir/pieces-4.h5" probe/max_logit | grep -q '^7 ' || fail "rerun on 4 ranks has recorded nothing more"
refused 'again.h5 exists' ranks 2 "$program" rerun "$dir/clip.h5" -o "$dir/again.h5"

# refused, once
refused '3 ranks cannot divide train.micro_batches = 8' ranks 3 "$program" run $small record.path="$dir/no.h5"
refused '2 ranks cannot divide train.micro_batches = 1' ranks 2 "$program" run record.path="$dir/no.h5"
refused 'comm.ranks = 4, and 1 is there' "$program" run $small comm.ranks=4 record.path="$dir/no.h5"
refused 'comm.ranks = 4, and 2 are there' ranks 2 "$program" run $small comm.ranks=4 record.path="$dir/no.h5"
refused 'train.lrr' ranks 2 "$program" run train.lrr=1 record.path="$dir/no.h5"
refused 'clip.h5 exists' ranks 2 "$program" run $small record.path="$dir/clip.h5"
[ ! -e "$dir/no.h5" ] || fail "a refused run has left a file"
MAXLOGIT_MPI=/nonexistent.so
export MAXLOGIT_MPI
# Open MPI 5 ends all as soon as one has ended, though another one has yet to tell why
# shellcheck disable=SC2016 # of the inner shell
refused 'MPI module cannot be loaded' ranks 2 sh -c 'case $(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1) in
  0) sleep 0.5 ;; esac; exec "$@"' sh "$program" run $small record.path="$dir/no.h5"
"$program" run -q $small record.path="$dir/alone.h5" preset=muonclip qk_clip.tau=0.3 || fail "without MPI"
same clip.h5 alone.h5
finish
