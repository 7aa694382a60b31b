"""QK-Clip of weights that lie in pieces on four processes, heads cut in the middle or in uneven pieces, of projections of
their own or of a fused one, two heads a key: bit for bit the clip of whole weights, and of the moments of their optimizer.
By distribute_tensor, and trained under fully_shard (FSDP2), where each process has its part of the batch."""

import tempfile
import unittest
import warnings

import numpy as np

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

import maxlogit
import maxlogit.torch as mt
from ranks import run_as_ranks

RANKS, WIDTH, HEADS, SIZE = 4, 12, 6, 5
# torch 2.6's fully_shard asks of a CPU's stream what it has only from 2.7 on
IS_SHARDED = hasattr(torch.cpu.Stream, "record_event")


FOUND = {}  # parameters of a model, by its kind


class Attention(nn.Module):
    """Whole weights make its logits, wherever their pieces are. Four processes have rows of 30 and 10 as 8, 8, 8, 6 and
    3, 3, 3, 1, of 50 as 13, 13, 13, 11, of 90 as 23, 23, 23, 21: each of them cuts a head."""

    def __init__(self, fused=None):
        super().__init__()
        self.fused, self.groups = fused, HEADS if fused == "heads" else 2
        if fused:
            self.c_attn = nn.Linear(WIDTH, (HEADS + 2 * self.groups) * SIZE)
        else:
            self.q_proj, self.k_proj = nn.Linear(WIDTH, HEADS * SIZE), nn.Linear(WIDTH, self.groups * SIZE, bias=False)

    def forward(self, x):
        whole = [w.full_tensor() if hasattr(w, "full_tensor") else w for w in self.parameters()]
        if self.fused:
            y = nn.functional.linear(x, *whole)
            if self.fused == "qkv":
                q, k, _ = y.split([n * SIZE for n in (HEADS, self.groups, self.groups)], -1)
            else:
                q, k, _ = (part.flatten(-2) for part in y.unflatten(-1, (HEADS, 3, SIZE)).unbind(-2))
        else:
            q, k = nn.functional.linear(x, whole[0], whole[1]), nn.functional.linear(x, whole[2])
        mt.see(*(y.unflatten(-1, (-1, SIZE)).transpose(1, 2) for y in (q, k)), causal=True)
        return q.sum() + k.sum()


def placed(model, placements, mesh):
    from torch.distributed.tensor import Shard, distribute_tensor

    for module in model.children():
        for name, w in list(module.named_parameters()):
            own = [Shard(0) if w.dim() == 1 and p.is_shard() else p for p in placements]
            setattr(module, name, nn.Parameter(distribute_tensor(w.detach(), mesh, own)))


def clipped(place=None, rank=None, fused=None, **rule):
    """All weights, their moments and the factors after two clips; place(model): cuts its weights; rank: has a part of the
    batch alone, and FSDP takes the mean of gradients."""
    torch.manual_seed(0)
    model = Attention(fused)
    if place:
        place(model)
    # products and sums of such numbers are exact, in whatever order, with or without a fused multiply-add
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-7, momentum=0.5)
    clip = mt.QKClip(model, tau=1, optimizer=optimizer, **rule)
    if place and rank is None:  # weights that a forward pass joins by itself cannot be followed
        clip._states = dict(FOUND[fused])
    factors = []
    for _ in range(2):
        parts = torch.randint(-16, 17, (RANKS, 1, 7, WIDTH)) / 8
        optimizer.zero_grad()
        for part in parts if rank is None else parts[rank : rank + 1]:
            loss = model(part)
            (loss / RANKS if rank is None else loss).backward()
        optimizer.step()
        clip.step()
        factors.append(torch.from_numpy(clip.gamma.copy()))
    FOUND[fused] = clip._states
    kept = [*model.parameters(), *(optimizer.state[p]["momentum_buffer"] for p in model.parameters())]
    return [*((w.full_tensor() if hasattr(w, "full_tensor") else w).detach() for w in kept), *factors]


MODELS = [{"gqa": gqa} for gqa in ("q_only", "group_max", "own_q_min_k", "compensated")]
MODELS += [{"scope": "layer"}, {"fused": "qkv"}, {"fused": "qkv", "gqa": "compensated"}, {"fused": "heads"}]


