"""Which parameters produce a head's logits: found by experiment. The model runs once more, and each output of a linear layer
begins a graph of its own. Queries and keys that enter attention are followed back to the outputs that they depend on."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import random
import sys
from collections import Counter, OrderedDict, UserDict, deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from maxlogit.torch import _attention
from maxlogit.torch._attention import (
    Attention,
    Running,
    count_softmax,
    parameters_of,
    plain_call,
    see_bmm,
    see_sdpa,
    threads,
    warn_by_hand,
)
from maxlogit.torch._layout import part_of_heads

Ints = npt.NDArray[np.int64]


class Part(NamedTuple):
    """Rows of a parameter, which has its outputs in dimension ``dim``; ``path`` as `named_parameters` gives it, cleaned."""

    path: str
    dim: int
    rows: tuple[int, ...]


class Source(NamedTuple):
    """Where the logits of a row of heads come from: for each role the parts of each head (of ``k``: of each key head).
    Roles as in `Rows`. first: the first head (of keys) that is here, if others are on other ranks, which may have the same
    keys. zeros: a query, a key, or an output that makes them was zero, so that its scale could not be tried."""

    heads: int
    groups: int
    roles: dict[str, list[tuple[Part, ...]]]
    first: int = 0
    first_group: int = 0
    zeros: bool = False

    @property
    def parameters(self) -> set[str]:
        return {part.path for parts in self.roles.values() for head in parts for part in head}

    @property
    def is_part(self) -> bool:
        """Whether each rank has other queries (tensor parallel)."""
        return len(self.roles["q"]) < self.heads

    @property
    def has_common_keys(self) -> bool:
        """Whether all ranks have the same keys, and other queries."""
        return self.is_part and len(self.roles["k"]) == self.groups


class Refused(Exception):
    """Why the logits of a module cannot be clipped."""


class Frozen(Exception):
    """Nothing that makes the logits is trained."""


class NotFinite(Exception):
    """Queries or keys of this pass are not finite: another one will show what makes them."""


class _Weight(NamedTuple):
    parameter: Optional[nn.Parameter]
    dim: int
    first: int  # of the parameter's outputs, the first that is used
    computed: Any = None  # what stands in place of a parameter


class _Output(NamedTuple):
    leaf: Tensor
    weight: _Weight
    bias: Optional[_Weight]


def _writes_into_first(func: Any) -> bool:
    name: str = getattr(func, "__name__", "")
    return name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))


def _as_weight(x: Any, dim: int) -> _Weight:
    """A parameter, or rows of one (a view); dim: of its outputs."""
    if isinstance(x, nn.Parameter):
        return _Weight(x, dim, 0)
    base = getattr(x, "_base", None)
    if isinstance(base, nn.Parameter) and base.is_contiguous() and base.dim() == x.dim() <= 2:
        first = x.storage_offset() - base.storage_offset()
        if base.dim() == 1:
            return _Weight(base, 0, first)
        if x.stride(dim) == base.stride(0) and (base.shape[1] == 1 or x.stride(1 - dim) == 1):
            whole = first % base.stride(0) == 0 and x.shape[1 - dim] == base.shape[1]
            return _Weight(base if whole else None, 0, first // base.stride(0), x)
        if x.stride(dim) == 1 and x.stride(1 - dim) == base.stride(0):
            whole = first < base.stride(0) and x.shape[1 - dim] == base.shape[0]
            return _Weight(base if whole else None, 1, first, x)
    return _Weight(None, dim, 0, x)


_LINEAR = {F.linear}
_ADDMM = {torch.addmm, Tensor.addmm}
_DETACH = {Tensor.detach, torch.detach, Tensor.data.__get__}  # type: ignore[attr-defined]
_IN_PLACE = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__", "__ipow__"}
_PRODUCTS = {F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm, torch.bmm, torch.baddbmm}
_MATMUL = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm}


class Probe(TorchFunctionMode):
    """One more pass of a model, without effect on it."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.sources: dict[str, Source] = {}
        self.reasons: dict[str, str] = {}
        self.frozen: set[str] = set()
        self.not_finite: set[str] = set()
        self.outputs: dict[int, _Output] = {}
        self.owners: dict[int, str] = {}
        self.claims: dict[int, set[int]] = {}  # of a parameter: outputs of it that make queries or keys
        self.uses: dict[int, dict[int, tuple[int, int]]] = {}  # of a parameter: all of its outputs, first row and count
        self.inputs: set[int] = set()  # parameters that make inputs of linear layers
        self.fed: dict[int, Tensor] = {}  # of an output of a linear layer: its columns that are used outside of attention
        self.by_hand: set[str] = set()  # rows of heads whose attention is a part of the graph
        self._shadows: dict[int, tuple[Tensor, Tensor]] = {}  # by the id of a tensor, which is kept: the same with its graph
        self._seen: dict[Any, list[int]] = {}  # of a node: outputs it depends on of which some columns were not used by then
        self._done: set[Any] = set()  # tensors that were followed
        self._given: set[Any] = set()  # queries and keys, as attention was given them
        self._followed: Counter[int] = Counter()  # how often an output was reached
        self._has_pieces = any(hasattr(m, "_handle") or hasattr(m, "_get_fsdp_state") for m in attention.model.modules())
        self._is_sharded = any(hasattr(p, "placements") for p in attention.model.parameters())
        self.made_by: dict[int, dict[str, Ints]] = {}  # of a parameter: its rows that make queries or keys, by row of heads

    # --- while the model runs -----------------------------------------------------------------------------

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if threads.own.at is not None and threads.own.at.place is None:  # inside of attention
            return func(*args, **kwargs)
        if func is _attention._sdpa:
            with torch.enable_grad():
                see_sdpa(*args, **kwargs)
            given = (kwargs.get(name, args[i] if i < len(args) else None) for i, name in enumerate(("query", "key")))
            self._given.update(_made_at(x) for x in given)
            with torch.no_grad():
                return func(*args, **kwargs)
        if func is torch.bmm or func is torch.baddbmm:
            is_attention = threads.own.at is not None and bool(threads.own.at.multihead)
            with torch.enable_grad():
                see_bmm(func, args)
            if is_attention:
                with torch.no_grad():
                    return func(*args, **kwargs)
        if func is Tensor.register_hook:  # it waits for the gradient of a loss
            return torch.utils.hooks.RemovableHandle(OrderedDict())
        if kwargs.get("out") is not None:  # cannot be differentiated
            with torch.no_grad():
                return func(*args, **kwargs)
        if func is F.softmax or func is torch.softmax or func is Tensor.softmax:
            count_softmax(args, kwargs)
        with torch.enable_grad():
            shadow = self._shadow_of(func, args, kwargs)
            out = func(*args, **kwargs)
            if shadow is not None:
                self._keep_shadow(args[0] if _writes_into_first(func) else out, shadow)
            weight, bias = self._weight_of(func, args, kwargs)
            if weight is None or not isinstance(out, Tensor) or not out.is_floating_point():
                return out
            self._made_of(args[1] if func in _ADDMM else args[0] if args else kwargs["input"])
            leaf = out.detach().requires_grad_()
            out = leaf.clone()  # models write into it: a leaf may not be, and its value is asked for later
        output = _Output(leaf, weight, bias)
        self.outputs[id(leaf)] = output
        for part in (weight, bias):
            if part is not None and part.parameter is not None:
                self.uses.setdefault(id(part.parameter), {})[id(leaf)] = part.first, _local(leaf).shape[-1]
        return out

    # --- detached tensors ---------------------------------------------------------------------------------

    def _shadow_of(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of a call if no tensor were detached: a factor made of queries (q / q.detach().norm()) changes them,
        though it has no gradient in training. The model gets none of this."""
        if self._has_pieces:  # of parameters, which may get no other graph
            return None
        if func in _DETACH:
            x = self._shadows[id(args[0])][1] if id(args[0]) in self._shadows else args[0]
            return x.clone() if x.requires_grad else None  # the model may write into its own
        if not self._shadows or func in _PRODUCTS:
            return None
        given = (args, kwargs)
        if not any(id(x) in self._shadows for x in tree_leaves(given)):
            return None
        args, kwargs = tree_map(lambda x: self._shadows[id(x)][1] if id(x) in self._shadows else x, given)
        try:
            if _writes_into_first(func):
                args = (args[0].clone(), *args[1:])
            with torch.random.fork_rng([args[0].device] if getattr(args[0], "is_cuda", False) else []):
                out = func(*args, **kwargs)
            return args[0] if _writes_into_first(func) else out
        except Exception:  # it is then followed as training does
            return None

    def _keep_shadow(self, out: Any, shadow: Any) -> None:
        for x, y in zip(tree_leaves(out), tree_leaves(shadow)):
            if isinstance(x, Tensor) and isinstance(y, Tensor) and y.requires_grad and x.shape == y.shape:
                self._shadows[id(x)] = x, y

    def _made_of(self, x: Any, counts_weights: bool = True) -> None:
        """Of an input of a linear layer, or an output of the model: parameters that make it in another way than as weights of
        linear layers, and the columns of outputs of linear layers that it depends on."""
        if isinstance(x, nn.Parameter) and counts_weights:
            self.inputs.add(id(x))
        root = getattr(x, "grad_fn", None)
        if root is None or _made_at(x) in self._done:
            return
        self._done.add(_made_at(x))
        todo = [(root, False)]
        while todo:
            node, is_complete = todo.pop()
            if is_complete:
                self._seen[node] = list({i for of, _ in node.next_functions for i in self._unused(of)})
            elif node is not None and node not in self._seen:
                self._seen[node] = []
                if counts_weights:
                    self.inputs.add(id(getattr(node, "variable", None)))
                todo.append((node, True))
                todo.extend((next_node, False) for next_node, _ in node.next_functions)
        leaves = [self.outputs[i].leaf for i in self._unused(root)]
        if leaves and x.is_floating_point():
            with contextlib.suppress(Exception):  # of a kernel without a gradient: training has none there, either
                self._feed(x, leaves)

    def _unused(self, node: Any) -> list[int]:
        """Outputs of linear layers that a node depends on, and of which some columns are not known to be used. So a residual
        stream is followed from one layer to the next, and not back to the first."""
        own = id(getattr(node, "variable", None))
        return [i for i in ([own] if own in self.outputs else self._seen.get(node, [])) if not self._is_whole(i)]

    def _is_whole(self, output: int) -> bool:
        if self._is_sharded:  # the gradients may communicate: all ranks follow the same outputs, whatever their numbers are
            return self._followed[output] >= 4
        return output in self.fed and bool(self.fed[output].all())

    def _feed(self, x: Tensor, leaves: list[Tensor]) -> None:
        with torch._C.DisableTorchFunction(), torch.enable_grad():
            own = _local(x).float()
            grads = torch.autograd.grad((own * torch.randn_like(own)).sum(), leaves, retain_graph=True, allow_unused=True)
            for leaf, grad in zip(leaves, grads):
                self._followed[id(leaf)] += 1
                if grad is not None:
                    grad = _local(grad)
                    columns = (grad.isfinite() & (grad != 0)).reshape(-1, grad.shape[-1]).any(0)
                    self.fed[id(leaf)] = columns | self.fed.get(id(leaf), columns)

    def see_outputs(self, outputs: Any) -> None:
        """Outputs of the model. Those of four dimensions, and keys as attention was given them, are caches. Losses come last:
        a penalty of weights is no other purpose of them."""
        tensors = [x for x in _tensors_in(outputs) if x.is_floating_point() and x.requires_grad and x.dim() <= 3]
        for x in sorted(tensors, key=lambda x: -x.dim()):
            if _made_at(x) not in self._given:
                self._made_of(x, counts_weights=x.dim() > 0)

    def _weight_of(self, func: Any, args: Any, kwargs: Any) -> tuple[Optional[_Weight], Optional[_Weight]]:
        if func in _LINEAR:
            given = {**dict(zip(("input", "weight", "bias"), args)), **kwargs}
            bias = given.get("bias")
            return _as_weight(given["weight"], 0), None if bias is None else _as_weight(bias, 0)
        if func in _ADDMM and len(args) == 3:
            weight = _as_weight(args[2], 1)
            return (weight, _as_weight(args[0], 0)) if weight.parameter is not None else (None, None)
        if func in _MATMUL and len(args) == 2 and isinstance(args[1], Tensor) and args[1].dim() == 2:
            weight = _as_weight(args[1], 1)
            return (weight, None) if weight.parameter is not None else (None, None)
        return None, None

    def _owner(self, parameter: nn.Parameter) -> str:
        if id(parameter) not in self.owners:  # FSDP has others while a module runs
            for path, (module, own) in parameters_of(self.attention.model).items():
                self.owners.setdefault(id(module._parameters[own]), path)
        return self.owners.get(id(parameter), "")

    def see(self, row: str, q: Tensor, k: Tensor, v: Any) -> None:
        q, k = (self._shadows[id(x)][1] if id(x) in self._shadows else x for x in (q, k))
        with torch._C.DisableTorchFunction(), torch.enable_grad():
            try:
                source = self._source(row, q, k, v)
                old = self.sources.get(row)
                if old is not None and old._replace(zeros=source.zeros) != source:
                    raise Refused("is run several times, and other parameters make its logits each time")
                self.sources[row] = source
            except Refused as problem:
                self.reasons[row] = str(problem)
            except Frozen:
                self.frozen.add(row)
            except NotFinite:
                self.not_finite.add(row)
            except Exception as problem:
                self.reasons[row] = f"cannot be followed back to its projections ({type(problem).__name__}: {problem})"

    # --- one call of attention ----------------------------------------------------------------------------

    def _source(self, row: str, q: Tensor, k: Tensor, v: Any) -> Source:
        for what, x in (("queries", q), ("keys", k)):
            if torch._C._functorch.is_functorch_wrapped_tensor(x) or x.is_nested:
                raise Refused(f"has {what} that are nested, or under torch.func")
        local_q, local_k = plain_call(q, k)
        if not (bool(local_q.isfinite().all()) and bool(local_k.isfinite().all())):
            raise NotFinite
        heads, groups, size = local_q.shape[1], local_k.shape[1], local_q.shape[3]
        follow = _Follow(self)
        of_q = [follow.head("queries", q, h) for h in range(heads)]
        of_k = [follow.head("keys", k, g) for g in range(groups)]
        if isinstance(v, Tensor) and v.is_floating_point() and v.requires_grad:
            values = follow.rows(v, v.detach())
        else:
            values = {}
        paths = {key[0] for found in (*of_q, *of_k) for key in found}
        self._check_parameters(paths, follow)
        each = heads // groups
        keys_of = [of_k[h // each] for h in range(heads)]
        for found in (*of_q, *of_k):
            for key, rows in found.items():
                if np.intersect1d(rows, values.get(key, rows[:0])).size:
                    raise Refused(f"makes values with the rows of {self._said(key[0])} that make queries or keys")
        if not _disjoint(of_q):
            raise Refused("has queries that depend on the rows of several heads")
        roles, group_count = self._roles(follow, q, k, of_q, keys_of, size)
        for found in (*of_q, *of_k):
            for key, own in found.items():
                by_row = self.made_by.setdefault(key[0], {})
                by_row[row] = np.union1d(by_row.get(row, own[:0]), own)
        for parameter, leaves in follow.claimed.items():
            self.claims.setdefault(parameter, set()).update(leaves)
        rank, ranks = part_of_heads(self.attention.module(row), heads, size)
        if self._shift(roles, rank, ranks):
            return Source(ranks * heads, group_count, roles, rank * heads, 0, follow.zeros)
        return Source(ranks * heads, ranks * group_count, roles, rank * heads, rank * group_count, follow.zeros)

    def _shift(self, roles: dict[str, list[tuple[Part, ...]]], rank: int, ranks: int) -> bool:
        """Rows of a parameter that lies in pieces begin where the own piece does. Returns whether queries alone lie in
        pieces."""
        local_rows = self._local_rows()
        is_cut = {role: {p.path in local_rows for parts in heads for p in parts} for role, heads in roles.items()}
        wanted = {role: {ranks > 1 and role != "k_rope"} for role in roles}
        has_common_keys = ranks > 1 and "k_rope" not in roles and is_cut["k"] == {False}
        if has_common_keys:
            wanted["k"] = {False}
        if is_cut != wanted:
            raise Refused("has queries and keys whose weights are sharded over ranks in different ways, or not by heads")
        for heads in roles.values():
            for i, parts in enumerate(heads):
                heads[i] = tuple(
                    p._replace(rows=tuple(r + rank * local_rows[p.path] for r in p.rows)) if p.path in local_rows else p
                    for p in parts
                )
        return has_common_keys

    def _local_rows(self) -> dict[str, int]:
        """Outputs of parameters that lie in pieces along them on several ranks, by path: so many are here."""
        found = {}
        for output in self.outputs.values():
            for weight in (output.weight, output.bias):
                p = None if weight is None else weight.parameter
                if weight is None or p is None or not hasattr(p, "placements"):
                    continue
                count = _local(p).shape[weight.dim]
                if count < p.shape[weight.dim]:
                    found[self._owner(p)] = count
        return found

    def _said(self, parameter: int) -> str:
        for output in self.outputs.values():
            for weight in (output.weight, output.bias):
                if weight is not None and weight.parameter is not None and id(weight.parameter) == parameter:
                    return self._owner(weight.parameter) or "a parameter that is not the model's"
        return "a parameter"

    def computed(self, weight: Any) -> str:
        """Says what a weight is that is no parameter, by the parameters that it is computed from."""
        found, todo, seen = [], [getattr(weight, "grad_fn", None)], set()
        while todo:
            node = todo.pop()
            if node is not None and node not in seen:
                seen.add(node)
                found.append(getattr(node, "variable", None))
                todo.extend(next_node for next_node, _ in node.next_functions)
        names = sorted({self._owner(p) for p in found if p is not None} - {""})
        if any(getattr(p, "_is_flat_param", False) for p in found):
            how = "FSDP1 joins weights to one parameter; fully_shard, which is FSDP2, does not"
        elif any(".parametrizations." in f".{name}" for name in names):
            how = f"parametrized, {', '.join(names)}; torch.nn.utils.parametrize.remove_parametrizations makes it a parameter"
        else:
            how = f"from {', '.join(names)}" if names else "from numbers that are not trained, as quantized weights are"
        return f"a weight that is computed in each forward pass ({how})"

    def _check_parameters(self, ids: set[int], follow: _Follow) -> None:
        trained: list[str] = []
        frozen: list[str] = []
        for parameter in (follow.parameters[i] for i in ids):
            path = self._owner(parameter)
            if not path:
                raise Refused(
                    "is made by a parameter that is not one of the model's. If fully_shard has a unit for each projection, "
                    "make one of the module with attention"
                )
            if not parameter.is_floating_point() or parameter.layout != torch.strided:
                raise Refused(f"is made by {path}, whose numbers are {parameter.dtype}: no plain floating-point weight")
            kind = type(parameter)
            if kind is not nn.Parameter and not hasattr(parameter, "placements"):
                raise Refused(f"is made by {path}, a {kind.__name__}: no plain floating-point weight")
            (trained if parameter.requires_grad else frozen).append(path)
        if frozen and not trained:
            raise Frozen
        if frozen:
            raise Refused(
                f"is made by {sorted(trained)[0]}, which is trained, and {sorted(frozen)[0]}, which is frozen: a clip would "
                "have to change both. Merge the adapter, or train the frozen weight"
            )

    def _roles(
        self, follow: _Follow, q: Tensor, k: Tensor, of_q: list[_Rows], keys_of: list[_Rows], size: int
    ) -> tuple[dict[str, list[tuple[Part, ...]]], int]:
        distinct: list[_Rows] = []
        index = []
        for found in keys_of:
            same = [i for i, other in enumerate(distinct) if _equal(found, other)]
            if not same:
                distinct.append(found)
            index.append(same[0] if same else len(distinct) - 1)
        groups, heads = len(distinct), len(of_q)
        if any(_both(a, b) for a, b in zip(of_q, keys_of)) and not (
            groups == heads and all(_equal(a, b) for a, b in zip(of_q, keys_of))
        ):
            raise Refused("has queries and keys that share some of their rows")
        if _disjoint(distinct):
            if heads % groups or index != [h * groups // heads for h in range(heads)]:
                raise Refused("has keys that are shared by heads that do not stand side by side")
            return {"q": [follow.parts(f) for f in of_q], "k": [follow.parts(f) for f in distinct]}, groups
        # latent attention: rows that all heads share, and rows of their own
        shared = distinct[0]
        for found in distinct[1:]:
            shared = _both(shared, found)
        own = [_without(found, shared) for found in distinct]
        if not shared or groups != heads or not all(own) or not _disjoint(own):
            raise Refused("has keys that share rows in a way that QK-Clip has no rule for")
        each = heads // k.shape[1]
        where = torch.zeros(size, dtype=torch.bool)
        for first, end in _rotary(follow, k, shared, 0, size):
            where[first:end] = True
        rope = [follow.rows(q[:, h][..., where.to(q.device)], None) for h in range(heads)]
        content = [follow.rows(q[:, h][..., ~where.to(q.device)], None) for h in range(heads)]
        if not _disjoint([*rope, *content]) or each != 1:
            raise Refused("has latent queries whose rows are content and position at once")
        return {
            "q": [follow.parts(f) for f in content],
            "q_rope": [follow.parts(f) for f in rope],
            "k": [follow.parts(f) for f in own],
            "k_rope": [follow.parts(shared)],
        }, heads

    # --- after it -----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """A parameter that makes something else, too, may not be scaled. Where attention is a part of the graph, its outputs
        depend on queries and keys, and other uses of them are not known."""
        self._shadows.clear()
        for parameter, by_row in self.made_by.items():
            path = self._said(parameter)
            for row in by_row if parameter in self.inputs else ():
                self.refuse(row, f"is made by {path}, which is also used outside of its queries and keys")
            by_hand = np.concatenate([np.empty(0, np.int64), *(by_row[row] for row in by_row if row in self.by_hand)])
            for leaf, (first, count) in self.uses.get(parameter, {}).items():
                fed = self.fed[leaf].nonzero()[:, 0].cpu().numpy() + first if leaf in self.fed else by_hand[:0]
                for row, rows in by_row.items():
                    if leaf not in self.claims[parameter] and ((rows >= first) & (rows < first + count)).any():
                        self.refuse(row, f"is made by {path}, which is also used outside of its queries and keys")
                    if np.intersect1d(np.setdiff1d(rows, by_hand), fed).size:
                        self.refuse(row, f"is made by {path}, whose outputs are also used outside of attention")
            # heads of several rows that share a parameter shrink together
            names = [row for row in by_row if row in self.sources]
            if not _aligned([self.sources[name] for name in names]):
                for name in names:
                    self.refuse(name, f"has heads that share rows of {path} with other heads ({', '.join(names)})")
        for row in (*self.reasons, *self.not_finite):
            self.sources.pop(row, None)
        warn_by_hand(self.attention)

    def refuse(self, row: str, reason: str) -> None:
        self.reasons.setdefault(row, reason)


_Key = tuple[int, int]  # parameter's id, dimension of its outputs
_Rows = dict[_Key, Ints]


def _equal(a: _Rows, b: _Rows) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def _both(a: _Rows, b: _Rows) -> _Rows:
    found = {key: np.intersect1d(a[key], b[key]) for key in a.keys() & b.keys()}
    return {key: rows for key, rows in found.items() if rows.size}


def _without(a: _Rows, b: _Rows) -> _Rows:
    found = {key: np.setdiff1d(rows, b.get(key, rows[:0])) for key, rows in a.items()}
    return {key: rows for key, rows in found.items() if rows.size}


def _disjoint(of_heads: list[_Rows]) -> bool:
    seen: dict[_Key, set[int]] = {}
    for found in of_heads:
        for key, rows in found.items():
            if not seen.setdefault(key, set()).isdisjoint(rows.tolist()):
                return False
            seen[key].update(rows.tolist())
    return True


def _aligned(sources: list[Source]) -> bool:
    """Heads of several sources have the same rows of a parameter, or none in common. A key counts as all of its heads."""
    owners: dict[tuple[str, int], tuple[int, int]] = {}
    for source in sources:
        for role, of_heads in source.roles.items():
            per = source.heads // max(1, len(of_heads))
            for i, parts in enumerate(of_heads):
                span = (0, source.heads) if role == "k_rope" else (i, 1) if role.startswith("q") else (i * per, per)
                for part in parts:
                    for r in part.rows:
                        if owners.setdefault((part.path, r), span) != span:
                            return False
    return True


def _rotary(follow: _Follow, k: Tensor, shared: _Rows, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Coordinates of keys that the shared rows make, by halving."""
    found = follow.rows(k[:, :1, :, first:end], None)
    if not _both(found, shared):
        return
    if not _without(found, shared):
        yield first, end
    elif end - first == 1:
        raise Refused("has latent keys whose coordinates mix content and position")
    else:
        middle = (first + end) // 2
        yield from _rotary(follow, k, shared, first, middle)
        yield from _rotary(follow, k, shared, middle, end)


class _Follow:
    """What one call's queries and keys depend on."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.parameters: dict[int, nn.Parameter] = {}
        self.claimed: dict[int, set[int]] = {}
        self.zeros = False
        self._leaves: dict[Any, list[Tensor]] = {}

    def _leaves_of(self, x: Tensor) -> list[Tensor]:
        """Outputs of linear layers, and parameters, that a tensor depends on."""
        if x.grad_fn is None:
            return [x] if x.requires_grad else []
        if x.grad_fn in self._leaves:
            return self._leaves[x.grad_fn]
        found: dict[int, Tensor] = {}
        seen: set[Any] = set()
        todo: list[Any] = [x.grad_fn]
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if hasattr(node, "variable"):
                found[id(node.variable)] = node.variable
            todo.extend(next_node for next_node, _ in node.next_functions)
        self._leaves[x.grad_fn] = list(found.values())
        return self._leaves[x.grad_fn]

    def _grads(self, x: Tensor, along: Tensor) -> tuple[list[Tensor], tuple[Optional[Tensor], ...], float]:
        leaves = self._leaves_of(x)
        if not leaves:
            return [], (), 0.0
        with torch.enable_grad():
            s = (_local(x).float() * _local(along).float()).sum()
        grads = torch.autograd.grad(s, leaves, retain_graph=True, allow_unused=True)
        return leaves, grads, float(s.detach())

    def head(self, what: str, x: Tensor, h: int) -> _Rows:
        """Rows that make a head, alone and in proportion."""
        part = x[:, h] if type(x) is Tensor else _local(x)[:, h]
        along = part.detach()
        zero = not bool(along.any())
        self.zeros = self.zeros or zero
        along = torch.where(along == 0, torch.randn_like(along), along)  # rows that are zero now belong to the head, too
        leaves, grads, s = self._grads(part, along)
        rows: _Rows = {}
        total = 0.0
        for leaf, grad in zip(leaves, grads):
            if grad is None or not bool(_local(grad).any()):
                continue
            output = self.probe.outputs.get(id(leaf))
            share = float((_local(grad).double() * _local(leaf).detach().double()).sum())
            if output is None:
                name = self.probe._owner(leaf) if isinstance(leaf, nn.Parameter) else ""
                if name and not zero and abs(share - s) <= 1e-3 * abs(s):
                    continue  # a gain that is multiplied with all of it
                raise Refused(
                    f"has {what} that {name or 'another tensor'} changes behind the projections, or that no plain linear "
                    "layer makes (a norm with a gain, a bias that is added, a convolution)"
                )
            total += share
            self.zeros = self.zeros or not bool(_local(leaf).any())  # as of a gate that is not trained yet
            self._add(rows, output, _local(grad))
        if not rows:
            raise Refused(f"has {what} that no linear layer of the model makes in a way that can be followed")
        tolerance = 1e-3 if x.dtype in (torch.float32, torch.float64) and _whole(leaves) else 3e-2
        if not zero and not abs(total - s) <= tolerance * abs(s):
            raise Refused(
                f"has {what} that are not in proportion to the outputs of their projections (a norm between them and the "
                f"logits, or something added: {total / s:.3g} of the expected share)"
            )
        return rows

    def rows(self, x: Tensor, along: Optional[Tensor]) -> _Rows:
        """Rows that a tensor depends on."""
        x = _local(x) if type(x) is not Tensor else x
        along = torch.randn_like(x.detach()) if along is None else _local(along)
        rows: _Rows = {}
        leaves, grads, _ = self._grads(x, along)
        for leaf, grad in zip(leaves, grads):
            output = self.probe.outputs.get(id(leaf))
            if grad is not None and output is not None and output.weight.parameter is not None:
                self._add(rows, output, _local(grad), claim=False)
        return rows

    def _add(self, rows: _Rows, output: _Output, grad: Tensor, claim: bool = True) -> None:
        some = (grad.reshape(-1, grad.shape[-1]) != 0).any(0).nonzero()[:, 0].cpu().numpy()
        for weight in (output.weight, output.bias):
            if weight is None:
                continue
            if weight.parameter is None:
                raise Refused(f"is made by {self.probe.computed(weight.computed)}, which a clip cannot write to")
            key = id(weight.parameter), weight.dim
            self.parameters[key[0]] = weight.parameter
            rows[key] = np.union1d(rows.get(key, some[:0]), some + weight.first)
            if claim:
                self.claimed.setdefault(key[0], set()).add(id(output.leaf))

    def parts(self, rows: _Rows) -> tuple[Part, ...]:
        found = (Part(self.probe._owner(self.parameters[i]), dim, tuple(own.tolist())) for (i, dim), own in rows.items())
        return tuple(sorted(found))


def _local(x: Tensor) -> Tensor:
    return x.to_local() if hasattr(x, "to_local") else x


def _made_at(x: Any) -> tuple[Any, int]:
    """Where a tensor is in the graph. A node may have made several (chunk)."""
    return getattr(x, "grad_fn", None), getattr(x, "output_nr", 0)


def _tensors_in(x: Any) -> Iterator[Tensor]:
    for part in tree_leaves(x):
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, Mapping):
            yield from _tensors_in(list(part.values()))
        elif dataclasses.is_dataclass(part) and not isinstance(part, (type, nn.Module)):
            yield from _tensors_in([getattr(part, field.name, None) for field in dataclasses.fields(part)])


def _whole(leaves: list[Tensor]) -> bool:
    return all(x.dtype in (torch.float32, torch.float64) for x in leaves)


# --- the pass -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _untouched(model: nn.Module) -> Iterator[None]:
    """Random numbers and buffers are afterwards as before."""
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    own, numpys = random.getstate(), np.random.get_state()
    every = [(m._buffers, name, b) for m in model.modules() for name, b in m._buffers.items() if b is not None]
    buffers = [(own, name, b, b.detach().clone(), _writes(b)) for own, name, b in every]
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(own)
            np.random.set_state(numpys)
            with torch.no_grad():
                for own, name, buffer, value, writes in buffers:
                    own[name] = buffer  # some are replaced
                    with contextlib.suppress(RuntimeError):  # of an expanded one, into which nobody can write
                        if not _is_equal(buffer, value, writes):
                            buffer.copy_(value)


def _writes(x: Tensor) -> int:
    return 0 if x.is_inference() else x._version


def _is_equal(x: Tensor, value: Tensor, writes: int) -> bool:
    try:
        return torch.equal(x, value)  # a BatchNorm does not count what it writes
    except RuntimeError:  # not of sparse tensors, or meta
        return _writes(x) == writes


@contextlib.contextmanager
def _not_checkpointed() -> Iterator[None]:
    """Checkpointed functions run directly: a checkpoint would make no graph, or compute them again.
    Another thread's is checkpointed."""
    module: Any = torch.utils.checkpoint
    reentrant, hook = module.CheckpointFunction, getattr(module, "_checkpoint_hook", None)

    class Plain:
        @staticmethod
        def apply(function: Any, preserve: Any, *args: Any) -> Any:
            return function(*args) if threads.own.probe is not None else reentrant.apply(function, preserve, *args)

    def hooks(frame: Any) -> Any:
        return contextlib.nullcontext() if threads.own.probe is not None else hook(frame)  # type: ignore[misc]

    try:
        module.CheckpointFunction = Plain
        if hook is not None:  # private
            module._checkpoint_hook = hooks
        yield
    finally:
        module.CheckpointFunction = reentrant
        if hook is not None:
            module._checkpoint_hook = hook


@contextlib.contextmanager
def _not_compiled() -> Iterator[None]:
    stance = getattr(torch.compiler, "set_stance", None)  # from PyTorch 2.6 on
    with stance("force_eager") if stance is not None else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def _no_backward_hooks(model: nn.Module) -> Iterator[None]:
    """Gradients of this pass are no gradients of a loss. Hooks of modules that wait for those, and FSDP2, which would give
    weights away and reduce gradients, get none."""
    hooks = [
        (module.__dict__, name, own)
        for module in model.modules()
        for name in ("_backward_hooks", "_backward_pre_hooks")
        if (own := module.__dict__.get(name))
    ]
    group = sys.modules.get("torch.distributed.fsdp._fully_shard._fsdp_param_group")
    of_group: Any = getattr(group, "FSDPParamGroup", None)
    register = getattr(of_group, "_register_post_backward_hook", None)  # private

    def none(self: Any, args: Any, kwargs: Any) -> Any:
        return (args, kwargs) if threads.own.probe is not None else register(self, args, kwargs)  # type: ignore[misc]

    try:
        for own, name, old in hooks:
            own[name] = type(old)()
        if register is not None:
            of_group._register_post_backward_hook = none
        yield
    finally:
        for own, name, old in hooks:
            own[name] = old
        if register is not None:
            of_group._register_post_backward_hook = register


@contextlib.contextmanager
def _no_saved_tensors_hooks() -> Iterator[None]:
    """A checkpoint around the model counts no tensors of this pass."""
    private: Any = torch._C._autograd
    top, hooks = getattr(private, "_top_saved_tensors_default_hooks", lambda _: None), []
    while one := top(False):
        hooks.append(one)
        private._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for one in reversed(hooks):
            private._push_saved_tensors_default_hooks(*one)


_Copies = dict[int, tuple[Any, Any]]  # by the id of the original, which is kept alive: original and copy


def copies(x: Any, memo: _Copies) -> Any:
    """An argument for this pass, which the model may write into: tensors, arrays, containers of them and random generators
    are copied, each once. Parameters and all other objects stay the same."""
    if isinstance(x, (int, float, str, bytes, type(None))):  # of which a list may have millions
        return x
    if id(x) not in memo:
        try:
            memo[id(x)] = x, _copied(x, memo)
        except Exception:  # of a kind that cannot be copied
            memo[id(x)] = x, x
    return memo[id(x)][1]


def _copied(x: Any, memo: _Copies) -> Any:
    if isinstance(x, Tensor):
        return _cloned(x)
    if isinstance(x, torch.Generator):
        return x.clone_state()
    # a cache of keys (of transformers) fails where its keys are to be differentiated
    is_cache = hasattr(x, "get_seq_length") and hasattr(x, "update")
    if is_cache or type(x) is np.ndarray or isinstance(x, (random.Random, np.random.Generator, np.random.RandomState)):
        return copy.deepcopy(x)
    if _is_iterator(x):
        return _not_read()
    if isinstance(x, tuple):
        parts = [copies(part, memo) for part in x]
        if all(a is b for a, b in zip(parts, x)):
            return x
        return x._make(parts) if hasattr(x, "_make") else type(x)(parts)
    is_fields = dataclasses.is_dataclass(x) and not isinstance(x, (type, nn.Module))
    if not is_fields and not isinstance(x, (list, dict, set, deque, UserDict)):
        return x
    new = copy.copy(x)
    memo[id(x)] = x, new  # before its parts, of which it may be one
    if isinstance(x, UserDict):
        new.data = copies(x.data, memo)
    elif isinstance(x, set):
        new.clear()
        new.update([copies(part, memo) for part in x])
    elif isinstance(x, (list, dict, deque)):
        for key, part in list(dict.items(x) if isinstance(x, dict) else enumerate(x)):
            new[key] = copies(part, memo)
    else:
        for field in dataclasses.fields(x):
            object.__setattr__(new, field.name, copies(getattr(x, field.name), memo))  # it may be frozen
    return new


def _cloned(x: Tensor) -> Tensor:
    """A parameter is known by its identity. No pass can write into it, nor into a view of it."""
    if isinstance(x, nn.Parameter) or isinstance(x._base, nn.Parameter):
        return x
    with torch.enable_grad():
        new = x.detach() if x.is_leaf else x
        if type(x) is Tensor and x.layout == torch.strided and not x.is_nested and 0 in x.stride():
            new = new[tuple(slice(None if stride else 1) for stride in x.stride())].clone().expand(x.shape)
        else:
            new = new.clone()
        if x.requires_grad:
            new.requires_grad_()
    for name, value in vars(x).items():
        vars(new).setdefault(name, value)
    return new


def _is_iterator(x: Any) -> bool:
    """One of Python's own (a generator, zip), which has nothing but the next value. Files and loaders have more."""
    return isinstance(x, Iterator) and type(x).__module__ in ("builtins", "itertools")


def _not_read() -> Iterator[Any]:
    """In place of an iterator within an argument, which the pass after this one reads."""
    raise ValueError("an iterator in a list, a dictionary or the like can be read only once: make it an argument by itself")
    yield


def for_two(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Arguments for this pass, and for the one after it (None: as they were). An iterator can be read once: each pass gets
    one of its own."""
    twins = {id(x): itertools.tee(x) for x in (*args, *kwargs.values()) if _is_iterator(x)}
    own, theirs = (
        (
            tuple(twins.get(id(x), (x, x))[i] for x in args),
            {name: twins.get(id(x), (x, x))[i] for name, x in kwargs.items()},
        )
        for i in range(2)
    )
    return own, theirs if twins else None


def run(attention: Attention, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Probe, str]:
    """Run a module of the model once more; what was found, and why it failed where it did."""
    probe, problem = Probe(attention), ""
    before = threads.own.__dict__.copy()
    threads.own.by_hand = Counter()
    place = module.__dict__.get("_maxlogit_place")
    memo: _Copies = {}
    for x in (*args, *kwargs.values()):
        if _is_iterator(x):
            memo[id(x)] = x, map(functools.partial(copies, memo=memo), x)
    args, kwargs = tuple(copies(x, memo) for x in args), {name: copies(x, memo) for name, x in kwargs.items()}
    try:
        around = _untouched(attention.model), _not_compiled(), _not_checkpointed(), _no_backward_hooks(attention.model)
        with contextlib.ExitStack() as stack:
            for one in (*around, _no_saved_tensors_hooks(), probe, torch.enable_grad()):
                stack.enter_context(one)
            own = threads.own
            own.at, own.mode, own.owner, own.frame, own.probe = Running(place, None, 0), probe, None, None, probe
            probe.see_outputs(module.forward(*args, **kwargs))
    except Exception as error:
        problem = f"the model's forward pass could not be run once more ({type(error).__name__}: {error})"
    finally:
        probe.finish()
        threads.own.__dict__.update(before)
    return probe, problem
