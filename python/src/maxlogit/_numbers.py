"""Max logits, spectra, bounds and the factors of QK-Clip, from numpy arrays."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from maxlogit import _library as library

Floats = npt.NDArray[np.float32]
SCOPES = ("head", "layer")
GQA_RULES = ("q_only", "group_max", "own_q_min_k", "compensated")
MLA_RULES = ("exact", "kr_layer", "kr_head")


class Spectrum(NamedTuple):
    """Of singular values sigma: norms, entropy in [0, 1], effective ranks by sigma^2 and sigma, stable rank; each
    [heads] or a number."""

    spectral_norm: Any
    frobenius_norm: Any
    svd_entropy: Any
    effective_rank_p: Any
    effective_rank_r: Any
    stable_rank: Any


def _matrix(w: Any) -> Floats:
    matrix: Floats = np.ascontiguousarray(w, dtype=np.float32)
    if matrix.ndim != 2 or not matrix.size:
        raise library.UsageError(f"a matrix has shape {matrix.shape}")
    return matrix


def _blocks(w: Floats, heads: int) -> int:
    if heads < 1 or w.shape[0] % heads:
        raise library.UsageError(f"{w.shape[0]} rows are no {heads} heads")
    return int(w.shape[0]) // heads


def _spectrum_of(found: Any) -> Spectrum:
    table = np.frombuffer(found, dtype=np.float64).reshape(len(found), 6).copy()
    return Spectrum(*table.T)


def spectra(w: Any, heads: int = 1, w_k: Any = None, kv_heads: int = 0) -> Spectrum:
    """Spectra of the ``heads`` blocks of rows of ``w`` [heads * size, inputs]; with ``w_k`` [kv_heads * size, inputs] of
    the forms w_q^T w_k that make each head's logits (head h uses key h kv_heads // heads). Arrays [heads]."""
    w = _matrix(w)
    size, found = _blocks(w, heads), (library.SpectrumOf * heads)()
    if w_k is None:
        library.call("head_spectra", w.ctypes.data, heads, size, w.shape[1], found)
        return _spectrum_of(found)
    w_k = _matrix(w_k)
    if w_k.shape != ((kv_heads or heads) * size, w.shape[1]):
        raise library.UsageError(f"w_k has shape {w_k.shape}: {kv_heads or heads} heads of {size} by {w.shape[1]}")
    library.call("form_spectra", w.ctypes.data, heads, w_k.ctypes.data, kv_heads or heads, size, w.shape[1], found)
    return _spectrum_of(found)


def form_bounds(w_q: Any, heads: int, w_k: Any, kv_heads: int, scale: float, gain: Any = None) -> npt.NDArray[np.float64]:
    """The largest |logit| [heads] that inputs behind an RMS norm with this gain [inputs] (None: ones) can have."""
    w_q, w_k = _matrix(w_q), _matrix(w_k)
    size, bound = _blocks(w_q, heads), np.empty(heads)
    gain = None if gain is None else np.ascontiguousarray(gain, dtype=np.float64)
    if w_k.shape != (kv_heads * size, w_q.shape[1]) or (gain is not None and gain.shape != w_q.shape[1:]):
        raise library.UsageError(f"w_q {w_q.shape}, w_k {w_k.shape}: sizes do not fit")
    library.call(
        "form_bounds",
        w_q.ctypes.data,
        heads,
        w_k.ctypes.data,
        kv_heads,
        size,
        w_q.shape[1],
        None if gain is None else gain.ctypes.data,
        scale,
        bound.ctypes.data,
    )
    return bound