def of_rank(rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard

    line, plane = (
        init_device_mesh("cpu", (RANKS,)),
        init_device_mesh("cpu", (2, RANKS // 2), mesh_dim_names=("copies", "pieces")),
    )
    ways = {
        f"{p}": (lambda model, m=m, p=p: placed(model, p, m), None)
        for m, p in (
            (line, [Shard(0)]),
            (line, [Shard(1)]),
            (line, [Replicate()]),
            (plane, [Replicate(), Shard(0)]),
            (plane, [Shard(0), Shard(0)]),
        )
    }
    if IS_SHARDED:
        from torch.distributed.fsdp import fully_shard

        ways["fully_shard"] = (lambda model: fully_shard(model, mesh=line), rank)
        ways["fully_shard, replicated twice"] = (lambda model: fully_shard(model, mesh=plane), rank)
        ways["fully_shard of inputs"] = (
            lambda model: fully_shard(model, mesh=line, shard_placement_fn=lambda w: Shard(w.dim() - 1)),
            rank,
        )
    for options in MODELS:
        truth = clipped(**options)
        factors = torch.stack(truth[-2:])
        assert (factors < 1).any() and ("scope" in options or (factors == 1).any()), factors
        for way, (place, part) in ways.items():
            for i, (found, whole) in enumerate(zip(clipped(place, part, **options), truth)):
                assert torch.equal(found, whole), (options, way, i, found, whole)


def of_fsdp1(rank, ranks, path):
    """It is recorded by the names of its modules; a clip refuses it by its name, and the remedy that it names works."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    from test_torch import Nano, batch, truth_of_nano

    for keeps in (False, True):
        torch.manual_seed(0)
        model = Nano()
        truth = np.maximum.reduce([truth_of_nano(model, batch(i)) for i in range(ranks)])
        options = {"device_id": torch.device("cpu"), "use_orig_params": keeps}
        for i, block in enumerate(model.blocks):
            model.blocks[i] = FullyShardedDataParallel(block, **options)
        model = FullyShardedDataParallel(model, **options)
        with maxlogit.Recorder(f"{path}{keeps}", rank=rank) as recorder:
            mt.watch(model, recorder, spectra_every=0)
            clip = mt.QKClip(model, tau=3)
            model(batch(rank)).sum().backward()
            try:
                clip.step()
            except mt.CannotClip as problem:
                for part in ("blocks.0", "FSDP1 joins weights to one parameter; fully_shard"):
                    assert part in str(problem), problem
            else:
                raise AssertionError("it was clipped")
            recorder.log(0, loss=1.0)
        if rank == 0:
            found = maxlogit.open(f"{path}{keeps}")["attn/max_logit"]
            assert found.places["layer"] == ["blocks.0", "blocks.1"], found.places
            np.testing.assert_allclose(found.values[0], truth, rtol=1e-5)


class OneKey(nn.Module):
    """Heads that share one key; several layers of a projection may lie in pieces."""

    def __init__(self, heads=HEADS):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, n * SIZE, bias=False) for n in (heads, 1, 1))
        self.up = nn.Linear(WIDTH, 4 * heads * SIZE)
        with torch.no_grad():
            self.q.weight[: heads * SIZE // 2].mul_(4)  # the heads of the first rank are larger
            self.k.weight.mul_(8)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (-1, SIZE)).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return y.sum() + self.up(x).sum()


def of_one_key(rank, ranks):
    """Tensor parallelism in which all ranks have the key, and each has its own queries."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, distribute_module
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (ranks,))

    def clipped(heads, parallel, is_tensor=False, gqa="q_only", is_spoiled=False):
        torch.manual_seed(0)
        model, x = OneKey(heads), torch.randn(2, 7, WIDTH)
        parallelize_module(model, mesh, {name: ColwiseParallel() for name in parallel})
        for module in (model.k, model.v) if is_tensor else ():
            distribute_module(
                module,
                mesh,
                input_fn=lambda _, x, mesh: (DTensor.from_local(x[0], mesh, [Replicate()], run_check=False),),
                output_fn=lambda _, y, mesh: y.to_local(),
            )
        clip = mt.QKClip(model, tau=1, gqa=gqa)
        if is_spoiled:  # what the other rank finds of its own heads is no use here
            own = model.q.weight.detach().to_local()
            kept = own.clone()
            own.fill_(torch.inf if rank == 0 else 1)
            model(x)
            assert clip.step() == 0
            own.copy_(kept)
        model(x).backward()
        assert clip.step() == heads
        return [clip.gamma, *(getattr(w, "full_tensor", lambda w=w: w)().detach() for w in model.parameters())]

    for heads in (2, 4):
        truth = clipped(heads, ())
        for is_tensor in (False, True):
            for i, (found, whole) in enumerate(zip(clipped(heads, "q", is_tensor), truth)):
                np.testing.assert_allclose(found, whole, rtol=1e-5, err_msg=f"{heads} heads, {is_tensor}, {i}")
        for i, (found, whole) in enumerate(zip(clipped(heads, "q", is_spoiled=True), truth)):
            np.testing.assert_allclose(found, whole, rtol=1e-5, err_msg=f"{heads} heads, {i}")
            for gqa in ("group_max", "own_q_min_k", "compensated"):
                try:
                    clipped(heads, "q", is_tensor, gqa)
                except mt.CannotClip as problem:
                    assert "gqa='q_only' can clip it" in str(problem), problem
                else:
                    raise AssertionError(f"{gqa} was clipped")
    try:
        clipped(4, ("up",))  # looks as if attention were parallel, too
    except mt.CannotClip as problem:
        assert "sharded over ranks in different ways" in str(problem), problem
    else:
        raise AssertionError("heads of other ranks were clipped")


def of_units(rank, ranks):
    """Parts of a module that calls attention itself are sharded by themselves: the module has no parallel heads for that."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    line = init_device_mesh("cpu", (ranks,))
    plane = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("data", "tensor"))
    torch.manual_seed(1)
    batch = torch.randn(ranks, 1, 7, WIDTH)

    def clipped(mesh, own, units, parts):
        torch.manual_seed(0)
        model = OneKey()
        if own:
            parallelize_module(model, plane["tensor"], {name: ColwiseParallel() for name in own})
        for unit in units:
            fully_shard(model.get_submodule(unit), mesh=mesh)
        clip = mt.QKClip(model, tau=1, on_unknown="skip")
        for x in parts:
            model(x).backward()
        clip.step()
        weights = [getattr(w, "full_tensor", lambda w=w: w)().detach() for w in model.parameters()]
        return clip.max_logit, weights, clip.refused

    whole, truth, _ = clipped(None, (), (), batch)
    for mesh, own, units, refused in (
        (line, (), ("up", ""), ""),
        (plane, (), ("up", ""), ""),
        (plane["data"], ("q",), ("up", ""), ""),
        (plane["data"], ("q", "up"), ("up", ""), ""),
        (line, (), ("q", "k", "v", "up", ""), "make one of the module with attention"),
        (plane["data"], ("q",), ("q", "k", "v", "up", ""), "make one of the module with attention"),
    ):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            parts = batch.chunk(ranks // 2)[rank // 2] if own else batch[rank : rank + 1]
            maxima, weights, reasons = clipped(mesh, own, units, parts)
        case = f"{mesh} {own} {units} {reasons}"
        np.testing.assert_allclose(maxima, whole, rtol=1e-5, err_msg=case)
        assert bool(reasons) == bool(refused) and all(refused in reason for reason in reasons.values()), case
        for found, wanted in zip(weights, truth) if not refused else ():
            np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=case)


class Differs(nn.Module):
    """Its passes are others on the first rank where ``how`` says so: each has the collectives of all the others."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleList(nn.Linear(WIDTH, 2 * SIZE) for _ in range(3)) for _ in range(2))
        self.how, self.passes = "", 0

    def forward(self, x):
        self.passes += 1
        for i, block in enumerate(self.blocks):
            q, k, v = (p(x).unflatten(-1, (2, SIZE)).transpose(1, 2) for p in block)
            if self.how == "refused":
                q = nn.functional.normalize(q, dim=-1) * 50
            if self.how == "none" or (self.how == "one" and i == 1):  # all weights have gradients
                y = v + 0 * (q + k)
            else:
                y = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + y.transpose(1, 2).flatten(2) @ torch.ones(2 * SIZE, WIDTH) / 50
        if self.how == "failed" and self.passes == 1:
            raise MemoryError("the extra pass alone")
        return x.square().mean()


def of_differing_ranks(rank, ranks, folder):
    """All ranks run the same passes, and have the same states after each step, whatever the first rank's batches show."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def gathered(value):
        everyone = [None] * ranks
        torch.distributed.all_gather_object(everyone, value)
        return everyone

    ways = {  # of each step each pass, of the first rank / of the other one
        "not finite": (("inf", ""), ("", "")),
        "the extra pass fails": (("failed", ""), ("", "")),
        "it fails, and no other follows": (("failed",), ("",)),
        "it fails on all ranks": (("failed/failed",), ("",)),
        "no attention": (("none", ""), ("", "")),
        "attention in the second pass alone": (("none", ""), ("none", "")),
        "one module refused": (("refused", ""), ("", "")),
        "frozen, and refused on one rank": (("refused",), ("",)),
        "a module that runs late": (("one/one", "one/one"), ("/one", "one/one"), ("", ""), ("", "")),
        "a module that runs late on one rank": (("one", "one"), ("one", ""), ("", "")),
    }
    for way, steps in ways.items():
        for is_logged_first in (False, True):
            case = way, is_logged_first
            torch.manual_seed(0)
            model = Differs()
            for block in model.blocks if way.startswith("frozen") else ():
                block[:2].requires_grad_(False)
            fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
            clip = mt.QKClip(model, tau=0.01, maximum="absolute", on_unknown="skip")
            found = []
            with maxlogit.Recorder(f"{folder}/{way}{is_logged_first}", rank=rank) as recorder:
                mt.watch(model, recorder, spectra_every=1)
                for step, hows in enumerate(steps):
                    for i, how in enumerate(hows):
                        x = torch.randn(2, 7, WIDTH)
                        model.how = [*how.split("/"), ""][rank]
                        if model.how == "inf":
                            x[0, 0, 0] = torch.inf
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            model(x).nan_to_num(0, 0, 0).backward()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        if is_logged_first:
                            recorder.log(step, loss=1.0)
                        clip.step()
                        if not is_logged_first:
                            recorder.log(step, loss=1.0)
                    found.append((model.passes, sorted(clip.refused), sorted(clip._states), clip.gamma.tobytes()))
            everyone = gathered(found)
            assert everyone[0] == everyone[1], (case, everyone)
            is_refused = "refused" in way or way == "it fails on all ranks"
            assert len(clip._states) == 2 and bool(clip.refused) == is_refused, (case, clip._states)
            assert is_refused or clip.clips, (case, clip.gamma)


@unittest.skipUnless(torch.distributed.is_available() and torch.distributed.is_gloo_available(), "no gloo here")
class Shards(unittest.TestCase):
    def test_fsdp1(self):
        with tempfile.TemporaryDirectory() as folder:
            run_as_ranks(self, 2, of_fsdp1, f"{folder}/run")

    def test_one_key_on_all_ranks(self):
        run_as_ranks(self, 2, of_one_key)

    @unittest.skipUnless(IS_SHARDED, "no fully_shard on a CPU before torch 2.7")
    def test_ranks_that_differ(self):
        with tempfile.TemporaryDirectory() as folder:
            run_as_ranks(self, 2, of_differing_ranks, folder, wait=60)

    @unittest.skipUnless(IS_SHARDED, "no fully_shard on a CPU before torch 2.7")
    def test_units_of_their_own(self):
        run_as_ranks(self, RANKS, of_units)

    def test_pieces_are_clipped_as_the_whole(self):
        run_as_ranks(self, RANKS, of_rank)
        if not IS_SHARDED:
            self.skipTest(
                f"torch {torch.__version__} has no fully_shard on a CPU (2.7 has): distribute_tensor alone was tried"
            )


if __name__ == "__main__":
    unittest.main()
