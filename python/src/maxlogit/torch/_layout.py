"""Which rows of which weights make the queries and keys of which head."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn


class Rows(NamedTuple):
    """Outputs of a projection: ``parts[i]`` (first, count) belongs to head (of ``k``: to key/value head) i. Roles: q, k;
    of latent attention q and k (content), q_rope, and k_rope, one part that all heads share. ``weight`` has its outputs
    in dimension ``dim``; ``bias`` may be None."""

    role: str
    weight: nn.Parameter
    bias: Optional[nn.Parameter]
    dim: int
    parts: list[tuple[int, int]]


class UnknownLayout(ValueError):
    """A module whose projections are not known; the message says how to tell."""


def _projection(module: nn.Module, name: str) -> tuple[nn.Parameter, Optional[nn.Parameter], int]:
    """Weight, bias, and the dimension of its outputs: 0, but 1 of the Conv1D of GPT-2."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    weight = getattr(found, "weight", None)
    if not isinstance(weight, nn.Parameter) or weight.dim() != 2:
        raise UnknownLayout(f"has no projection {name!r}")
    return weight, getattr(found, "bias", None), int(type(found).__name__ == "Conv1D")


def _has(module: nn.Module, *names: str) -> bool:
    return all(isinstance(getattr(module, name, None), nn.Module) for name in names)


def _heads(first: int, heads: int, size: int, step: int = 0) -> list[tuple[int, int]]:
    return [(first + h * (step or size), size) for h in range(heads)]


@dataclass(frozen=True)
class Separate:
    """Projections of their own, heads one after the other: ``Separate("wq", "wk")``."""

    q: str = "q_proj"
    k: str = "k_proj"

    def __call__(self, module: nn.Module, heads: int, size: int) -> list[Rows]:
        rows = []
        for role, name in (("q", self.q), ("k", self.k)):
            weight, bias, dim = _projection(module, name)
            count, rest = divmod(weight.shape[dim], size)
            if rest or (role == "q" and count != heads):
                raise UnknownLayout(f"has a {name} of {weight.shape[dim]} outputs, and heads of {size}")
            rows.append(Rows(role, weight, bias, dim, _heads(0, count, size)))
        return rows


@dataclass(frozen=True)
class Fused:
    """One projection for all three. ``order``: ``qkv`` (all queries, all keys, all values, as GPT-2 has it), ``heads``
    (query, key, value of the first head, then of the second, as GPT-NeoX has it). ``kv_heads``: of ``qkv``, where fewer
    than heads."""

    name: str = "c_attn"
    order: str = "qkv"
    kv_heads: int = 0

    def __call__(self, module: nn.Module, heads: int, size: int) -> list[Rows]:
        weight, bias, dim = _projection(module, self.name)
        outputs, groups = weight.shape[dim], self.kv_heads or heads
        if self.order not in ("qkv", "heads"):
            raise UnknownLayout(f"is told order {self.order!r}: qkv, heads")
        if outputs != (heads + 2 * groups) * size or (self.order == "heads" and groups != heads):
            raise UnknownLayout(
                f"has a {self.name} of {outputs} outputs: not {heads} heads of {size} with {groups} keys and values"
            )
        if self.order == "qkv":
            q, k = _heads(0, heads, size), _heads(heads * size, groups, size)
        else:
            q, k = _heads(0, heads, size, 3 * size), _heads(size, heads, size, 3 * size)
        return [Rows("q", weight, bias, dim, q), Rows("k", weight, bias, dim, k)]


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention as the modelling code of DeepSeek and Kimi has it."""

    def __call__(self, module: nn.Module, heads: int, size: int) -> list[Rows]:
        sizes = [getattr(module, name, None) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")]
        if not all(isinstance(n, int) for n in sizes) or sizes[0] + sizes[1] != size:  # type: ignore[operator]
            raise UnknownLayout("has kv_b_proj, and not the sizes of latent attention")
        content, rope, value = (int(n) for n in sizes if n is not None)
        q, q_bias, _ = _projection(module, "q_b_proj" if _has(module, "q_b_proj") else "q_proj")
        k, k_bias, _ = _projection(module, "kv_b_proj")
        shared, shared_bias, _ = _projection(module, "kv_a_proj_with_mqa")
        return [
            Rows("q", q, q_bias, 0, _heads(0, heads, content, size)),
            Rows("q_rope", q, q_bias, 0, _heads(content, heads, rope, size)),
            Rows("k", k, k_bias, 0, _heads(0, heads, content, content + value)),
            Rows("k_rope", shared, shared_bias, 0, [(shared.shape[0] - rope, rope)]),
        ]


def _multihead(module: nn.MultiheadAttention, heads: int, size: int) -> list[Rows]:
    width, bias = module.embed_dim, module.in_proj_bias
    q, k = _heads(0, heads, size), _heads(width, heads, size)
    if module._qkv_same_embed_dim:
        weight = module.in_proj_weight
        return [Rows("q", weight, bias, 0, q), Rows("k", weight, bias, 0, k)]
    rows = [
        Rows("q", module.q_proj_weight, None, 0, q),
        Rows("k", module.k_proj_weight, None, 0, _heads(0, heads, size)),
    ]
    if bias is not None:  # is of all three, whatever the weights are
        raise UnknownLayout("has weights of their own and one bias: bias=False can be split")
    return rows


Layout = Callable[[nn.Module, int, int], list[Rows]]
Layouts = Mapping[str, Layout]

_PAIRS = (("q_proj", "k_proj"), ("wq", "wk"), ("w_q", "w_k"), ("query", "key"), ("to_q", "to_k"), ("q_lin", "k_lin"))
_FUSED = ("qkv", "Wqkv", "qkv_proj", "query_key_value", "in_proj", "to_qkv", "c_attn")
_HOW = (
    "; tell it: layouts={{'{name}': maxlogit.torch.Fused('NAME', order='qkv')}}, "
    "or Separate('Q', 'K'), or a function of (module, heads, size) that gives its Rows; * stands for any text in a name"
)


def _guess(module: nn.Module) -> Layout:
    if isinstance(module, nn.MultiheadAttention):
        return _multihead  # type: ignore[return-value]
    if _has(module, "kv_b_proj"):
        return Latent()
    for q, k in _PAIRS:
        if _has(module, q, k):
            return Separate(q, k)
    if _has(module, "c_attn"):
        bigcode = type(module).__name__.startswith("GPTBigCode")  # another order where it has many keys
        one_key = getattr(module, "multi_query", None) if bigcode else None
        return Fused("c_attn", order="heads" if one_key is False else "qkv", kv_heads=int(one_key is True))
    if _has(module, "qkv_proj"):  # Phi-3: all queries, all keys, all values
        head_dim, groups = getattr(module, "head_dim", None), getattr(module, "num_key_value_heads", None)
        config = getattr(module, "config", None)
        groups = groups or getattr(config, "num_key_value_heads", None)
        if isinstance(head_dim, int) and isinstance(groups, int):
            return Fused("qkv_proj", kv_heads=groups)
    fused = [name for name in _FUSED if _has(module, name)]
    if fused:
        raise UnknownLayout(f"has one projection {fused[0]}, and how its outputs are split is not known")
    raise UnknownLayout("has no projections of queries and keys that are known")


def layout_of(name: str, module: nn.Module, heads: int, size: int, layouts: Optional[Layouts] = None) -> list[Rows]:
    """The rows of a module's heads; UnknownLayout names the module and says how to tell."""
    told = [layout for pattern, layout in (layouts or {}).items() if fnmatch.fnmatchcase(name, pattern)]
    try:
        return (told[0] if told else _guess(module))(module, heads, size)
    except UnknownLayout as problem:
        raise UnknownLayout(f"{name} ({type(module).__name__}) {problem}{_HOW.format(name=name)}") from None


