"""The largest attention logits of queries and keys: on a processor the library's, elsewhere and under masks that are no
ranges chunk by chunk, on the tensors' own device."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, NamedTuple, Optional

import torch
from torch import Tensor

from maxlogit import _library as library

# Scores of a chunk: so many numbers at most; a processor's cache holds them.
CHUNK = {"cpu": 1 << 17}
CHUNK_ELSEWHERE = 1 << 26
# A pair to which so little or less is added is masked: -1e4 (-9984 in bfloat16), -1e9 and the smallest number are in use.
MASKED = -9000.0


class Mask(NamedTuple):
    """Which keys a query sees, each part where it is given: ``offset`` (causal: query i sees keys up to i + offset),
    ``window`` (of these the last ones), ``tensor`` [batch or 1, heads or 1, queries or 1, keys], bool (True: seen) or
    added to the logits, ``modify`` (flex_attention's: from a chunk's scores [1, heads, queries, keys] and the numbers of
    its batch, first head and first query to scores that are -inf where a key is not seen), ``limits`` (of packed sequences,
    where each begins and the last ends, among the queries and among the keys: each sees itself alone, and if causal its last
    query sees its last key, whatever ``offset`` is)."""

    offset: Optional[int] = None
    window: int = 0
    tensor: Optional[Tensor] = None
    modify: Optional[Callable[[Tensor, tuple[int, int, int]], Tensor]] = None
    limits: Optional[tuple[Tensor, Tensor]] = None


ALL = Mask()


def _hidden(mask: Mask, first: int, end: int, begin: int, until: int, device: torch.device) -> Tensor:
    """Of queries first .. end-1 and keys begin .. until-1: which pairs causality and window hide."""
    assert mask.offset is not None
    own = torch.arange(first, end, device=device)[:, None] + mask.offset
    key = torch.arange(begin, until, device=device)
    hidden = key > own
    return hidden | (key <= own - mask.window) if mask.window else hidden


def _apply_tensor(scores: Tensor, mask: Tensor, batch: int, heads: slice, first: int, end: int, bias: bool) -> None:
    """In place; scores [heads, queries, keys], mask [batch or 1, heads or 1, queries or 1, keys or more]. Without bias only
    the pairs that the mask hides change."""
    part = mask[batch if mask.shape[0] > 1 else 0, ..., : scores.shape[-1]]
    part = part[heads] if part.shape[0] > 1 else part
    part = part[:, first:end] if part.shape[1] > 1 else part
    if part.dtype == torch.bool:
        scores.masked_fill_(~part, -math.inf)
        return
    if bias:
        scores.add_(part.float())
    scores.masked_fill_(part <= MASKED, -math.inf)


@torch.no_grad()
def max_logits(
    q: Tensor,
    k: Tensor,
    *,
    scale: Optional[float] = None,
    mask: Mask = ALL,
    absolute: bool = False,
    bias: bool = True,
) -> Tensor:
    """The signed maximum of scale q . k over the batch and all pairs that the mask allows, [heads] float32, or with
    ``absolute`` that and the largest absolute value, [2, heads]; -inf (0) of a head without pairs, NaN where one is NaN.

    A number that the mask adds counts, if ``bias`` is true; -9000 and less hide the pair. q [batch, heads, queries, size],
    k [batch, kv_heads, keys, size]; products are in float32 whatever q and k are.
    """
    if mask.limits is not None:
        return _of_sequences(q, k, mask, scale, absolute)
    batch, heads, queries, size = q.shape
    groups, keys = k.shape[1:3]
    if heads % groups:
        raise ValueError(f"{heads} heads of queries, {groups} of keys")
    each = heads // groups
    scale = size**-0.5 if scale is None else scale
    found = torch.full((2, batch * groups, each), -math.inf, device=q.device)
    q, k = q.detach(), k.detach()
    ranges = mask.tensor is None and mask.modify is None
    if ranges and scale and math.isfinite(scale) and _plain(q) and _plain(k):
        _ask_library(q, k, scale, mask, found)
    elif batch and queries and keys:
        with torch.autocast(device_type=q.device.type, enabled=False):
            # every key's head with its queries' heads: [batch * groups, ...]
            scaled = (q.float() * scale).reshape(-1, each, queries, size)
            turned = k.float().reshape(-1, keys, size).transpose(1, 2)
            _look(scaled, turned, mask, groups, found, absolute, bias)
    found = found.view(2, batch, heads).amax(1) if batch else found.new_full((2, heads), -math.inf)
    return torch.stack((found[0], found[1].clamp(min=0))) if absolute else found[0]


def _of_sequences(q: Tensor, k: Tensor, mask: Mask, scale: Optional[float], absolute: bool) -> Tensor:
    """One after the other."""
    assert mask.limits is not None
    found = max_logits(q[:, :, :0], k[:, :, :0], absolute=absolute)
    of_q, of_k = ([slice(*ends) for ends in zip(x, x[1:])] for x in (limits.tolist() for limits in mask.limits))
    for own_q, own_k in zip((q[:, :, own] for own in of_q), (k[:, :, own] for own in of_k)):
        queries, keys = own_q.shape[2], own_k.shape[2]
        if queries and keys:
            own = Mask(None if mask.offset is None else keys - queries, mask.window)
            found = torch.maximum(found, max_logits(own_q, own_k, scale=scale, mask=own, absolute=absolute))
    return found


def _plain(x: Tensor) -> bool:
    """In this process's memory, and nothing else than a tensor."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(x)
    return type(x) is Tensor and x.device.type == "cpu" and x.layout == torch.strided and not wrapped


