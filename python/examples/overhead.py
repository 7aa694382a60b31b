"""What watching costs: processor seconds of a training step with and without, in turn, and their ratio.

python overhead.py [--context 1024] [--every 1 10]
"""

import argparse
import statistics
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import maxlogit
import maxlogit.torch


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.ffn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.c_attn(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ffn_norm(x))))


class Model(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, vocab: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab, width), nn.Linear(width, vocab)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(ids)))


def measure(options: argparse.Namespace, every: int) -> None:
    torch.manual_seed(1)
    model = Model(options.layers, options.width, options.heads, options.vocab)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(options.vocab, (options.batch, options.context + 1))

    def steps(recorder: maxlogit.Recorder, first: int) -> float:
        begin = time.process_time()
        for step in range(first, first + every):
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recorder.log(step, loss=loss)
        return (time.process_time() - begin) / every

    with tempfile.TemporaryDirectory() as folder:
        plain, watched = (maxlogit.Recorder(f"{folder}/{name}.h5") for name in ("plain", "watched"))
        watch = maxlogit.torch.watch(model, watched, every=every, spectra_every=0)
        plain_seconds, watched_seconds = [], []
        for i in range(options.repeats):
            for look in (False, True) if i % 2 else (True, False):
                watch.reader.active = look
                recorder, seconds = (watched, watched_seconds) if look else (plain, plain_seconds)
                seconds.append(steps(recorder, i * every))
        plain.close()
        watched.close()
    # the least of many: what else the machine does only adds; and the middle of all pairs
    one, other = min(plain_seconds), min(watched_seconds)
    middle = statistics.median(b / a for a, b in zip(plain_seconds, watched_seconds))
    print(
        f"every {every}: {one:.3f} s a step, watched {other:.3f} s ({100 * (other / one - 1):+.1f} %; "
        f"of pairs the middle is {100 * (middle - 1):+.1f} %)",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, standard in {
        "context": 1024,
        "layers": 4,
        "width": 256,
        "heads": 4,
        "batch": 4,
        "vocab": 1000,
        "repeats": 15,
        "threads": 1,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=standard)
    parser.add_argument("--every", type=int, nargs="+", default=[1, 10])
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for interval in given.every:
        measure(given, interval)
