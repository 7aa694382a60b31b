# %% [markdown]
# # A tiny Llama explodes, and is clipped
#
# Trained with Muon, the largest attention logits of some heads grow for as long as training lasts (Kimi K2, arXiv
# 2507.20534). Here a small Llama is trained twice on a made-up language, as it is and with QK-Clip. Two lines watch it, two
# more clip it; nothing in them is special to this model: `watch` and `QKClip` take any that calls
# `scaled_dot_product_attention`.
#
# Queries and keys of a small model grow slowly, and a large learning rate stands in for a long run.
#
# This page is made from `tiny_llama.py`, which is a program, too: `STEPS=20 python tiny_llama.py` for a first look. All 200
# steps of both runs take about a minute on a laptop.

# %%
import os

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import maxlogit
import maxlogit.torch

STEPS, TAU, LR, SEED = (
    kind(os.environ.get(name, standard))
    for name, kind, standard in (("STEPS", int, 200), ("TAU", float, 30), ("LR", float, 0.03), ("SEED", int, 1))
)
FOLDER = os.environ.get("FOLDER", "runs")
torch.set_num_threads(1)  # so small a model is slower on several

# %% [markdown]
# The language is a chain: a token mostly follows from the one four places before. A head has to find that place.

# %%
VOCAB, CONTEXT, LAG = 64, 64, 4


def batch(generator: torch.Generator, rows: int = 16) -> Tensor:
    """Token ids [rows, CONTEXT + 1] of a chain in which a token mostly follows from the one LAG places before."""
    ids = torch.randint(VOCAB, (rows, CONTEXT + 1), generator=generator)
    noise = torch.rand((rows, CONTEXT + 1), generator=generator) < 0.2
    for i in range(LAG, CONTEXT + 1):
        ids[:, i] = torch.where(noise[:, i], ids[:, i], (5 * ids[:, i - LAG] + 3) % VOCAB)
    return ids


# %% [markdown]
# The model: norms before attention and SwiGLU, rotary positions, two heads of queries for a head of keys.


# %%
class Block(nn.Module):
    """Pre-norm attention with rotary positions and grouped keys, then SwiGLU."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q_proj = nn.Linear(width, heads * self.size, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def turn(self, x: Tensor) -> Tensor:
        """Rotary positions of x [batch, heads, positions, size]."""
        half = self.size // 2
        angle = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (
            project(y).unflatten(-1, (heads, self.size)).transpose(1, 2)
            for project, heads in ((self.q_proj, self.heads), (self.k_proj, self.kv_heads), (self.v_proj, self.kv_heads))
        )
        y = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o_proj(y.transpose(1, 2).flatten(2))
        y = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers: int = 2, width: int = 64, heads: int = 4, kv_heads: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.layers = nn.ModuleList([Block(width, heads, kv_heads) for _ in range(layers)])
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, VOCAB, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


# %% [markdown]
# Muon takes the momentum's direction with all its singular values made about 1; embeddings and head have Adam.


# %%
class Muon(torch.optim.Optimizer):
    """Muon (kellerjordan.github.io/posts/muon) with the update's size of Moonlight (arXiv 2502.16982 sec. 2.2)."""

    def __init__(self, params, lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                m.mul_(group["momentum"]).add_(p.grad)
                x = p.grad + group["momentum"] * m
                x = x.T if p.shape[0] > p.shape[1] else x
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    a = x @ x.T
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                x = x.T if p.shape[0] > p.shape[1] else x
                p.sub_(x, alpha=group["lr"] * 0.2 * max(p.shape) ** 0.5)


# %% [markdown]
# A training loop as there are many. The lines of `maxlogit` are `watch`, `QKClip`, `clip.step()` behind the optimizer's, and
# `recorder.log`.


# %%
def train(path: str, tau: float) -> None:
    torch.manual_seed(SEED)
    model = Llama()
    matrices = [p for p in model.layers.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if not any(p is m for m in matrices)]
    optimizers = [Muon(matrices, LR), torch.optim.Adam(rest, lr=0.1 * LR)]
    config = {"optimizer": "muon", "train": {"lr": LR, "seed": SEED}, "stabilizers": "qk_clip" if tau else "none"}
    with maxlogit.Recorder(path, config, mode="replace", data="a chain of 64 symbols") as recorder:
        maxlogit.torch.watch(model, recorder, spectra_every=max(1, STEPS // 20))
        clip = maxlogit.torch.QKClip(model, tau=tau, recorder=recorder) if tau else None
        generator = torch.Generator().manual_seed(SEED)
        for step in range(STEPS):
            ids = batch(generator)
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            if clip:
                clip.step()
            recorder.log(step, loss=loss)


PATHS = {name: f"{FOLDER}/{name}-seed{SEED}.h5" for name in ("muon", "muonclip")}
train(PATHS["muon"], 0)
train(PATHS["muonclip"], TAU)

# %% [markdown]
# What was recorded is a file a run. `maxlogit show`, `plot`, `compare` and `serve` take it as they take runs of `maxlogit
# run`; in Python it is numpy.

# %%
runs = {name: maxlogit.open(path) for name, path in PATHS.items()}
for name, run in runs.items():
    logits = run["attn/max_logit"]  # values [step, layer, head]
    clips = sum(e.kind == "clip" for e in run.events)
    print(
        f"{name:9} loss {run['loss'].values[-1]:.3f}  max logit: last {logits.values[-1].max():.1f}, "
        f"peak {logits.values.max():.1f}  {clips} clips"
    )

# %% [markdown]
# The largest logits of each head (thin) and of all (thick), and the losses. Without a clip logits grow and grow; with it they
# stay near tau, the broken line: a step may pass it, then the head's weights shrink by as much. The losses tell whether that
# costs anything.

# %%
try:
    import matplotlib.pyplot as plt
except ImportError:
    plt = None
    print("no figures here: they need matplotlib")
COLOUR = {"muon": "#0072B2", "muonclip": "#56B4E9"}


def finish(figure: "plt.Figure", name: str) -> None:
    for axes in figure.axes:
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(f"{FOLDER}/{name}.png", dpi=80)
    if plt.get_backend().lower() != "agg":
        plt.show()


if plt:
    figure, (above, below) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for name, run in runs.items():
        logits, loss = run["attn/max_logit"], run["loss"]
        heads = logits.values.reshape(len(logits.steps), -1)
        above.plot(logits.steps, heads, color=COLOUR[name], linewidth=0.6, alpha=0.5)
        above.plot(logits.steps, heads.max(1), color=COLOUR[name], linewidth=2, label=name)
        below.plot(loss.steps, loss.values, color=COLOUR[name], label=name)
    above.axhline(TAU, color="black", linestyle="--", linewidth=1)
    above.set(yscale="log", ylabel="max logit (nat)")
    below.set(ylabel="loss (nat/token)")
    below.legend(frameon=False)
    finish(figure, "logits")

# %% [markdown]
# A head's logits are a bilinear form of its inputs, $s = x^\top W_q^\top W_k x' / \sqrt{d}$. `watch` records the spectra of
# each head's form as well: the clip holds its largest singular value, which is what had grown.

# %%
if plt:
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for name, run in runs.items():
        norm = run["head_qk/spectral_norm"]
        lines = axes.plot(norm.steps, norm.values.reshape(len(norm.steps), -1), color=COLOUR[name], linewidth=1.2)
        lines[0].set_label(name)
    axes.set(yscale="log", ylabel="largest singular value of each head's form")
    axes.legend(frameon=False)
    finish(figure, "spectra")
