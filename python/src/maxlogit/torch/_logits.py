"""The largest attention logits of queries and keys, chunk by chunk, on the tensors' own device."""

from __future__ import annotations

import math
from typing import Callable, NamedTuple, Optional

import torch
from torch import Tensor

# Scores of a chunk: so many numbers at most; a processor's cache holds them.
CHUNK = {"cpu": 1 << 17}
CHUNK_ELSEWHERE = 1 << 26


class Mask(NamedTuple):
    """Which keys a query sees, each part where it is given: ``offset`` (causal: query i sees keys up to i + offset),
    ``window`` (of these the last ones), ``tensor`` [batch or 1, heads or 1, queries or 1, keys], bool (True: seen) or
    added to the logits, ``modify`` (flex_attention's: from a chunk's scores [1, heads, queries, keys] and the numbers of
    its batch, first head and first query to scores that are -inf where a key is not seen)."""

    offset: Optional[int] = None
    window: int = 0
    tensor: Optional[Tensor] = None
    modify: Optional[Callable[[Tensor, tuple[int, int, int]], Tensor]] = None


ALL = Mask()


def _hidden(mask: Mask, first: int, end: int, begin: int, until: int, device: torch.device) -> Tensor:
    """Of queries first .. end-1 and keys begin .. until-1: which pairs causality and window hide."""
    assert mask.offset is not None
    own = torch.arange(first, end, device=device)[:, None] + mask.offset
    key = torch.arange(begin, until, device=device)
    hidden = key > own
    return hidden | (key <= own - mask.window) if mask.window else hidden


def _apply_tensor(scores: Tensor, mask: Tensor, batch: int, heads: slice, first: int, end: int) -> None:
    """In place; scores [heads, queries, keys], mask [batch or 1, heads or 1, queries or 1, keys or more]."""
    part = mask[batch if mask.shape[0] > 1 else 0, ..., : scores.shape[-1]]
    part = part[heads] if part.shape[0] > 1 else part
    part = part[:, first:end] if part.shape[1] > 1 else part
    if part.dtype == torch.bool:
        scores.masked_fill_(~part, -math.inf)
        return
    # some write the smallest number where they mean -inf
    seen = part > torch.finfo(part.dtype).min / 2
    scores.add_(part.float()).masked_fill_(~seen, -math.inf)


@torch.no_grad()
def max_logits(q: Tensor, k: Tensor, *, scale: Optional[float] = None, mask: Mask = ALL, absolute: bool = False) -> Tensor:
    """The signed maximum of scale q . k over the batch and all pairs that the mask allows, [heads] float32, or with
    ``absolute`` that and the largest absolute value, [2, heads]; -inf (0) of a head without pairs, NaN where one is NaN.

    q [batch, heads, queries, size], k [batch, kv_heads, keys, size]; products are in float32 whatever q and k are.
    """
    batch, heads, queries, size = q.shape
    groups, keys = k.shape[1:3]
    if heads % groups:
        raise ValueError(f"{heads} heads of queries, {groups} of keys")
    each = heads // groups
    found = torch.full((2, batch * groups, each), -math.inf, device=q.device)
    if batch and queries and keys:
        with torch.autocast(device_type=q.device.type, enabled=False):
            # every key's head with its queries' heads: [batch * groups, ...]
            scaled = (q.detach().float() * (size**-0.5 if scale is None else scale)).reshape(-1, each, queries, size)
            turned = k.detach().float().reshape(-1, keys, size).transpose(1, 2)
            _look(scaled, turned, mask, groups, found, absolute)
    found = found.view(2, batch, heads).amax(1) if batch else found.new_full((2, heads), -math.inf)
    return torch.stack((found[0], found[1].clamp(min=0))) if absolute else found[0]


def _look(q: Tensor, k: Tensor, mask: Mask, groups: int, found: Tensor, absolute: bool) -> None:
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
            # keys before this are seen by all of these queries
            edge = begin if mask.window else max(0, min(until, first + mask.offset + 1))
            hidden = _hidden(mask, first, end, edge, until, q.device)
        if begin >= until:
            continue
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
                    _apply_tensor(scores[0], mask.tensor, b, slice(g * each, (g + 1) * each), first, end)
                if mask.modify is not None:
                    seen = mask.modify(scores, (b, g * each, first))
                    scores.masked_fill_(seen == -math.inf, -math.inf)
            largest = found[0, i : i + some]
            torch.maximum(largest, scores.amax((2, 3)), out=largest)
            if absolute:
                largest = found[1, i : i + some]
                torch.maximum(largest, scores.masked_fill_(scores == -math.inf, 0).abs_().amax((2, 3)), out=largest)
