#!/usr/bin/env python3
"""Golden values from an independent implementation: PyTorch in float64.

    python3 tests/golden/make_golden.py ./maxlogit tests/golden [CASE ...]

For every case below the program is run for its batches only (record.batches=1); weights are drawn here again
(Philox4x32-10, Box-Muller), and model, gradients, optimisers and stabilisers are PyTorch's autograd and the
formulas of the papers, written without looking at the C code. Each file holds, per step, the loss, the
gradient norm and every head's max logit, and how far PyTorch's own float32 run is from its float64 run: the
C test allows a float32 build a multiple of that, and a float64 build only rounding.

Needed to make the files, never to build or test. h5py, numpy, torch.
"""
import datetime
import math
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
import torch.nn.functional as F

BASE = ("data=markov train.steps=20 train.batch=4 train.warmup=5 train.lr=0.02 train.seed=3 model.layers=2 "
        "model.width=32 model.heads=4 model.context=24 train.val_every=0 device.threads=1")
MLA = "model.attention=mla model.q_rank=12 model.kv_rank=10 model.rope_dim=4 model.value_dim=6"
CASES = {
    "adam-mha": "preset=adam",
    "muon-mha": "preset=muon",
    "adam-gqa": "preset=adam model.attention=gqa model.kv_heads=2",
    "muon-gqa": "preset=muon model.attention=gqa model.kv_heads=2",
    "sgd-mha": "optimizer=sgd",
    "muonclip-head": "preset=muonclip qk_clip.tau=1.5 qk_clip.alpha=0.3",
    "muonclip-layer": "preset=muonclip qk_clip.tau=1.5 qk_clip.scope=layer",
    "muonclip-gqa-group_max": "preset=muonclip qk_clip.tau=1.5 model.attention=gqa model.kv_heads=2 qk_clip.gqa=group_max",
    "muonclip-gqa-own_q_min_k": "preset=muonclip qk_clip.tau=1.5 model.attention=gqa model.kv_heads=2 qk_clip.gqa=own_q_min_k",
    "muonclip-gqa-q_only": "preset=muonclip qk_clip.tau=1.5 model.attention=gqa model.kv_heads=2 qk_clip.gqa=q_only",
    "muonclip-gqa-compensated": "preset=muonclip qk_clip.tau=1.5 model.attention=gqa model.kv_heads=2 qk_clip.gqa=compensated",
    "adamclip-bias": "preset=adamclip qk_clip.tau=1.5 model.bias=1",
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
    "mla-qk_norm_partial": "preset=muon stabilizers=qk_norm_partial " + MLA,
    "mla-quack": "preset=muon stabilizers=quack quack.tau=0.8 " + MLA,
    "muon-split": "preset=muon muon.per_head=qkv " + MLA,
    "muon-quack": "preset=muon stabilizers=quack",
    "muon-qk_slow": "preset=muon override.lr=w_[qk]:0.1",
    "muon-qk_decay": "preset=muon override.weight_decay=w_[qk]:10",
    "muon-qk_adam": "preset=muon override.optimizer=w_[qk]:adam",
    "muon-spectral_clip": "preset=muon stabilizers=spectral_clip spectral_clip.bound=1.5",
    "muon-spectral_clip-tensor": "preset=muon stabilizers=spectral_clip spectral_clip.bound=1.5 spectral_clip.scope=tensor",
    "muonclip-absolute": "preset=muonclip qk_clip.tau=1.5 qk_clip.maximum=absolute",
    "muonclip-before": "preset=muonclip qk_clip.tau=1.5 qk_clip.when=before",
    "muonclip-momentum": "preset=muonclip qk_clip.tau=1.5 qk_clip.momentum=scale",
    "adamclip-before-momentum": "preset=adamclip qk_clip.tau=1.5 qk_clip.when=before qk_clip.momentum=scale model.bias=1",
    "muon-max_output_clip": "preset=muon stabilizers=max_output_clip max_output_clip.tau=3",
    "adam-max_output_clip-bias": "preset=adam stabilizers=max_output_clip max_output_clip.tau=3 model.bias=1",
    "mla-max_output_clip": "preset=muon stabilizers=max_output_clip max_output_clip.tau=3 " + MLA,
    "adam-tied-zloss-gradclip": "preset=adam model.tied=1 model.z_loss=1e-3 train.grad_clip=0.5 train.micro_batches=2",
}

# --- random numbers ---------------------------------------------------------------------------------------


