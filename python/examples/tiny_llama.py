"""A tiny Llama, trained with Muon: its logits explode; with two lines more they are clipped.

    python tiny_llama.py                  # two runs of 200 steps, about a minute on a laptop
    maxlogit show runs                    # or --steps 20 for a first look
    maxlogit plot -t runs

Queries and keys of a small model grow slowly, and a large learning rate stands in for a long run. Nothing here is special
to this model: `watch` and `QKClip` take any that calls scaled_dot_product_attention.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import maxlogit
import maxlogit.torch

VOCAB, CONTEXT, LAG = 64, 64, 4


def batch(generator: torch.Generator, rows: int = 16) -> Tensor:
    """Token ids [rows, CONTEXT + 1] of a chain in which a token mostly follows from the one LAG places before."""
    ids = torch.randint(VOCAB, (rows, CONTEXT + 1), generator=generator)
    noise = torch.rand((rows, CONTEXT + 1), generator=generator) < 0.2
    for i in range(LAG, CONTEXT + 1):
        ids[:, i] = torch.where(noise[:, i], ids[:, i], (5 * ids[:, i - LAG] + 3) % VOCAB)
    return ids


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


def train(path: str, steps: int, tau: float, lr: float, seed: int) -> None:
    torch.manual_seed(seed)
    model = Llama()
    matrices = [p for p in model.layers.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if not any(p is m for m in matrices)]
    optimizers = [Muon(matrices, lr), torch.optim.Adam(rest, lr=0.1 * lr)]
    config = {"optimizer": "muon", "train": {"lr": lr, "seed": seed}, "stabilizers": "qk_clip" if tau else "none"}
    with maxlogit.Recorder(path, config, mode="replace", data="a chain of 64 symbols") as recorder:
        maxlogit.torch.watch(model, recorder, spectra_every=50)
        clip = maxlogit.torch.QKClip(model, tau=tau, recorder=recorder) if tau else None
        generator = torch.Generator().manual_seed(seed)
        for step in range(steps):
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
    logits = maxlogit.open(path)["attn/max_logit"].values
    print(f"{path}: loss {loss.item():.3f}, max logit {logits[-1].max():.1f}, peak {logits.max():.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tau", type=float, default=30)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default="runs")
    options = parser.parse_args()
    torch.set_num_threads(1)  # so small a model is slower on several
    for name, tau in (("muon", 0.0), ("muonclip", options.tau)):
        path = f"{options.folder}/{name}-seed{options.seed}.h5"
        train(path, options.steps, tau, options.lr, options.seed)