_NUMBERS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
_pools: list[tuple[int, ThreadPoolExecutor]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def _on_threads(work: Callable[[int], None], n: int) -> None:
    """work(0) .. work(n - 1) on as many threads as PyTorch has."""
    threads = torch.get_num_threads()
    if threads == 1 or n == 1:
        for i in range(n):
            work(i)
        return
    if not _pools or _pools[0][0] != threads:
        _pools[:] = [(threads, ThreadPoolExecutor(threads, "maxlogit"))]
    for _ in _pools[0][1].map(work, range(n)):
        pass


def _readable(x: Tensor, kind: torch.dtype) -> Tensor:
    x = x.resolve_neg().to(kind)
    return x if x.stride(3) == 1 and any(x.stride()[:3]) else x.contiguous()


def _ask_library(q: Tensor, k: Tensor, scale: float, mask: Mask, found: Tensor) -> None:
    """q [batch, heads, queries, size], k [batch, groups, keys, size]; found [2, batch * groups, each] is filled."""
    groups, keys = k.shape[1:3]
    queries, size = q.shape[2:]
    kind = q.dtype if q.dtype == k.dtype and q.dtype in _NUMBERS else torch.float32
    q, k = _readable(q, kind), _readable(k, kind)
    first = end = None
    if mask.offset is not None:
        end = torch.arange(1 + mask.offset, 1 + mask.offset + queries)
        first = end - mask.window if mask.window else None
    each = found.shape[2]

    def work(i: int) -> None:
        b, g = divmod(i, groups)
        at = library.Attention(batch=1, heads=each, kv_heads=1, queries=queries, keys=keys, size=size, scale=scale)
        at.number = _NUMBERS[kind]
        at.q = q.data_ptr() + (b * q.stride(0) + g * each * q.stride(1)) * q.element_size()
        at.k = k.data_ptr() + (b * k.stride(0) + g * k.stride(1)) * k.element_size()
        at.q_stride[:], at.k_stride[:] = q.stride()[:3], k.stride()[:3]
        at.first = None if first is None else first.data_ptr()
        at.end = None if end is None else end.data_ptr()
        largest, largest_abs = found[0, i].data_ptr(), found[1, i].data_ptr()
        library.call("attention_maxima", at, largest, largest_abs, None)

    _on_threads(work, found.shape[1])


def _look(q: Tensor, k: Tensor, mask: Mask, groups: int, found: Tensor, absolute: bool, bias: bool = True) -> None:
    """q [n, each, queries, size], k [n, size, keys]; found [2, n, each] grows."""
    n, each, queries, size = q.shape
    keys = k.shape[2]
    room = CHUNK.get(q.device.type, CHUNK_ELSEWHERE)
    rows = max(16, min(queries, room // (keys * each)))
    alone = mask.tensor is not None or mask.modify is not None
    some = 1 if alone else max(1, min(n, room // (rows * each * keys)))
    space = q.new_empty(some * each * rows * keys)
    for first in range(0, queries, rows):
        end = min(first + rows, queries)
        begin, until, hidden = 0, keys, None
        if mask.offset is not None:
            until = min(keys, max(0, end + mask.offset))
            begin = max(0, first + mask.offset + 1 - mask.window) if mask.window and not alone else 0
        if begin >= until:
            continue
        if mask.offset is not None:
            # keys before this are seen by all of these queries
            edge = begin if mask.window else max(0, min(until, first + mask.offset + 1))
            hidden = _hidden(mask, first, end, edge, until, q.device)
        for i in range(0, n, some):
            part = q[i : i + some, :, first:end].reshape(-1, each * (end - first), size)
            scores = space[: part.shape[0] * part.shape[1] * (until - begin)].view(*part.shape[:2], until - begin)
            torch.bmm(part, k[i : i + some, :, begin:until], out=scores)
            scores = scores.view(-1, each, end - first, until - begin)
            if hidden is not None:
                scores[..., edge - begin :].masked_fill_(hidden, -math.inf)
            if alone:
                b, g = divmod(i, groups)
                if mask.tensor is not None:
                    _apply_tensor(scores[0], mask.tensor, b, slice(g * each, (g + 1) * each), first, end, bias)
                if mask.modify is not None:
                    seen = mask.modify(scores, (b, g * each, first))
                    scores.masked_fill_(seen == -math.inf, -math.inf)
            largest = found[0, i : i + some]
            torch.maximum(largest, scores.amax((2, 3)), out=largest)
            if absolute:
                largest = found[1, i : i + some]
                torch.maximum(largest, scores.masked_fill_(scores == -math.inf, 0).abs_().amax((2, 3)), out=largest)