def philox(counter, key):
    c = [np.asarray(x, dtype=np.uint64) for x in counter]
    k0, k1 = key
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def normals(seed, stream, step, n):
    """n draws of N(0,1), index 0..n-1."""
    blocks = np.arange((n + 3) // 4, dtype=np.uint64)
    one = np.ones_like(blocks)
    w = philox((blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32), one * np.uint64(step & 0xFFFFFFFF),
                one * np.uint64(stream << 24)), (seed & 0xFFFFFFFF, seed >> 32))
    out = np.empty((len(blocks), 4))
    for pair in (0, 1):
        r = np.sqrt(-2 * np.log((w[2 * pair].astype(float) + 0.5) * 2.0 ** -32))
        a = 2 * np.pi * 2.0 ** -32 * w[2 * pair + 1].astype(float)
        out[:, 2 * pair], out[:, 2 * pair + 1] = r * np.cos(a), r * np.sin(a)
    return out.ravel()[:n]


# --- the model --------------------------------------------------------------------------------------------


class Run:
    """One run replayed in PyTorch; `p` is the dictionary of options as the run file tells them."""

    def __init__(self, p, names, dtype):
        self.p, self.dtype = p, dtype
        self.L, self.D, self.H, self.T = (int(p["model." + k]) for k in ("layers", "width", "heads", "context"))
        self.G, self.Dh = int(p["model.kv_heads"]), int(p["model.head_dim"])
        self.F, self.V = int(p["model.ffn_width"]), int(p["model.vocab"])
        self.stack = p["stabilizers"].split("+")
        self.mla = p["model.attention"] == "mla"
        self.Rq, self.Rkv, self.Dr, self.Dv = (int(p["model." + k]) for k in ("q_rank", "kv_rank", "rope_dim", "value_dim"))
        self.w, drawn = {}, 0
        for name in names:
            shape, kind = self.shape(name)
            if kind == "gain":
                v = np.ones(shape) * self.initial_gain(name)
            elif kind == "bias":
                v = np.zeros(shape)
            else:
                std = 1.0 if kind == "embed" and "head" in names else shape[1] ** -0.5  # tied: a head as well
                v = normals(int(p["train.seed"]), 1, drawn, int(np.prod(shape))).reshape(shape) * std
                drawn += 1
            self.w[name] = torch.tensor(v, dtype=dtype, requires_grad=True)
        self.state = {n: {} for n in self.w}

    def initial_gain(self, name):
        if name.endswith("qk_scale"):
            return math.log2(self.T * self.T - self.T)  # Henry et al. 2020, arXiv 2010.04245 sec. 3
        return 1.0

    def shape(self, name):
        D, H, G, Dh, Fw, V = self.D, self.H, self.G, self.Dh, self.F, self.V
        last = name.split(".")[-1]
        if name in ("embed", "head"):
            return (V, D), name
        full = self.p.get("qk_norm.kind") == "rms_full"
        table = {"w_q": (H * Dh, D), "w_k": (G * Dh, D), "w_v": (G * Dh, D), "w_o": (D, H * Dh),
                 "w_gate": (Fw, D), "w_up": (Fw, D), "w_down": (D, Fw)}
        Rq, Rkv, Dr, Dv = self.Rq, self.Rkv, self.Dr, self.Dv
        latent = {"w_dq": (Rq, D), "w_qc": (H * Dh, Rq or D), "w_qr": (H * Dr, Rq or D), "w_dkv": (Rkv, D),
                  "w_kc": (H * Dh, Rkv), "w_kr": (Dr, D), "w_v": (H * Dv, Rkv), "w_o": (D, H * Dv)}
        if self.mla:
            table.update(latent)
        if last in table:
            return table[last], "matrix"
        if last[:2] == "b_":
            return ({"b_q": H * Dh, "b_k": G * Dh, "b_v": G * Dh, "b_o": D}[last],), "bias"
        sizes = {"norm": D, "q_gain": H * Dh if full else Dh, "k_gain": G * Dh if full else Dh, "qk_scale": 1,
                 "q_norm": Rq, "kv_norm": Rkv, "qc_gain": Dh, "kc_gain": Dh, "qr_gain": Dr, "kr_gain": Dr}
        return (sizes[last],), "gain"

    def kind(self, name):
        return self.shape(name)[1]

    def rms(self, x, g=None):
        y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + float(self.p["model.norm_eps"]))
        return y if g is None else y * g

    def rope(self, x):
        half = x.shape[-1] // 2
        f = float(self.p["model.rope_base"]) ** (-torch.arange(half, dtype=torch.float64) * 2 / x.shape[-1])
        a = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * f
        c, s = a.cos().to(self.dtype), a.sin().to(self.dtype)
        x1, x2 = x[..., :half], x[..., half:]
        return torch.cat([x1 * c - x2 * s, x1 * s + x2 * c], -1)

    def option(self, key):
        return self.p[key]

    def softmax(self, q, k, v, scale):
        """q, k, v [B,H,T,.] -> the heads' outputs side by side, and every head's largest logit before any cap."""
        B, T = q.shape[0], q.shape[2]
        s = (q @ k.transpose(-1, -2)) * scale
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        top = s.detach().masked_fill(future, -math.inf).amax((0, 2, 3))
        self.top_abs = s.detach().abs().masked_fill(future, -math.inf).amax((0, 2, 3))
        if "soft_cap" in self.stack:
            c = float(self.p["soft_cap.cap"])
            s = c * torch.tanh(s / c)
        if "hard_cap" in self.stack:
            s = s.clamp(max=float(self.p["hard_cap.cap"]))
        o = s.masked_fill(future, -math.inf).softmax(-1) @ v
        return o.transpose(1, 2).reshape(B, T, -1), top

    def latent_attention(self, x, l):
        """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): one rotary key for all heads."""
        a, w = f"blocks.{l}.attn.", self.w
        B, T, _ = x.shape

        def heads(y, n):
            return y.view(B, T, n, -1).transpose(1, 2)
        cq = self.rms(x @ w[a + "w_dq"].T, w[a + "q_norm"]) if self.Rq else x
        ckv = self.rms(x @ w[a + "w_dkv"].T, w[a + "kv_norm"])
        part = {"qc": heads(cq @ w[a + "w_qc"].T, self.H), "qr": heads(cq @ w[a + "w_qr"].T, self.H),
                "kc": heads(ckv @ w[a + "w_kc"].T, self.H), "kr": heads(x @ w[a + "w_kr"].T, 1)}
        for n in part:
            if a + n + "_gain" in w:
                part[n] = self.rms(part[n], w[a + n + "_gain"])
        q = torch.cat([part["qc"], self.rope(part["qr"])], -1)
        k = torch.cat([part["kc"], self.rope(part["kr"]).expand(B, self.H, T, self.Dr)], -1)
        o, top = self.softmax(q, k, heads(ckv @ w[a + "w_v"].T, self.H), (self.Dh + self.Dr) ** -0.5)
        return o @ w[a + "w_o"].T, top

    def attention(self, x, l):
        """x [B,T,D] normed -> [B,T,D], and the largest logit of every head before any cap."""
        if self.mla:
            return self.latent_attention(x, l)
        a = f"blocks.{l}.attn."
        B, T, _ = x.shape

        def project(c, heads):
            y = x @ self.w[a + "w_" + c].T
            if a + "b_" + c in self.w:
                y = y + self.w[a + "b_" + c]
            return y
        q, k, v = project("q", self.H), project("k", self.G), project("v", self.G)
        scale = self.Dh ** -0.5
        norm = "qk_norm" in self.stack and self.p["qk_norm.kind"]
        if norm == "rms_full":
            q, k = self.rms(q, self.w[a + "q_gain"]), self.rms(k, self.w[a + "k_gain"])

        def heads(y, n):
            return y.view(B, T, n, -1).transpose(1, 2)
        q, k, v = heads(q, self.H), heads(k, self.G), heads(v, self.G)
        if norm == "rms":
            q, k = self.rms(q, self.w[a + "q_gain"]), self.rms(k, self.w[a + "k_gain"])
        if norm == "l2":
            q, k = (y / y.pow(2).sum(-1, keepdim=True).add(float(self.p["model.norm_eps"]) * self.Dh).sqrt() for y in (q, k))
            q, scale = q * self.w[a + "qk_scale"], 1.0
        q, k = self.rope(q), self.rope(k)
        group = [h * self.G // self.H for h in range(self.H)]
        k, v = k[:, group], v[:, group]
        o, top = self.softmax(q, k, v, scale)
        y = o @ self.w[a + "w_o"].T
        if a + "b_o" in self.w:
            y = y + self.w[a + "b_o"]
        return y, top

    def forward(self, tokens):
        x, targets = tokens[:, :-1], tokens[:, 1:]
        h, tops, tops_abs, outputs = self.w["embed"][x], [], [], []
        for l in range(self.L):
            b = f"blocks.{l}."
            y, top = self.attention(self.rms(h, self.w[b + "attn.norm"]), l)
            outputs.append(y.detach().abs().max())
            h = h + y
            z = self.rms(h, self.w[b + "ffn.norm"])
            h = h + (F.silu(z @ self.w[b + "ffn.w_gate"].T) * (z @ self.w[b + "ffn.w_up"].T)) @ self.w[b + "ffn.w_down"].T
            tops.append(top)
            tops_abs.append(self.top_abs)
        self.tops_abs, self.outputs = torch.stack(tops_abs), outputs
        logits = self.rms(h, self.w["norm"]) @ self.w.get("head", self.w["embed"]).T
        loss = F.cross_entropy(logits.reshape(-1, self.V), targets.reshape(-1))
        z = float(self.p["model.z_loss"])
        return loss, loss + z * logits.logsumexp(-1).pow(2).mean(), torch.stack(tops)

    # --- updates --------------------------------------------------------------------------------------------

    def rate(self, step):
        return float(self.p["train.lr"]) * min(1.0, (step + 1) / max(1, int(self.p["train.warmup"])))

    def adam(self, name, g, step):
        s = self.state[name]
        m = s.setdefault("m", torch.zeros_like(g)).mul_(0.9).add_(g, alpha=0.1)
        v = s.setdefault("v", torch.zeros_like(g)).mul_(0.95).add_(g * g, alpha=0.05)
        return (m / (1 - 0.9 ** (step + 1))) / ((v / (1 - 0.95 ** (step + 1))).sqrt() + 1e-8)

    def muon(self, name, g):
        m = self.state[name].setdefault("m", torch.zeros_like(g)).mul_(0.95).add_(g)
        x = g + 0.95 * m
        rows = {"w_q": self.Dh, "w_k": self.Dh, "w_v": self.Dv if self.mla else self.Dh, "w_qc": self.Dh, "w_qr": self.Dr,
                "w_kc": self.Dh}.get(name.split(".")[-1])
        if self.p.get("muon.per_head") == "qkv" and rows:
            return torch.cat([self.polar(b) for b in x.split(rows)])
        return self.polar(x)

    def polar(self, x):
        shape = x.shape
        x = x / (x.norm() + 1e-7)
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        for _ in range(5):
            y = x @ x.T
            x = 3.4445 * x + (-4.7750 * y + 2.0315 * y @ y) @ x
        return (x.T if tall else x) * 0.2 * math.sqrt(max(shape))

    def direction(self, name, g, step):
        if self.p["override.optimizer"] and self.overrides(name):
            return self.adam(name, g, step)
        if self.p["optimizer"] == "sgd":
            m = self.state[name].setdefault("m", torch.zeros_like(g)).mul_(float(self.p["sgd.momentum"])).add_(g)
            return m
        if self.p["optimizer"] == "muon" and self.kind(name) == "matrix":
            return self.muon(name, g)
        return self.adam(name, g, step)

    def overrides(self, name):
        return name.split(".")[-1] in ("w_q", "w_k")

    def factor(self, key, name):
        value = self.p["override." + key]
        return float(value.split(":")[1]) if value and self.overrides(name) else 1.0

    # --- stabilisers ----------------------------------------------------------------------------------------

    def blocks(self, l):
        """name -> (rows of one block, blocks) of the query and key weights."""
        a = f"blocks.{l}.attn."
        if self.mla:
            return {a + "w_qc": self.Dh, a + "w_qr": self.Dr, a + "w_kc": self.Dh, a + "w_kr": self.Dr}
        return {a + "w_q": self.Dh, a + "w_k": self.Dh}

    def block_norms(self, name, rows):
        return torch.stack([b.norm() for b in self.w[name].detach().split(rows)])

    def quack_partner(self, l):
        """QuacK (arXiv 2511.21377, sec. 3 and Alg. 2): what each block of rows is multiplied with."""
        a = f"blocks.{l}.attn."
        n = {c.split("_")[-1]: self.block_norms(c, rows) for c, rows in self.blocks(l).items()}
        if not self.mla:
            group = torch.tensor([h * self.G // self.H for h in range(self.H)])
            return {a + "w_q": n["k"][group], a + "w_k": torch.stack([n["q"][group == g].max() for g in range(self.G)])}
        dq = self.w[a + "w_dq"].detach().norm() if self.Rq else 1.0
        dkv = self.w[a + "w_dkv"].detach().norm()
        return {a + "w_qc": n["kc"] * dq * dkv, a + "w_kc": n["qc"] * dq * dkv, a + "w_qr": n["kr"].expand(self.H) * dq,
                a + "w_kr": n["qr"].max()[None] * dq}

    def quack_rates(self):
        rates = {}
        for l in range(self.L):
            now = self.quack_partner(l)
            start = self.__dict__.setdefault("quack_start", {}).setdefault(l, {k: v.clone() for k, v in now.items()})
            for name, rows in self.blocks(l).items():
                f = float(self.p["quack.tau"]) * start[name] / now[name]
                rates[name] = f.repeat_interleave(rows)[:, None]
        return rates

    def spectral_clip(self):
        bound = float(self.p["spectral_clip.bound"])
        for l in range(self.L):
            for name, rows in self.blocks(l).items():
                w = self.w[name]
                for b in w.split(rows if self.p["spectral_clip.scope"] == "head" else w.shape[0]):
                    u, sigma, v = torch.linalg.svd(b, full_matrices=False)
                    b.copy_(u @ torch.diag(sigma.clamp(max=bound)) @ v)

    def clip_latent(self, l, gamma):
        """K2, arXiv 2507.20534, Algorithm 1 for MLA, and the naive rules that clip the shared key too."""
        alpha, rule, a = float(self.p["qk_clip.alpha"]), self.p["qk_clip.mla"], f"blocks.{l}.attn."
        qr, kr = {"exact": (gamma, torch.ones(1)), "kr_layer": (gamma ** alpha, gamma.min()[None] ** (1 - alpha)),
                  "kr_head": (gamma ** alpha, gamma.prod()[None] ** (1 - alpha))}[rule]
        for c, f, rows in (("qc", gamma ** alpha, self.Dh), ("kc", gamma ** (1 - alpha), self.Dh), ("qr", qr, self.Dr),
                           ("kr", kr, self.Dr)):
            self.w[a + "w_" + c].mul_(f.to(self.dtype).repeat_interleave(rows)[:, None])

    def clip(self, tops):
        """QK-Clip (K2, arXiv 2507.20534, Algorithm 1; per layer: kexue.fm/archives/11126)."""
        tau, alpha = float(self.p["qk_clip.tau"]), float(self.p["qk_clip.alpha"])
        for l in range(self.L):
            s = tops[l]
            if self.p["qk_clip.scope"] == "layer":
                s = s.max().expand_as(s)
            gamma = torch.where(s > tau, tau / s, torch.ones_like(s))
            if self.mla:
                self.clip_latent(l, gamma)
                continue
            group = torch.tensor([h * self.G // self.H for h in range(self.H)])
            least = torch.stack([gamma[group == g].min() for g in range(self.G)])
            rule = self.p["qk_clip.gqa"]
            if self.G == self.H:
                q, k = gamma ** alpha, gamma ** (1 - alpha)
            elif rule == "group_max":
                q, k = least[group] ** alpha, least ** (1 - alpha)
            elif rule == "own_q_min_k":
                q, k = gamma ** alpha, least ** (1 - alpha)
            elif rule == "q_only":
                q, k = gamma, torch.ones_like(least)
            else:
                q, k = gamma * least[group] ** (alpha - 1), least ** (1 - alpha)
            for c, f in (("q", q), ("k", k)):
                f = f.to(self.dtype).repeat_interleave(self.Dh)
                for name, rows in ((f"blocks.{l}.attn.w_{c}", f[:, None]), (f"blocks.{l}.attn.b_{c}", f)):
                    if name in self.w:
                        self.w[name].mul_(rows)
                        if self.p["qk_clip.momentum"] == "scale" and "m" in self.state[name]:
                            self.state[name]["m"].mul_(rows)

    def clip_outputs(self):
        """ "MaxOutput explosion -> clip W_o" (kexue.fm/archives/11126)."""
        tau = float(self.p["max_output_clip.tau"])
        for l, top in enumerate(self.outputs):
            for name in (f"blocks.{l}.attn.w_o", f"blocks.{l}.attn.b_o"):
                if top > tau and name in self.w:
                    self.w[name].mul_(tau / top)

    def step(self, step, tokens):
        for w in self.w.values():
            w.grad = None
        loss, total, tops = self.forward(tokens)
        total.backward()
        with torch.no_grad():
            norm = math.sqrt(sum(float(w.grad.pow(2).sum()) for w in self.w.values()))
            limit = float(self.p["train.grad_clip"])
            factor = limit / norm if 0 < limit < norm else 1.0
            lr = self.rate(step)
            clip_tops = self.tops_abs if self.p.get("qk_clip.maximum") == "absolute" else tops
            if "qk_clip" in self.stack and self.p["qk_clip.when"] == "before":
                self.clip(clip_tops)
            rates = self.quack_rates() if "quack" in self.stack else {}
            for name, w in self.w.items():
                decays = self.kind(name) in ("matrix", "embed", "head")
                d = self.direction(name, w.grad * factor, step)
                rate = lr * self.factor("lr", name) * rates.get(name, 1.0)
                decay = float(self.p["train.weight_decay"]) * self.factor("weight_decay", name) * decays
                w.mul_(1 - rate * decay).sub_(rate * d)
            if "qk_clip" in self.stack and self.p["qk_clip.when"] == "after":
                self.clip(clip_tops)
            if "max_output_clip" in self.stack:
                self.clip_outputs()
            if "spectral_clip" in self.stack:
                self.spectral_clip()
        return [float(loss), norm] + [float(t) for t in tops.flatten()]


# --- files ------------------------------------------------------------------------------------------------


def text(v):
    return v.decode() if isinstance(v, bytes) else str(v)


def case_values(program, config):
    with tempfile.TemporaryDirectory() as d:
        run = d + "/run.h5"
        subprocess.run([program, "run", "-q", "record.path=" + run, "record.batches=1", "checkpoint.keep=all",
                        "checkpoint.every=0"] + config.split(), check=True)
        with h5py.File(run) as f:
            p = {k: text(v) for k, v in f["parameters"].attrs.items()}
            tokens = torch.tensor(f["batches/tokens"][:].astype(np.int64))
        with h5py.File(d + "/run.ckpt/step-00000000.h5") as f:
            drawn = {}
            f["params"].visititems(lambda n, x: drawn.update({n: x[:]})
                                   if isinstance(x, h5py.Dataset) and "quack" not in n else None)
    order = sorted(drawn, key=declared)
    runs = [Run(p, order, dtype) for dtype in (torch.float64, torch.float32)]
    for n in order:  # the same weights, to float32's rounding
        mine = runs[0].w[n].detach().numpy().ravel()
        assert np.allclose(mine, drawn[n].ravel(), rtol=1e-6, atol=1e-7), f"{n}: drawn differently"
    return p, [[r.step(s, t) for s, t in enumerate(tokens)] for r in runs]


def declared(name):
    """Sort key: the order in which the design lists the tensors, which is the order of drawing."""
    inner = ["attn.norm", "w_dq", "q_norm", "w_qc", "w_qr", "w_dkv", "kv_norm", "w_kc", "w_kr", "w_q", "w_k", "w_v",
             "w_o", "ffn.norm", "w_gate", "w_up", "w_down"]
    if name.startswith("blocks."):
        l = int(name.split(".")[1])
        for i, part in enumerate(inner):
            if name.endswith(part):
                return (1, l, i)
        return (1, l, 99)
    return (0, ["embed", "norm", "head"].index(name), 0)


def main():
    program, folder, wanted = sys.argv[1], sys.argv[2], sys.argv[3:] or list(CASES)
    torch.set_num_threads(1)
    for name in wanted:
        config = BASE + " " + CASES[name]
        p, (double, single) = case_values(program, config)
        heads = [f"l{l}h{h}" for l in range(int(p["model.layers"])) for h in range(int(p["model.heads"]))]
        off = [0.0] * len(double[0])
        with open(f"{folder}/{name}.tsv", "w") as out:
            out.write(f"# made by tests/golden/make_golden.py, PyTorch {torch.__version__} float64, numpy "
                      f"{np.__version__}, {datetime.date.today()}\n# config {config}\n"
                      "# columns value, then the largest |float32 - float64| of PyTorch so far\n"
                      "step\tloss\tloss_off\tgrad_norm\tgrad_norm_off\t" + "\t".join(f"{h}\t{h}_off" for h in heads) + "\n")
            for s, (a, b) in enumerate(zip(double, single)):
                off = [max(o, abs(x - y)) for o, x, y in zip(off, a, b)]
                out.write(f"{s}\t" + "\t".join(f"{x:.17g}\t{o:.2g}" for x, o in zip(a, off)) + "\n")
        print(name, "loss", double[0][0], "->", double[-1][0], "max logit", max(double[-1][2:]), "off", max(off))


if __name__ == "__main__":
    main()
