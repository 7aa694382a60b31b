"""maxlogit's stack (mha, SwiGLU, no stabilizer) and its two optimizers in PyTorch, made to be fast: pure functions of
dictionaries of tensors, which autograd, torch.func, torch.compile and a CUDA graph can all take. A leading axis on every
tensor is the run. Weights and batches are those of a run file (tests/golden/replay.py).
"""
import math
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from replay import KELLER, Run, RunFile, declared  # noqa: E402

STACKS = {
    "tiny": "model.layers=2 model.width=16 model.heads=2 model.context=12 train.batch=3",
    "toy": "model.layers=2 model.width=64 model.heads=4 model.context=64 train.batch=8",
    "small": "model.layers=4 model.width=256 model.heads=8 model.context=256 train.batch=8",
    "medium": "model.layers=6 model.width=512 model.heads=8 model.context=512 train.batch=4",
    "large": "model.layers=12 model.width=2048 model.heads=16 model.context=2048 train.batch=4",
}
COMMON = ("data=markov train.lr=0.003 train.val_every=0 record.spectra_every=0 record.probe_every=0 record.batches=1 "
          "device.threads=1 checkpoint.every=0 checkpoint.keep=all")


def run_maxlogit(program, stack, optimizer, steps, seed=1):
    """-> the run's file, the names of its tensors in the order in which they are drawn, and seconds of every step."""
    import h5py
    with tempfile.TemporaryDirectory() as d:
        subprocess.run([program, "run", "-q", "optimizer=" + optimizer, f"record.path={d}/run.h5", f"train.steps={steps}",
                        f"train.seed={seed}"] + COMMON.split() + STACKS[stack].split(), check=True)
        f = RunFile(d + "/run.h5")
        names = sorted(f.checkpoint(0)[0], key=declared)
        with h5py.File(d + "/run.h5") as run:
            seconds = run["timing/seconds"][:]
    assert all((mask == 1).all() and (document == 0).all() for _, mask, document in f.batches)
    return f, names, seconds


def options(program, stack, optimizer):
    """Every option of such a run, as a run file would tell it, and its tensors."""
    told = subprocess.run([program, "run", "--dry-run", "optimizer=" + optimizer] + COMMON.split() + STACKS[stack].split(),
                          check=True, capture_output=True, text=True).stdout
    p = {k.strip(): v.split("#")[0].strip() for k, v in (line.split("=", 1) for line in told.splitlines() if " = " in line)}
    block = ["attn.norm", "attn.w_q", "attn.w_k", "attn.w_v", "attn.w_o", "ffn.norm", "ffn.w_gate", "ffn.w_up", "ffn.w_down"]
    return p, ["embed", "norm", "head"] + [f"blocks.{l}.{n}" for l in range(int(p["model.layers"])) for n in block]


def drawn(p, names, seed):
    """The weights that a run of these options begins with, in float32."""
    return {n: w.detach() for n, w in Run(dict(p, **{"train.seed": str(seed)}), names, torch.float32).w.items()}


def like_drawn(p, names, seed, device):
    """Others of the same distribution, drawn on the device: Philox in numpy is slow for large stacks."""
    run = Run(p, [], torch.float32)
    random = torch.Generator(device).manual_seed(seed)
    w = {}
    for n in names:
        shape, kind = run.shape(n)
        w[n] = torch.ones(shape, device=device) if kind == "gain" else torch.randn(shape, generator=random, device=device)
        if kind not in ("gain", "embed"):
            w[n] *= shape[1] ** -0.5
    return w


