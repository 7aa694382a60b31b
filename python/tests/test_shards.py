"""QK-Clip of weights that lie in pieces on two processes, heads cut in the middle or in uneven pieces: bit for bit the
clip of whole weights, and of the moments of their optimizer."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from unittest import mock

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

import maxlogit.torch as mt

WIDTH, HEADS, GROUPS, SIZE = 10, 6, 3, 5  # 30 and 15 rows: two processes cut head 3 and group 1


class Attention(nn.Module):
    """Whole weights make its logits, wherever their pieces are."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(WIDTH, HEADS * SIZE), nn.Linear(WIDTH, GROUPS * SIZE, bias=False)

    def forward(self, x):
        whole = [w.full_tensor() if hasattr(w, "full_tensor") else w for w in self.parameters()]
        q, k = nn.functional.linear(x, whole[0], whole[1]), nn.functional.linear(x, whole[2])
        mt.see(*(y.unflatten(-1, (-1, SIZE)).transpose(1, 2) for y in (q, k)), causal=True)
        return q.sum() + k.sum()


def clipped(placements, mesh=None, **rule):
    """All weights, their moments and the factors after two clips, of weights that are placed so (None: whole)."""
    torch.manual_seed(0)
    model = Attention()
    if placements is not None:
        from torch.distributed.tensor import distribute_tensor

        for module in (model.q_proj, model.k_proj):
            for name, w in list(module.named_parameters()):
                placed = [p if w.dim() > 1 or not p.is_shard(1) else placements[-1].__class__(0) for p in placements]
                setattr(module, name, nn.Parameter(distribute_tensor(w.detach(), mesh, placed)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    clip = mt.QKClip(model, tau=0.4, optimizer=optimizer, **rule)
    factors = []
    for _ in range(2):
        x = torch.randn(2, 7, WIDTH)
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
        clip.step()
        factors.append(torch.from_numpy(clip.gamma.copy()))
    kept = [*model.parameters(), *(optimizer.state[p]["momentum_buffer"] for p in model.parameters())]
    return [*((w.full_tensor() if hasattr(w, "full_tensor") else w).detach() for w in kept), *factors]


RULES = [{"gqa": gqa} for gqa in ("q_only", "group_max", "own_q_min_k", "compensated")] + [{"scope": "layer"}]


def of_rank(path, rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    line, plane = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (1, 2))
    for rule in RULES:
        truth = clipped(None, **rule)
        factors = torch.stack(truth[-2:])
        assert (factors < 1).any() and ("scope" in rule or (factors == 1).any()), factors
        for mesh, placed in (
            (line, [Shard(0)]),
            (line, [Shard(1)]),
            (line, [Replicate()]),
            (plane, [Replicate(), Shard(0)]),
            (plane, [Shard(0), Shard(0)]),
        ):
            for i, (found, whole) in enumerate(zip(clipped(placed, mesh, **rule), truth)):
                assert torch.equal(found, whole), (rule, placed, i, found, whole)
    torch.distributed.destroy_process_group()


@unittest.skipUnless(torch.distributed.is_available() and torch.distributed.is_gloo_available(), "no gloo here")
class Shards(unittest.TestCase):
    CHILD = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from test_shards import of_rank

        of_rank(sys.argv[2], int(sys.argv[3]))
    """

    def test_pieces_are_clipped_as_the_whole(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, OMP_NUM_THREADS="1"):
            command = [sys.executable, "-c", textwrap.dedent(self.CHILD), str(Path(__file__).parent), folder + "/meet"]
            children = [
                subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for rank in range(2)
            ]
            for child in children:
                said = child.communicate(timeout=300)[0]
                self.assertEqual(child.returncode, 0, said)


if __name__ == "__main__":
    unittest.main()
