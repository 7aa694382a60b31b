#!/usr/bin/env python3
"""Golden values from an independent implementation: PyTorch in float64.

    python3 tests/golden/make_golden.py ./maxlogit tests/golden [CASE ...]

For every case below the program is run for its batches only (record.batches=1); weights are drawn here again
(Philox4x32-10, Box-Muller), and the run is repeated by replay.py. Files of CASES hold, per step, the loss, the
gradient norm and every head's max logit; those of SERIES, in the folder series, every series and event of short
runs. Beside each value stands how far PyTorch's own float32 run is from its float64 run: the C test allows a
float32 build a multiple of that, and a float64 build only rounding.

Needed to make the files, never to build or test. h5py, numpy, torch.
"""
import datetime
import math
import subprocess
import sys
import tempfile

import numpy as np
import torch

sys.dont_write_bytecode = True  # the source stays as it was distributed
from replay import SETS, Run, RunFile, declared  # noqa: E402

BASE = ("data=markov train.steps=20 train.batch=4 train.warmup=5 train.lr=0.02 train.seed=3 model.layers=2 "
        "model.width=32 model.heads=4 model.context=24 train.val_every=0 device.threads=1")
MLA = "model.attention=mla model.q_rank=12 model.kv_rank=10 model.rope_dim=4 model.value_dim=6"
CASES = {
    "adam-mha": "preset=adam",
    "muon-mha": "preset=muon",
    "adam-gqa": "preset=adam model.attention=gqa model.kv_heads=2",
    "muon-gqa": "preset=muon model.attention=gqa model.kv_heads=2",
    "sgd-mha": "optimizer=sgd",
    "lion-mha": "preset=lion train.lr=0.003",
    "lionclip-gqa": "preset=lionclip qk_clip.tau=1.5 train.lr=0.003 model.attention=gqa model.kv_heads=2",
    "signum-mha": "preset=signum train.lr=0.003",
    "normuon-mha": "preset=normuon",
    "normuonclip-split": "preset=normuonclip qk_clip.tau=1.5 normuon.per_head=qk normuon.nesterov=0 " + MLA,
    "adamuon-mha": "preset=adamuon",
    "adamuonclip-gqa": "preset=adamuonclip qk_clip.tau=1.5 adamuon.per_head=qkv model.attention=gqa model.kv_heads=2",
    "namo-mha": "preset=namo",
    "namoclip-moe": "preset=namoclip qk_clip.tau=1.5 namo.eps=1e-3 namo.beta2=0.8 model.ffn=moe moe.experts=4",
    "polargrad-mha": "preset=polargrad",
    "polargradclip-svd": "preset=polargradclip qk_clip.tau=1.5 polargrad.coefficients=svd polargrad.per_head=qk",
    # square matrices, whose products have full rank, and an eps that hides directions without a gradient
    "soap-square": "preset=soap soap.every=3 soap.eps=1e-3 model.ffn_width=32",
    "soapclip-moe": "preset=soapclip qk_clip.tau=1.5 soap.every=0 soap.beta1=0.8 model.ffn=moe moe.experts=4",
    "compositional-mha": "preset=compositional",
    "compositionalclip-gqa": "preset=compositionalclip qk_clip.tau=1.5 compositional.damping=0.3 compositional.coefficients=svd "
                             "compositional.nesterov=0 model.attention=gqa model.kv_heads=2",
    "compositional-mla": "preset=compositional " + MLA,
    # an embedding of the shape of hidden matrices
    "scion-mha": "preset=scion markov.symbols=48 model.ffn_width=48",
    "scionclip-moe-bias": "preset=scionclip qk_clip.tau=1.5 scion.radius_head=20 scion.radius_gain=0.5 scion.coefficients=svd "
                          "scion.momentum=0.8 model.bias=1 train.decay_gains=1 model.ffn=moe moe.experts=4",
    "dion-mha": "preset=dion",
    "dionclip-moe": "preset=dionclip qk_clip.tau=1.5 qk_clip.momentum=scale dion.momentum=0.8 dion.rank=0.6 model.ffn=moe moe.experts=4",
    "klshampoo-square": "preset=klshampoo klshampoo.every=3 klshampoo.eps=1e-3 model.ffn_width=32",
    "klshampooclip-moe": "preset=klshampooclip qk_clip.tau=1.5 klshampoo.every=0 klshampoo.beta1=0.8 klshampoo.eps=1e-3 "
                         "klshampoo.beta2=0.8 model.ffn=moe moe.experts=4",
    "muonclip-head": "preset=muonclip qk_clip.tau=1.5 qk_clip.alpha=0.3",
    "muonclip-layer": "preset=muonclip qk_clip.tau=1.5 qk_clip.scope=layer",
    "muonclip-gqa-group_max": "preset=muonclip qk_clip.tau=1.5 model.attention=gqa model.kv_heads=2 qk_clip.gqa=group_max",
    "muonclip-gqa-own_q_min_k": "preset=muonclip qk_clip.tau=1.5 model.attention=gqa model.kv_heads=2 qk_clip.gqa=own_q_min_k",
    "muonclip-gqa-q_only": "preset=muonclip qk_clip.tau=1.5 model.attention=gqa model.kv_heads=2 qk_clip.gqa=q_only",
    "muonclip-gqa-compensated": "preset=muonclip qk_clip.tau=1.5 model.attention=gqa model.kv_heads=2 qk_clip.gqa=compensated",
    "adamclip-bias": "preset=adamclip qk_clip.tau=1.5 model.bias=1",
    "norm_gain-scalar": "preset=muonclip qk_clip.tau=1.5 model.norm_gain=scalar model.mtp=1 train.weight_decay=0.5 train.decay_gains=1",
    "norm_gain-none": "preset=adam model.norm_gain=none " + MLA,
    "norm_gain-zero_centered": "preset=adam model.norm_gain=zero_centered train.weight_decay=0.5 train.decay_gains=1 " + MLA,
    "muon-soft_cap": "preset=muon stabilizers=soft_cap soft_cap.cap=2",
    "muon-hard_cap": "preset=muon stabilizers=hard_cap hard_cap.cap=2",
    "muon-qk_norm-rms": "preset=muon stabilizers=qk_norm",
    "muon-qk_norm-rms_full": "preset=muon stabilizers=qk_norm qk_norm.kind=rms_full",
    "muon-qk_norm-l2": "preset=muon stabilizers=qk_norm qk_norm.kind=l2",
    "mla-muon": "preset=muon " + MLA,
    "mla-adam-no_q_latent": "preset=adam model.attention=mla model.kv_rank=10 model.rope_dim=4",
    "mla-muonclip": "preset=muonclip qk_clip.tau=1.5 " + MLA,
    "mla-muonclip-layer": "preset=muonclip qk_clip.tau=1.5 qk_clip.scope=layer " + MLA,
    "mla-muonclip-kr_layer": "preset=muonclip qk_clip.tau=1.5 qk_clip.mla=kr_layer " + MLA,
    "mla-muonclip-kr_head": "preset=muonclip qk_clip.tau=1.5 qk_clip.mla=kr_head " + MLA,
    "mla-qk_norm": "preset=muon stabilizers=qk_norm " + MLA,
    "muon-k_norm": "preset=muonclip qk_clip.tau=1.5 stabilizers=k_norm+qk_clip model.attention=gqa model.kv_heads=2",
    "mla-k_norm": "preset=muon stabilizers=k_norm " + MLA,
    "mla-qk_norm_partial": "preset=muon stabilizers=qk_norm_partial " + MLA,
    "mla-quack": "preset=muon stabilizers=quack quack.tau=0.8 " + MLA,
    "muon-split": "preset=muon muon.per_head=qkv " + MLA,
    "muon-quack": "preset=muon stabilizers=quack",
    "muon-qk_slow": "preset=muon override.lr=w_[qk]:0.1",
    "muon-qk_decay": "preset=muon override.weight_decay=w_[qk]:10",
    "muon-qk_adam": "preset=muon override.optimizer=w_[qk]:adam",
    "muon-bound_clip": "preset=muon stabilizers=bound_clip bound_clip.tau=14",
    "adam-gqa-bound_clip-prefix": "preset=adam stabilizers=bound_clip bound_clip.tau=14 bound_clip.gqa=group_max bound_clip.every=3 "
                                  "model.bias=1 model.mask=prefix model.prefix=6 model.attention=gqa model.kv_heads=2",
    "mla-bound_clip-window": "preset=muon stabilizers=bound_clip bound_clip.tau=10 model.mask=window model.window=5 "
                             "model.norm_gain=zero_centered train.decay_gains=1 " + MLA,
    "muon-spectral_clip": "preset=muon stabilizers=spectral_clip spectral_clip.bound=1.5",
    "muon-spectral_clip-tensor": "preset=muon stabilizers=spectral_clip spectral_clip.bound=1.5 spectral_clip.scope=tensor",
    "muonclip-absolute": "preset=muonclip qk_clip.tau=1.5 qk_clip.maximum=absolute",
    "muonclip-before": "preset=muonclip qk_clip.tau=1.5 qk_clip.when=before",
    "muonclip-momentum": "preset=muonclip qk_clip.tau=1.5 qk_clip.momentum=scale",
    "adamclip-before-momentum": "preset=adamclip qk_clip.tau=1.5 qk_clip.when=before qk_clip.momentum=scale model.bias=1",
    "muon-max_output_clip": "preset=muon stabilizers=max_output_clip max_output_clip.tau=3",
    "adam-max_output_clip-bias": "preset=adam stabilizers=max_output_clip max_output_clip.tau=3 model.bias=1",
    "mla-max_output_clip": "preset=muon stabilizers=max_output_clip max_output_clip.tau=3 " + MLA,
    "muon-sigma_reparam": "preset=muon stabilizers=sigma_reparam",
    "adam-gqa-sigma_reparam-qk": "preset=adam stabilizers=sigma_reparam sigma_reparam.weights=qk model.attention=gqa model.kv_heads=2",
    "mla-sigma_reparam": "preset=muon stabilizers=sigma_reparam " + MLA,
    "muon-spectral_decay": "preset=muon stabilizers=spectral_decay spectral_decay.strength=3",
    "adam-gqa-spectral_decay-head": "preset=adam stabilizers=spectral_decay spectral_decay.strength=3 spectral_decay.scope=head spectral_decay.iterations=1 model.attention=gqa model.kv_heads=2",
    "mla-spectral_decay": "preset=muon stabilizers=spectral_decay spectral_decay.strength=3 " + MLA,
    "muon-hyperball": "preset=muon stabilizers=hyperball train.weight_decay=0",
    "adam-gqa-hyperball-head-decay": "preset=adam stabilizers=hyperball hyperball.scope=head train.weight_decay=0.1 model.attention=gqa model.kv_heads=2",
    "mla-hyperball-qk-clip": "preset=muon stabilizers=hyperball+qk_clip hyperball.tensors=qk qk_clip.tau=1.5 " + MLA,
    "muon-spectral_sphere": "preset=muon stabilizers=spectral_sphere train.weight_decay=0",
    "adam-gqa-spectral_sphere-tensor": "preset=adam stabilizers=spectral_sphere spectral_sphere.scope=tensor spectral_sphere.radius=2 spectral_sphere.iterations=1 model.attention=gqa model.kv_heads=2",
    "mla-spectral_sphere": "preset=muon stabilizers=spectral_sphere " + MLA,
    "sso": "preset=sso",
    "adam-gqa-spectral_tangent-qk": "preset=adam stabilizers=spectral_tangent spectral_tangent.tensors=qk spectral_tangent.scope=tensor model.attention=gqa model.kv_heads=2",
    "manifold_muon-qk": "preset=manifold_muon stiefel.tensors=qk stiefel.steps=8",
    "adam-gqa-stiefel-spel": "preset=adam stabilizers=stiefel stiefel.steps=0 stiefel.scope=tensor model.attention=gqa model.kv_heads=2",
    "mla-stiefel": "preset=manifold_muon stiefel.tensors=qk stiefel.scope=tensor stiefel.steps=5 stiefel.alpha=0.3 muon.scale=none " + MLA,
    "muonclip-probe": "preset=muonclip qk_clip.tau=1.5 qk_clip.statistic=probe data=copy copy.symbols=20",
    "muonclip-probe-before": "preset=muonclip qk_clip.tau=1.5 qk_clip.statistic=probe qk_clip.when=before qk_clip.maximum=absolute data=copy copy.symbols=20",
    "adam-independent-cosine": "preset=adam train.decay=independent train.weight_decay=0.05 train.schedule=cosine",
    "adam-cautious-independent": "preset=adam train.cautious_decay=1 train.decay=independent train.weight_decay=0.2 train.decay_gains=1",
    "muon-cautious": "preset=muon train.cautious_decay=1 train.weight_decay=2",
    "adam-gqa-plant": "preset=adam model.attention=gqa model.kv_heads=2 train.plant=0:1:1.5+1:3:-1.25",
    "mla-plant": "preset=muon train.plant=1:2:1.5 " + MLA,
    "muon-learned_sink": "preset=muon stabilizers=learned_sink learned_sink.start=0.5",
    "muon-output_gate": "preset=muon stabilizers=output_gate",
    "muon-ssmax": "preset=muon stabilizers=ssmax",
    "muon-sigmoid": "preset=muonclip qk_clip.tau=1.5 stabilizers=sigmoid+qk_clip",
    "adam-gqa-sigmoid-cap": "preset=adam stabilizers=sigmoid+soft_cap soft_cap.cap=2 model.attention=gqa model.kv_heads=2 "
                            "model.mask=window model.window=7",
    "adamclip-softpick": "preset=adamclip qk_clip.tau=1.5 stabilizers=softpick+qk_clip",
    "adam-gqa-softpick-cap": "preset=adam stabilizers=softpick+soft_cap soft_cap.cap=2 model.attention=gqa model.kv_heads=2 "
                             "model.mask=window model.window=7",
    "muon-pointwise": "preset=muon stabilizers=pointwise",
    "adam-gqa-pointwise-cap": "preset=adam stabilizers=pointwise+soft_cap soft_cap.cap=2 model.attention=gqa model.kv_heads=2 "
                              "model.mask=window model.window=7",
    "muon-gqa-inside": "preset=muon stabilizers=qk_norm+ssmax+learned_sink+output_gate output_gate.by=head "
                       "ssmax.start=1 model.mask=prefix model.prefix=4 model.attention=gqa model.kv_heads=2",
    "mla-inside": "preset=muonclip stabilizers=learned_sink+output_gate+ssmax+qk_clip qk_clip.tau=1.5 model.mask=window "
                  "model.window=7 model.window_every=2 " + MLA,
    "adam-tied-zloss-gradclip": "preset=adam model.tied=1 model.z_loss=1e-3 train.grad_clip=0.5 train.micro_batches=2",
}
CASES.update({f"moe-{name}": "model.ffn=moe moe.experts=8 " + config for name, config in {
    "muon": "preset=muon moe.bias_rate=0.01",
    "adam-softmax-aux": "preset=adam moe.score=softmax moe.balance=aux moe.aux=0.05 moe.shared=0",
    "muonclip-groups": "preset=muonclip qk_clip.tau=1.5 moe.experts=16 moe.active=4 moe.groups=4 moe.groups_kept=2 moe.balance=both "
                       "moe.bias_rule=centred moe.bias_rate=0.02 moe.aux=0.01 moe.route_scale=2.5",
    "adam-one": "preset=adam moe.active=1 moe.bias_rule=rms moe.bias_rate=0.01 moe.dense_layers=1 moe.shared=2",
    "mla-none": "preset=muon moe.balance=none moe.hidden=12 override.optimizer=w_router:adam " + MLA,
    "sigma_reparam": "preset=muon stabilizers=sigma_reparam moe.score=softmax",
}.items()})
CASES.update({
    "mtp-muonclip": "preset=muonclip qk_clip.tau=1.5 model.mtp=1",
    "mtp-two-tied": "preset=adam model.mtp=2 model.mtp_weight=0.7 model.tied=1 model.z_loss=1e-3 train.micro_batches=2",
    "mtp-mla-moe": "preset=muonclip qk_clip.tau=1.5 model.mtp=2 model.ffn=moe moe.experts=6 moe.balance=both moe.aux=0.05 "
                   "moe.bias_rate=0.01 " + MLA,
    "mtp-sigma_reparam": "preset=muon stabilizers=sigma_reparam+max_output_clip sigma_reparam.weights=qk max_output_clip.tau=3 model.mtp=1",
})
DOCUMENTS = "data.packing=documents markov.document=9 "
CASES.update({f"mask-{name}": config for name, config in {
    "full": "preset=muonclip qk_clip.tau=1.5 model.mask=full " + DOCUMENTS,
    "window": "preset=muonclip qk_clip.tau=1.5 model.mask=window model.window=5 model.mtp=1 " + DOCUMENTS,
    "gemma2": "preset=adam stabilizers=soft_cap soft_cap.cap=2 model.mask=window model.window_every=2 model.layers=3 "
              "model.attention=gqa model.kv_heads=2",
    "mla-window": "preset=muon model.mask=window model.window=11 model.window_every=2 " + MLA,
    "prefix": "preset=muonclip qk_clip.tau=1.5 model.mask=prefix model.prefix=4 model.mtp=1 " + DOCUMENTS,
    "gqa-prefix": "preset=adam stabilizers=qk_norm model.mask=prefix model.attention=gqa model.kv_heads=2 train.micro_batches=2",
}.items()})
CASES.update({f"muon-{name}": f"preset=muon muon.coefficients={name}" for name in SETS if name != "keller"})

