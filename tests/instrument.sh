#!/bin/sh
# Runs of every kind of attention, stabilizer and recording, read again by an independent program (instrument.py).
# Skipped where no python3 has h5py, numpy and torch (Debian: python3-h5py python3-numpy python3-torch).
set -u
source=${top_srcdir:-.}/tests
. "$source/small_runs.sh"
python=$(python_with 'h5py, numpy, torch')
[ "$python" ] || {
  echo "instrument.sh: skipped, ${PYTHON:-python3} has not all of h5py, numpy, torch"
  exit 77
}
failed=0

# run NAME key=value ...
# eps is well above the rounding of a gradient: the direction of an entry that cancels would be rounding alone
run() {
  name=$1
  shift
  "$program" run -q record.path="$dir/$name.h5" record.batches=1 checkpoint.every=1 checkpoint.keep=all \
    record.spectra_every=2 record.probe_every=2 record.pairs=1 record.level=0.5 record.bound=1 train.steps=6 train.batch=6 \
    train.micro_batches=3 train.warmup=3 train.lr=0.05 adam.eps=1e-5 train.seed=7 train.val_every=3 train.val_batches=2 model.width=24 \
    model.heads=4 model.context=20 data=bytes data.path="$source/golden/text.txt" data.packing=documents data.val_fraction=0.3 \
    "$@" 2>"$dir/messages" || {
    cat "$dir/messages"
    failed=1
  }
}

gqa='model.attention=gqa model.kv_heads=2'
mla='model.attention=mla model.q_rank=10 model.kv_rank=10 model.rope_dim=4 model.value_dim=5'
run plain preset=adam
run muon preset=muon train.schedule=cosine train.grad_clip=0.5 model.z_loss=1e-3 model.tied=1
run markov preset=muon data=markov markov.document=7 data.packing=documents record.every=2
run recall optimizer=sgd data=recall data.packing=none sgd.nesterov=1 train.schedule=wsd
for rule in group_max own_q_min_k q_only compensated; do
  run gqa-$rule preset=muonclip qk_clip.tau=1 qk_clip.gqa=$rule model.bias=1 $gqa
done
for rule in exact kr_layer kr_head; do
  run mla-$rule preset=muonclip qk_clip.tau=1 qk_clip.mla=$rule $mla
done
run clip-layer preset=adamclip qk_clip.tau=1 qk_clip.scope=layer qk_clip.maximum=absolute qk_clip.momentum=scale
run clip-probe preset=muonclip qk_clip.tau=1 qk_clip.statistic=probe qk_clip.alpha=0.2
run clip-before preset=muonclip qk_clip.tau=1 qk_clip.when=before
run output preset=muon stabilizers=max_output_clip+qk_clip max_output_clip.tau=1 qk_clip.tau=1 model.bias=1
run quack preset=muon stabilizers=quack $gqa
run quack-mla preset=adam stabilizers=quack $mla
run bound preset=muon stabilizers=bound_clip bound_clip.tau=8 model.bias=1 model.mask=full data.packing=none
run bound-gqa preset=adam stabilizers=bound_clip+soft_cap bound_clip.tau=8 bound_clip.gqa=own_q_min_k model.mask=prefix model.prefix=7 $gqa
run bound-mla preset=muon stabilizers=bound_clip bound_clip.tau=8 model.norm_gain=scalar $mla
run spectral preset=muon stabilizers=spectral_clip+spectral_decay spectral_clip.bound=1.1 spectral_clip.every=2
run spectral-head preset=adam stabilizers=spectral_decay+spectral_clip spectral_clip.bound=1.1 spectral_decay.scope=head \
  spectral_clip.scope=tensor $mla
run sigma preset=muon stabilizers=sigma_reparam
run soft preset=muon stabilizers=soft_cap+quack soft_cap.cap=1 $gqa
run hard preset=adam stabilizers=hard_cap hard_cap.cap=1 override.lr=w_[qk]:0.1 override.optimizer=w_o:sgd
run norm preset=muon stabilizers=qk_norm qk_norm.kind=l2 muon.per_head=qkv override.match=update_rms
run softpick preset=muon stabilizers=softpick+qk_clip qk_clip.tau=1 $gqa
run sigmoid preset=adam stabilizers=sigmoid+qk_clip qk_clip.tau=1 model.norm_gain=scalar
run norm-k preset=adam stabilizers=k_norm $gqa
run gain preset=adam model.norm_gain=zero_centered train.decay_gains=1 $mla
run norm-mla preset=adam stabilizers=qk_norm_partial $mla
moe='model.ffn=moe moe.hidden=8 moe.bias_rate=0.05'
run moe preset=muon moe.experts=6 override.match=update_spectral_norm $moe
run moe-groups preset=muonclip qk_clip.tau=1 moe.experts=12 moe.active=4 moe.groups=3 moe.groups_kept=2 moe.balance=both moe.aux=0.1 \
  moe.bias_rule=centred moe.route_scale=2.5 $moe $mla
run moe-one preset=adam moe.experts=4 moe.active=1 moe.score=softmax moe.bias_rule=rms moe.shared=0 moe.dense_layers=1 $moe
run moe-aux preset=muon stabilizers=sigma_reparam moe.balance=aux moe.aux=0.2 moe.shared=2 $moe
run spike preset=adam train.steps=90 train.lr=1e-4 train.spike=1 record.spectra_every=0 model.layers=1 model.width=8
run nonfinite preset=muonclip stabilizers=qk_clip+max_output_clip train.plant=1:2:1e20 train.on_nonfinite=continue \
  train.steps=3
for rule in group_max compensated; do
  run nonfinite-$rule preset=muonclip qk_clip.tau=1 qk_clip.gqa=$rule train.plant=1:2:1e20 train.on_nonfinite=continue \
    train.steps=2 $gqa
done
run nonfinite-stop preset=muon train.plant=1:2:1e20
$python "$source/instrument.py" "$dir"/*.h5 || failed=1
exit $failed