def whole(x: Tensor) -> Tensor:
    """A sharded tensor as one, on every rank."""
    full = getattr(x, "full_tensor", None)
    return x if full is None else full()


def part_of_heads(module: nn.Module, heads: int, size: int) -> tuple[int, int]:
    """Of a module that runs and has seen so many heads: which part of all heads they are, and how many parts there are.
    While a module runs only those weights are in pieces whose outputs are (tensor parallel). A part of it that FSDP shards
    by itself may be in FSDP's pieces, too, whose dimension of the mesh comes first."""
    apart = {
        p
        for part in module.modules()
        if part is not module and any(kind.__name__ == "FSDPModule" for kind in type(part).__mro__)
        for p in part.parameters()
    }
    for parameter in module.parameters():
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is None or parameter.dim() != 2:
            continue
        placements = parameter.placements  # type: ignore[attr-defined]
        cut = [dim for dim, placement in enumerate(placements) if not placement.is_replicate()]
        for dim in cut[parameter in apart :]:
            parts = mesh.size(dim)
            if placements[dim].is_shard(0) and parameter.shape[0] % (heads * parts * size) == 0:
                return mesh.get_local_rank(dim), parts
    return 0, 1


def blocks(rows: Rows) -> list[npt.NDArray[np.float32]]:
    """The rows of each head, [count, inputs]."""
    weight = whole(rows.weight.detach())
    weight = weight.T if rows.dim else weight
    array: npt.NDArray[np.float32] = weight.float().cpu().numpy()
    return [array[first : first + count] for first, count in rows.parts]


def scale_rows(parameter: Union[Tensor, nn.Parameter], dim: int, factor: npt.NDArray[np.float32]) -> None:
    """parameter *= factor along dim, in place; of a sharded one each rank its own part."""
    shape = [1] * parameter.dim()
    shape[dim] = len(factor)
    by = torch.from_numpy(factor).to(device=parameter.device).reshape(shape)
    mesh = getattr(parameter, "device_mesh", None)
    with torch.no_grad():
        if mesh is None:
            parameter.mul_(by.to(parameter.dtype))
            return
        from torch.distributed.tensor import DTensor, Replicate

        copies = [Replicate() for _ in range(mesh.ndim)]
        parameter.mul_(DTensor.from_local(by.to(parameter.dtype), mesh, copies, run_check=False))