# Every series, of short runs
SHORT = ("data=bytes data.path=tests/golden/text.txt data.packing=documents data.val_fraction=0.3 train.steps=4 train.batch=4 "
         "train.micro_batches=2 train.warmup=3 train.lr=0.05 train.seed=5 train.val_every=2 train.val_batches=2 model.layers=2 "
         "model.width=16 model.heads=4 model.context=16 record.spectra_every=2 record.probe_every=2 record.pairs=1 "
         "record.level=0.5 record.bound=1 device.threads=1")
GQA = "model.attention=gqa model.kv_heads=2"
LATENT = "model.attention=mla model.q_rank=10 model.kv_rank=10 model.rope_dim=2 model.value_dim=3"
SERIES = {
    "adamclip-bias": "preset=adamclip stabilizers=qk_clip+max_output_clip qk_clip.tau=1.5 max_output_clip.tau=2 model.bias=1",
    "muonclip-gqa-group_max": "preset=muonclip qk_clip.tau=1.5 qk_clip.gqa=group_max " + GQA,
    "muonclip-gqa-own_q_min_k": "preset=muonclip qk_clip.tau=1.5 qk_clip.gqa=own_q_min_k model.bias=1 train.schedule=cosine " + GQA,
    "muonclip-before": "preset=muonclip qk_clip.tau=1 qk_clip.when=before model.bias=1",
    "muonclip-mla": "preset=muonclip qk_clip.tau=1.5 " + LATENT,
    "muonclip-probe-layer": "preset=muonclip qk_clip.tau=1.5 qk_clip.statistic=probe qk_clip.scope=layer qk_clip.maximum=absolute",
    "bound_clip-bias": "preset=adam stabilizers=bound_clip bound_clip.tau=12 model.bias=1 model.mask=full data.packing=none",
    "bound_clip-mla": "preset=muon stabilizers=bound_clip bound_clip.tau=12 bound_clip.every=2 " + LATENT,
    "quack-gqa": "preset=muon stabilizers=quack quack.tau=0.8 train.schedule=linear data=markov markov.symbols=24 markov.branches=4 "
                 "markov.document=5 " + GQA,
    "quack-mla-no_q_latent": "preset=adam stabilizers=quack model.attention=mla model.kv_rank=10 model.rope_dim=2",
    "spectral-soft_cap": "preset=muon stabilizers=spectral_clip+spectral_decay+soft_cap spectral_clip.bound=1.2 soft_cap.cap=1.5 "
                         "spectral_clip.every=2",
    "spectral-head-hard_cap": "preset=adam stabilizers=spectral_decay+spectral_clip+hard_cap spectral_clip.bound=1.2 "
                              "spectral_decay.scope=head hard_cap.cap=1 train.grad_clip=0.5 data.packing=none record.every=2",
    "spheres": "preset=muon stabilizers=spectral_sphere+hyperball hyperball.tensors=qk hyperball.scope=head muon.scale=none",
    "sso-mla": "preset=sso " + LATENT,
    "stiefel-gqa": "preset=manifold_muon stiefel.tensors=qk stiefel.steps=4 muon.per_head=qk " + GQA,
    "qk_norm-recall": "preset=muon stabilizers=qk_norm data=recall recall.symbols=16 train.schedule=wsd",
    "nonfinite": "preset=muonclip stabilizers=qk_clip+max_output_clip+soft_cap train.batch=3 train.micro_batches=3 train.steps=2 "
                 "train.on_nonfinite=continue record.spectra_every=1",
    "nonfinite-stop": "preset=muon stabilizers=hard_cap train.batch=3 train.micro_batches=3 train.steps=2",
    "spike": "preset=adam train.steps=90 train.lr=1e-4 train.spike=0.3 model.layers=1 model.heads=2 model.width=8 record.spectra_every=0 "
             "record.probe_every=0 train.val_every=0 record.level=0",
}
EXPERTS = "model.ffn=moe moe.hidden=8 moe.bias_rate=0.05 "
SERIES.update({
    "moe-sign": "preset=muon moe.experts=6 " + EXPERTS,
    "moe-centred-groups": "preset=muonclip qk_clip.tau=1.5 moe.experts=12 moe.active=4 moe.groups=3 moe.groups_kept=2 moe.balance=both "
                          "moe.bias_rule=centred moe.aux=0.1 moe.route_scale=2.5 " + EXPERTS + LATENT,
    "moe-rms-softmax": "preset=adam moe.experts=4 moe.active=1 moe.score=softmax moe.bias_rule=rms moe.shared=0 " + EXPERTS + GQA,
    "moe-aux-dense": "preset=adam moe.experts=5 moe.balance=aux moe.aux=0.2 moe.dense_layers=1 moe.shared=2 " + EXPERTS,
})
SERIES.update({
    "window": "preset=muonclip qk_clip.tau=1.5 model.mask=window model.window=4 model.window_every=2 " + GQA,
    "prefix": "preset=muonclip qk_clip.tau=1.5 model.mask=prefix model.prefix=3 model.mtp=1 " + LATENT,
    "full": "preset=muon stabilizers=qk_norm model.mask=full data.packing=none",
})
SERIES.update({
    "mtp-one": "preset=muonclip qk_clip.tau=1.5 model.mtp=1 " + GQA,
    "mtp-two-moe": "preset=muon stabilizers=qk_norm+max_output_clip max_output_clip.tau=2 model.mtp=2 model.mtp_weight=0.5 "
                   "moe.experts=5 moe.dense_layers=1 " + EXPERTS,
})
PLANTED = ("nonfinite", "nonfinite-stop")  # NaN in the embedding of a symbol that one micro-batch alone has