class Stack:
    """Its forward pass. maxima: scores are made, and every head's largest is returned; otherwise attention is PyTorch's
    own kernel, and NaN stands for the maxima."""

    def __init__(self, p, device, maxima=True):
        self.L, self.H, self.T = (int(p["model." + k]) for k in ("layers", "heads", "context"))
        self.Dh, self.eps, self.maxima = int(p["model.head_dim"]), float(p["model.norm_eps"]), maxima
        f = float(p["model.rope_base"]) ** (-torch.arange(self.Dh // 2, dtype=torch.float64) * 2 / self.Dh)
        a = torch.arange(self.T, dtype=torch.float64)[:, None] * f
        self.cos, self.sin = (x.float().to(device) for x in (a.cos(), a.sin()))
        self.hidden = torch.ones(self.T, self.T, dtype=torch.bool).triu(1).to(device)
        self.none = torch.full((self.H,), math.nan, device=device)

    def rms(self, x, g):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * g

    def rope(self, x):
        x1, x2 = x.chunk(2, -1)
        return torch.cat([x1 * self.cos - x2 * self.sin, x1 * self.sin + x2 * self.cos], -1)

    def attention(self, x, w, a):
        B = x.shape[0]
        q, k, v = (F.linear(x, w[a + n]).view(B, self.T, self.H, self.Dh).transpose(1, 2) for n in ("w_q", "w_k", "w_v"))
        q, k = self.rope(q), self.rope(k)
        if self.maxima:
            s = (q @ k.transpose(-1, -2) * self.Dh ** -0.5).masked_fill(self.hidden, -math.inf)
            seen, o = s.detach().amax((0, 2, 3)), s.softmax(-1) @ v
        else:
            seen, o = self.none, F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        return F.linear(o.transpose(1, 2).reshape(B, self.T, -1), w[a + "w_o"]), seen

    def loss(self, w, tokens):
        """tokens [B,T+1] -> the mean loss of a token, and every head's max logit [L,H]."""
        h, seen = w["embed"][tokens[:, :-1]], []
        for l in range(self.L):
            b = f"blocks.{l}."
            y, top = self.attention(self.rms(h, w[b + "attn.norm"]), w, b + "attn.")
            h = h + y
            z = self.rms(h, w[b + "ffn.norm"])
            h = h + F.linear(F.silu(F.linear(z, w[b + "ffn.w_gate"])) * F.linear(z, w[b + "ffn.w_up"]), w[b + "ffn.w_down"])
            seen.append(top)
        logits = F.linear(self.rms(h, w["norm"]), w["head"])
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten()), torch.stack(seen)


class Optimizer:
    """Adam, or Muon with Adam for what is not a matrix, on tensors with any leading axes; matrices of one shape go through
    Newton-Schulz together. Everything that changes from step to step is on the device."""

    def __init__(self, p, w, device):
        def number(key):
            return float(p[key])
        names = list(w)
        muon = {n for n in names if ".w_" in n} if p["optimizer"] == "muon" else set()
        self.b1, self.b2, self.eps = (number("adam." + k) for k in ("beta1", "beta2", "eps"))
        if muon:
            self.mu, self.rms, self.steps = number("muon.momentum"), number("muon.rms"), int(p["muon.ns_steps"])
        self.lr, self.warmup, self.decay = number("train.lr"), max(1.0, number("train.warmup")), number("train.weight_decay")
        self.by_adam, self.by_muon = [n for n in names if n not in muon], {}
        for n in names:
            if n in muon:
                self.by_muon.setdefault(tuple(sorted(w[n].shape[-2:])), []).append(n)
        self.decayed = [n for n in names if ".w_" in n or n in ("embed", "head")]
        self.m = {n: torch.zeros_like(w[n]) for n in names}
        self.v = {n: torch.zeros_like(w[n]) for n in self.by_adam}
        self.t = torch.zeros((), device=device)

    def update(self, w, g):
        """In place: weights w from gradients g."""
        t = self.t.add_(1)
        lr = self.lr * torch.clamp(t / self.warmup, max=1.0)
        torch._foreach_mul_([w[n] for n in self.decayed], 1 - lr * self.decay)
        grads, m, v = ([x[n] for n in self.by_adam] for x in (g, self.m, self.v))
        torch._foreach_lerp_(m, grads, 1 - self.b1)
        torch._foreach_mul_(v, self.b2)
        torch._foreach_addcmul_(v, grads, grads, 1 - self.b2)
        under = torch._foreach_div(v, 1 - self.b2 ** t)
        torch._foreach_sqrt_(under)
        torch._foreach_add_(under, self.eps)
        torch._foreach_mul_(under, (self.b1 ** t - 1) / lr)
        torch._foreach_addcdiv_([w[n] for n in self.by_adam], m, under)
        for shape, names in self.by_muon.items():
            grads, m = [g[n] for n in names], [self.m[n] for n in names]
            torch._foreach_mul_(m, self.mu)
            torch._foreach_add_(m, grads)
            x = [torch.add(a, b, alpha=self.mu) for a, b in zip(grads, m)]
            tall = [n for n in names if w[n].shape[-2] > w[n].shape[-1]]
            x = torch.stack([a.mT if n in tall else a for n, a in zip(names, x)])
            step = (self.polar(x) * (-lr * (self.rms * math.sqrt(max(shape))))).unbind(0)
            torch._foreach_add_([w[n] for n in names], [a.mT if n in tall else a for n, a in zip(names, step)])

    def polar(self, x):
        a, b, c = KELLER
        shape, x = x.shape, x.flatten(0, -3)
        x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
        for _ in range(self.steps or 5):
            y = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(y, y, y, beta=b, alpha=c), x, beta=a)
        return x.view(shape)


class Trainer:
    """Steps over a pool of batches [S, (runs,) B, T+1]; what every step has seen is kept on the device."""

    def __init__(self, p, w, pool, device, maxima=True, bf16=False, room=4096):
        self.device, self.bf16 = device, bf16
        self.w = {n: x.to(device, copy=True) for n, x in w.items()}
        self.runs = self.w["norm"].shape[0] if self.w["norm"].dim() > 1 else 0
        self.stack, self.optimizer = Stack(p, device, maxima), Optimizer(p, self.w, device)
        self.pool = torch.as_tensor(np.asarray(pool)).to(device)
        lead = (room,) + ((self.runs,) if self.runs else ())
        self.losses = torch.zeros(lead, device=device)
        self.maxima = torch.zeros(lead + (self.stack.L, self.stack.H), device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)

    def loss(self, w, tokens):
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.bf16):
            return self.stack.loss(w, tokens)

    def gradients(self, tokens, functional):
        if self.runs or functional:
            one = torch.func.grad_and_value(self.loss, has_aux=True)
            g, (loss, seen) = (torch.func.vmap(one) if self.runs else one)(self.w, tokens)
            return g, loss, seen
        names = list(self.w)
        leaves = {n: self.w[n].detach().requires_grad_() for n in names}
        loss, seen = self.loss(leaves, tokens)
        return dict(zip(names, torch.autograd.grad(loss, [leaves[n] for n in names]))), loss.detach(), seen

    def step(self, functional=False):
        tokens = self.pool.index_select(0, self.at % self.pool.shape[0])[0]
        g, loss, seen = self.gradients(tokens, functional)
        self.losses.index_copy_(0, self.at % self.losses.shape[0], loss[None])
        self.maxima.index_copy_(0, self.at % self.maxima.shape[0], seen[None])
        with torch.no_grad():
            self.optimizer.update(self.w, g)
        self.at.add_(1)