def attention_maxima(
    q: Any,
    k: Any,
    *,
    scale: Optional[float] = None,
    causal: bool = False,
    window: int = 0,
    first: Any = None,
    end: Any = None,
) -> tuple[Floats, Floats, npt.NDArray[np.float64]]:
    """Max logit, max |logit| and mean entropy (nat) of each head, [heads] each, over batch and allowed pairs.

    q [batch, heads, queries, size], k [batch, kv_heads, keys, size], float32 or float16. ``causal``: query i sees keys
    up to i + keys - queries, of which the last ``window`` where that is not 0; ``first``, ``end`` [batch, queries]: keys
    first <= j < end, too. Never [queries, keys] in memory.
    """
    q, k = np.asarray(q), np.asarray(k)
    kind = np.float16 if q.dtype == np.float16 and k.dtype == np.float16 else np.float32
    q, k = np.ascontiguousarray(q, dtype=kind), np.ascontiguousarray(k, dtype=kind)
    if q.ndim != 4 or k.ndim != 4 or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise library.UsageError(f"q {q.shape}, k {k.shape}: [batch, heads, positions, size]")
    batch, heads, queries, size = q.shape
    ranges = []
    for limit in (first, end):
        given = None if limit is None else np.ascontiguousarray(np.broadcast_to(limit, (batch, queries)), np.int64)
        ranges.append(given)
    attention = library.Attention(
        batch=batch,
        heads=heads,
        kv_heads=k.shape[1],
        queries=queries,
        keys=k.shape[2],
        size=size,
        number=1 if kind == np.float16 else 0,
        q=q.ctypes.data,
        k=k.ctypes.data,
        scale=size**-0.5 if scale is None else scale,
        causal=int(causal),
        window=window,
        first=None if ranges[0] is None else ranges[0].ctypes.data,
        end=None if ranges[1] is None else ranges[1].ctypes.data,
    )
    largest, largest_abs = np.empty(heads, np.float32), np.empty(heads, np.float32)
    entropy = np.empty(heads)
    library.call("attention_maxima", attention, largest.ctypes.data, largest_abs.ctypes.data, entropy.ctypes.data)
    return largest, largest_abs, entropy


def _choice(what: str, value: str, choices: Sequence[str]) -> int:
    if value not in choices:
        raise library.UsageError(f"{what} {value!r}: {', '.join(choices)}")
    return choices.index(value)


def clip_rule(tau: float, alpha: float = 0.5, scope: str = "head", gqa: str = "q_only", mla: str = "exact") -> library.Clip:
    """A rule of QK-Clip; UsageError where a part of it is none."""
    return library.Clip(
        tau, alpha, _choice("scope", scope, SCOPES), _choice("gqa", gqa, GQA_RULES), _choice("mla", mla, MLA_RULES)
    )


def clip_factors(
    max_logit: Any, kv_heads: int = 0, *, rule: Optional[library.Clip] = None, **options: Any
) -> tuple[Floats, Floats, Floats]:
    """Factors of one layer from its max logits [heads]: of rows of w_q [heads], of w_k [kv_heads], and what becomes of the
    logits [heads]. Options: tau, alpha=0.5, scope="head", gqa="q_only" (``maxlogit help qk_clip``)."""
    rule = rule or clip_rule(**options)
    s = np.ascontiguousarray(max_logit, dtype=np.float32).ravel()
    kv_heads = kv_heads or len(s)
    q, k, gamma = np.empty(len(s), np.float32), np.empty(kv_heads, np.float32), np.empty(len(s), np.float32)
    library.call(
        "clip_factors",
        rule,
        s.ctypes.data,
        len(s),
        kv_heads,
        q.ctypes.data,
        k.ctypes.data,
        gamma.ctypes.data,
    )
    return q, k, gamma


def clip_factors_mla(
    max_logit: Any, *, rule: Optional[library.Clip] = None, **options: Any
) -> tuple[Floats, Floats, Floats, float, Floats]:
    """The same of multi-head latent attention: content q [heads] and k [heads], rotary q [heads], the shared rotary key,
    gamma [heads]. Options: tau, alpha=0.5, scope="head", mla="exact"."""
    rule = rule or clip_rule(**options)
    s = np.ascontiguousarray(max_logit, dtype=np.float32).ravel()
    q, k, rope, gamma = (np.empty(len(s), np.float32) for _ in range(4))
    shared = c.c_float(1)
    library.call(
        "clip_factors_mla",
        rule,
        s.ctypes.data,
        len(s),
        q.ctypes.data,
        k.ctypes.data,
        rope.ctypes.data,
        c.byref(shared),
        gamma.ctypes.data,
    )
    return q, k, rope, shared.value, gamma