# --- files ------------------------------------------------------------------------------------------------


def lonely(batch, part):
    """A symbol that row `part` of the batch has among its inputs, and no other row."""
    inputs = [set(row[:-1]) for row in batch[0]]
    return min(inputs[part] - set().union(*inputs[:part], *inputs[part + 1:]))


def replays(program, config, planted):
    """-> options; for float64 and float32 the rows [(axis, step, {series: values})] and events; the planted symbol."""
    with tempfile.TemporaryDirectory() as d:
        subprocess.run([program, "run", "-q", f"record.path={d}/run.h5", "record.batches=1", "checkpoint.keep=all",
                        "checkpoint.every=0"] + config.split(), check=True)
        f = RunFile(d + "/run.h5")
        drawn, _ = f.checkpoint(0)
        data = f.data()
    order = sorted((n for n in drawn if not n.endswith(("quack.start", "hyperball.radius"))), key=declared)
    runs = [Run(f.p, order, dtype, data) for dtype in (torch.float64, torch.float32)]
    for n in order:  # the same weights, to float32's rounding
        mine = (runs[0].w if n in runs[0].w else runs[0].fixed)[n].detach().numpy().ravel()
        atol = 1e-3 if ".sigma_" in n or n.endswith("sphere") else 3e-6 if "stiefel" in config or "manifold" in config else 1e-7  # after many steps in float32
        assert np.allclose(mine, drawn[n].ravel(), rtol=1e-6, atol=atol), f"{n}: drawn differently"
    symbol = lonely(f.batches[0], 1) if planted else None
    return f.p, [replay(r, f.batches, symbol) for r in runs], symbol


