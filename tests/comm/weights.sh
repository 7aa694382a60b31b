#!/bin/sh
# shellcheck disable=SC2086 # lists of settings
# With comm.shard=weights a rank has its pieces of weights, gradients, directions and states, and the run the bits of one
# rank that has all: whatever reads a parameter in a pass, adds to its gradient, clips or records it; resumed on another
# number; of its memory theory is true; what wants whole matrices is refused by name.
cd "${top_builddir:-.}" || exit 99
. "${top_srcdir:-.}/tests/comm/mpirun.sh"
. "${top_srcdir:-.}/tests/small_runs.sh"
program=$PWD/maxlogit
small="model.width=16 model.heads=2 model.context=16 train.batch=4 train.micro_batches=4 train.steps=5 train.warmup=1
  train.lr=0.03 train.val_every=2 train.val_batches=1 record.probe_every=3 record.level=0.5 record.spectra_every=2
  device.threads=1"
same() { tests/same_run "$dir/$1" "$dir/$2" >"$dir/log" 2>&1 || fail "$1 and $2: $(head -n 5 "$dir/log")"; }
try() {
  name=$1 count=$2
  shift 2
  "$program" run -q $small "$@" record.path="$dir/$name.h5" 2>"$dir/log" || fail "one rank: $* $(cat "$dir/log")"
  for n in $count; do
    ranks "$n" "$program" run -q $small "$@" comm.shard=weights checkpoint.every=2 record.path="$dir/$name-$n.h5" \
      >"$dir/log" 2>&1 || fail "$n ranks: $* $(cat "$dir/log")"
    same "$name.h5" "$name-$n.h5"
  done
}
# Muon's matrices are whole, Adam's pieces end within heads and within what the gradient's norm adds up at a time
try whole "2 4" preset=muonclip qk_clip.tau=0.3 qk_clip.momentum=scale
try pieces "2 4" preset=adamclip qk_clip.tau=0.3 qk_clip.momentum=scale qk_clip.when=before model.bias=1 record.bound=1
try long 2 preset=muonclip qk_clip.tau=0.3 model.width=96 model.layers=3 train.steps=2
# more ranks than cores, each with pieces of few rows
try eight 8 preset=muonclip qk_clip.tau=0.3 qk_clip.momentum=scale train.batch=8 train.micro_batches=8 train.steps=3
# every way of a parameter into a pass: shared keys, latents, experts, one matrix in two places, modules, norms and gates
try grouped 2 preset=muonclip qk_clip.tau=0.3 model.attention=gqa model.kv_heads=1 model.ffn=moe moe.experts=4 moe.active=2 \
  moe.balance=both model.mtp=1
try latent 2 preset=muonclip qk_clip.tau=0.3 model.attention=mla optimizer=sgd train.lr=0.1
try tied 2 preset=adam model.tied=1 model.mtp=1 train.grad_clip=0.5 override.optimizer=w_q:muon+w_o:sgd
try seen 2 preset=muon stabilizers=sigma_reparam+qk_norm+output_gate
# heads divided over ranks: of each layer some are clipped and some are not, by every rule, to the weights of one that has
# all (what Megatron's tests of clip_qk ask of heads that are divided over tensor-parallel ranks)
clipped() {
  name=$1
  shift
  try "$name" 4 optimizer=none stabilizers=qk_clip qk_clip.tau=40 model.heads=4 model.width=32 train.steps=3 \
    train.plant='0:1:9+0:2:7+1:0:9' "$@"
  "$program" export "$dir/$name.h5" qk_clip/gamma | awk '!/^#/ { for (i = 2; i <= NF; i++) $i < 1 ? ++clipped : ++kept }
    END { exit !(clipped && kept) }' || fail "$name: not some heads clipped and some kept"
}
clipped heads qk_clip.maximum=absolute
clipped layers qk_clip.scope=layer train.plant='0:1:9'
for rule in group_max own_q_min_k q_only compensated; do
  clipped $rule qk_clip.gqa=$rule model.attention=gqa model.kv_heads=2 qk_clip.alpha=0.3
done
for rule in exact kr_layer kr_head; do clipped mla-$rule qk_clip.mla=$rule model.attention=mla qk_clip.when=before; done
# skipped steps: all ranks see the NaN of one
try gone "2 4" preset=muonclip train.lr=1e30 train.warmup=0

# resumed by others, and alone
ranks 4 "$program" run -q $small preset=muonclip qk_clip.tau=0.3 qk_clip.momentum=scale train.steps=2 comm.shard=weights \
  record.path="$dir/half.h5" >"$dir/log" 2>&1 || fail "half: $(cat "$dir/log")"
"$program" resume -q "$dir/half.h5" train.steps=3 2>"$dir/log" || fail "resumed alone: $(cat "$dir/log")"
ranks 2 "$program" resume -q "$dir/half.h5" train.steps=5 >"$dir/log" 2>&1 || fail "resumed by 2: $(cat "$dir/log")"
same whole.h5 half.h5
ranks 2 "$program" run -q $small preset=adam train.init_from="$dir/whole.h5" train.plant=0:1:3 comm.shard=weights \
  record.path="$dir/on-2.h5" >"$dir/log" 2>&1 || fail "begun from a run: $(cat "$dir/log")"
"$program" run -q $small preset=adam train.init_from="$dir/whole.h5" train.plant=0:1:3 record.path="$dir/on.h5" ||
  fail "begun from a run, alone"
same on.h5 on-2.h5

# weights, gradients, directions and two moments: a quarter each of four ranks; a layer at a time in the passes, where
# the others want room to sum all gradients
memory() { ranks "$1" "$program" run -n optimizer=adam model.width=128 model.layers=12 model.context=8 train.batch=4 \
  train.micro_batches=4 record.spectra_every=0 comm.shard="$2" | sed -n 's/^# memory.* \([0-9.]*\) for weights.* \([0-9.]*\) for the opt.* \([0-9.]*\) for the passes.*/\1 \2 \3/p'; }
one=$(memory 1 weights) four=$(memory 4 weights) whole=$(memory 4 states)
echo "$one $four $whole" | awk '{ exit !($1 > 15 && $4 < 0.27 * $1 && $4 > 0.24 * $1 && $5 < 0.27 * $2 && $5 > 0.24 * $2 &&
  $6 < $9 - 0.25 * $1) }' || fail "memory of one rank $one MiB, of each of four $four, of states alone $whole"

refused() {
  want=$1
  shift
  ranks ${on:-2} "$program" run $small comm.shard=weights record.path="$dir/no.h5" "$@" >"$dir/log" 2>&1
  status=$?
  [ $status = 2 ] || fail "$*: exit $status"
  [ "$(grep -c "$want" "$dir/log")" = 1 ] || fail "$*: not once '$want': $(cat "$dir/log")"
  [ ! -e "$dir/no.h5" ] || fail "$*: a refused run has left a file"
}
refused 'comm.shard = weights with comm.context = 2' comm.context=2
on=3 refused '3 ranks cannot divide train.micro_batches = 4'
on=3 refused 'comm.shard = weights with train.micro_batches = 3' train.batch=3 train.micro_batches=3
refused 'comm.shard = weights with device = isolated' device=isolated
refused 'comm.shard = weights with train.micro_batches = 6' train.batch=6 train.micro_batches=6
refused 'comm.shard = weights with override.match' override.match=update_rms
for s in bound_clip hyperball quack spectral_clip spectral_decay spectral_sphere spectral_tangent stiefel; do
  refused "stabilizers: $s changes whole matrices" stabilizers=$s
done
finish