def replay(run, batches, symbol):
    out, events = [], []
    if symbol is not None:
        run.w["embed"].data[symbol, 0] = math.nan
    for s, batch in enumerate(batches):
        rows, seen = run.step(s, batch)
        events += [(s,) + e for e in seen]
        out += [(axis, s, row) for axis, row in rows.items() if row]
        if run.diverged:
            return out, events
    out += [(axis, len(batches), row) for axis, row in run.finish().items() if row]
    return out, events


def head_of(config):
    return (f"# made by tests/golden/make_golden.py, PyTorch {torch.__version__} float64, numpy "
            f"{np.__version__}, {datetime.date.today()}\n# config {config}\n")


def write_case(program, folder, name):
    config = BASE + " " + CASES[name]
    p, both, _ = replays(program, config, False)
    double, single = ([[r["loss"], r["grad_norm"]] + [float(x) for x in r["attn/max_logit"].flatten()]
                       for axis, _, r in rows if axis == "step"] for rows, _ in both)
    heads = [f"l{l}h{h}" for l in range(int(p["model.layers"])) for h in range(int(p["model.heads"]))]
    off = [0.0] * len(double[0])
    with open(f"{folder}/{name}.tsv", "w") as out:
        out.write(head_of(config) + "# columns value, then the largest |float32 - float64| of PyTorch so far\n"
                  "step\tloss\tloss_off\tgrad_norm\tgrad_norm_off\t" + "\t".join(f"{h}\t{h}_off" for h in heads) + "\n")
        for s, (a, b) in enumerate(zip(double, single)):
            off = [max(o, abs(x - y)) for o, x, y in zip(off, a, b)]
            out.write(f"{s}\t" + "\t".join(f"{x:.17g}\t{o:.2g}" for x, o in zip(a, off)) + "\n")
    print(name, "loss", double[0][0], "->", double[-1][0], "max logit", max(double[-1][2:]), "off", max(off))


def flat(values):
    return np.atleast_1d(np.asarray(values, dtype=float)).ravel()


def write_series(program, folder, name):
    config = SHORT + " " + SERIES[name]
    _, ((double, events), (single, events32)), symbol = replays(program, config, name in PLANTED)
    assert [e[:-1] for e in events] == [e[:-1] for e in events32], "float32 has other events: choose a case with none in doubt"
    off = {}
    with open(f"{folder}/series/{name}.tsv", "w") as out:
        out.write(head_of(config) + ("" if symbol is None else f"# plant embed {symbol} 0 nan\n")
                  + "# series, step, the largest |float32 - float64| of PyTorch so far in any place of the row, the row\n"
                  "# event, step, kind, layer, head, that deviation, value\n")
        for (_, s, a), (_, _, b) in zip(double, single):
            for series in a:
                x, y = flat(a[series]), flat(b[series])
                assert (np.isnan(x) == np.isnan(y)).all(), (name, series, s)
                off[series] = max(off.get(series, 0.0), np.nan_to_num(np.abs(x - y)).max())
                out.write(f"{series}\t{s}\t{off[series]:.2g}\t" + "\t".join(f"{v:.{9 if len(x) > 1 else 12}g}" for v in x) + "\n")
        for a, b in zip(events, events32):
            out.write("event\t" + "\t".join(str(v) for v in a[:-1]) + f"\t{np.nan_to_num(abs(a[-1] - b[-1])):.2g}\t{a[-1]:.11g}\n")
    print("series/" + name, len(double), "rows", len(off), "series", sorted({e[1] for e in events}), len(events), "events")


def main():
    program, folder, wanted = sys.argv[1], sys.argv[2], sys.argv[3:] or list(CASES) + ["series/" + n for n in SERIES]
    torch.set_num_threads(1)
    for name in wanted:
        if name.startswith("series/"):
            write_series(program, folder, name[len("series/"):])
        else:
            write_case(program, folder, name)


if __name__ == "__main__":
    main()
