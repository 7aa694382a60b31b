"""What is recorded of a model while it trains."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import numpy.typing as npt
from torch import nn

from maxlogit import MISSING, Recorder, spectra
from maxlogit.torch._attention import NOT_FOUND, Attention, Reader, attention_of, warn_once
from maxlogit.torch._clip import OfACopy, fit, order_of_file, warn_of_late
from maxlogit.torch._layout import Layouts, UnknownLayout, blocks, layout_of
from maxlogit.torch._ranks import Rows

DEFINITION = (
    "signed maximum over the batch and the positions that the mask allows of scale times query times key, as they enter "
    "attention, with a bias that is added, before any cap, over all forward passes in training since the row before; from "
    "outside of the model, in float32"
)


class Watch:
    """Made by :func:`watch`. A context manager: its end is `close`."""

    def __init__(
        self,
        model: nn.Module,
        recorder: Recorder,
        every: int,
        spectra_every: int,
        layouts: Optional[Layouts],
        on_error: str,
        group: Any,
    ) -> None:
        if every < 1 or spectra_every < 0:
            raise ValueError(f"every={every}, spectra_every={spectra_every}: at least 1, and 0 or more")
        if on_error not in ("warn", "raise"):
            raise ValueError(f"on_error={on_error!r}: warn, raise")
        self.model = model  # the rest has weak references alone
        self.recorder = recorder
        self.every, self.spectra_every, self.layouts, self.on_error = every, spectra_every, layouts, on_error
        self.reader = Reader(strict=on_error == "raise")
        self.rows = Rows(group)
        self.order: list[str] = []  # of the file
        self.shape: dict[str, tuple[int, int, int]] = {}  # of rows that have run, on whatever rank
        self._last, self._has_logged, self._logs = recorder.last_step, False, 0
        self.reader.active = (self._last + 1) % every == 0
        self.attention = attention_of(model, self.reader)
        try:
            recorder.add_source(self._log)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Look no more. The last one to look at a model takes every trace from it."""
        self.attention.release(self.reader)

    def __reduce__(self) -> Any:
        return OfACopy, ()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- rows ---------------------------------------------------------------------------------------------

    def _log(self, step: int) -> None:
        if self.reader not in self.attention.readers:
            return
        if not self._has_logged:  # one rank alone may have the rows of an earlier process; the others have then looked
            self._has_logged = True
            self._last = self.rows.largest(self._last)
            self.reader.active = (self._last + 1) % self.every == 0
        stride = max(1, step - self._last)
        is_due = step % self.every == 0 or stride >= self.every
        if self.reader.active and (is_due or self._logs != 1):
            self._put_maxima()
        else:
            self.reader.take()
        if self.spectra_every and step % self.spectra_every == 0 and self.order:
            self._put_spectra()
        # the next row is expected as far on as this one was, which of the first is not known; where rows are seldom each has
        # its maxima
        self._last, self._logs = step, self._logs + 1
        self.reader.active = self._logs == 1 or (step + stride) % self.every == 0 or stride >= self.every

    def _put_maxima(self) -> None:
        attention = self.attention
        found = self.reader.take()
        if not found and attention.only_eval:
            warn_once(attention, "rows are missing, because the model is in eval mode: call model.train() before training")
        heads = {row: attention.heads_of(row) for row in attention.order()}
        self.shape = self.rows.agree(list(heads), heads, {**self.shape, **attention.shape})
        if not self.order:
            if not self.rows.order:
                if self.on_error == "raise":
                    raise RuntimeError(f"maxlogit.torch.watch: {NOT_FOUND}")
                if not self.reader.problems and not attention.only_eval:
                    warn_once(attention, NOT_FOUND)
                return
            self.order = self._order_of_file()
            self.heads = max(self.rows.heads.values())
            shape = (len(self.order), self.heads)
            self.recorder.define("attn/max_logit", shape, unit="nat", long_name="max logit", definition=DEFINITION)
            self.recorder.axis("layer", self.order)
        late = [row for row in self.rows.order if row not in self.order or self.rows.heads[row] > self.heads]
        if late:
            warn_of_late(attention, late)
        self.recorder.put("attn/max_logit", fit(self.rows.reduce(found), self.rows.order, self.order, self.heads))

    def _order_of_file(self) -> list[str]:
        """Of rank 0, which alone has a file; another one, where each of them writes one, has its own."""
        order = list(self.rows.order)
        own = order_of_file(self.recorder, "attn/max_logit", order) if self.recorder.is_first else order
        writers = self.rows.sum(np.array([float(self.recorder.is_first)]))[0]
        at = self.rows.sum(np.array([order.index(name) * float(self.recorder.is_first) for name in own]))
        return [order[int(i)] for i in at] if writers == 1 else own

    def _put_spectra(self) -> None:
        layers = len(self.order)
        table: dict[str, npt.NDArray[np.float64]] = {}
        clip = self.attention.clip() if self.attention.clip is not None else None
        if clip is not None:
            clip._agree()  # weights in pieces are joined by all ranks or by none

        def put(group: str, layer: int, found: Any, of: Any) -> None:
            for field, values in found._asdict().items():
                series = table.setdefault(f"{group}/{field}", np.full((layers, self.heads), MISSING))
                series[layer, : len(of)] = values[of]

        for layer, name in enumerate(self.order):
            if name not in self.shape or name.split("#")[0] not in self.attention.paths:
                continue
            try:
                heads, q, k, groups = projections(self.attention, name, self.shape[name], self.layouts)
            except (ValueError, np.linalg.LinAlgError) as problem:
                if self.on_error == "raise":
                    raise
                warn_once(self.attention, f"no spectra of {name} and the like: it {problem}. spectra_every=0 asks for none")
                continue
            put("head_q", layer, spectra(q, heads), range(heads))
            put("head_k", layer, spectra(k, groups), [h * groups // heads for h in range(heads)])
            # of latent attention the two have inputs of their own
            width = max(q.shape[1], k.shape[1])
            q, k = (np.pad(w, ((0, 0), (0, width - w.shape[1]))) for w in (q, k))
            put("head_qk", layer, spectra(q, heads, k, groups), range(heads))
        what = {
            "head_q": "the head's rows of the query projection",
            "head_k": "the rows of the key projection that serve the head",
            "head_qk": "the head's form w_q^T w_k, n = head size",
        }
        for series, values in table.items():
            group, field = series.split("/")
            self.recorder.define(
                series,
                values.shape,
                rows="spectra",
                long_name=f"{field.replace('_', ' ')} of {what[group]}",
                definition="content part alone of latent attention",
            )
            self.recorder.put(series, values)


def projections(
    attention: Attention, row: str, shape: tuple[int, int, int], layouts: Optional[Layouts]
) -> tuple[int, npt.NDArray[np.float32], npt.NDArray[np.float32], int]:
    """Heads, their rows of the query projection, those of the key projection, heads of keys: as a clip has found them, or as
    a layout or the names of the projections say, of the module or of one around it."""
    heads, _, size = shape
    clip = attention.clip() if attention.clip is not None else None
    told = clip.weights(row) if clip is not None and not layouts else None
    if told is not None:
        q, k, groups = told
        return heads, q, k, groups
    own = path = row.split("#")[0]
    problem: Optional[UnknownLayout] = None
    while True:
        for name in dict.fromkeys((own, path)) if path in attention.paths else ():
            try:
                rows = {r.role: r for r in layout_of(name, attention.module(path), heads, size, layouts)}
                q, k = (np.concatenate(blocks(rows[role])) for role in "qk")
                return heads, q, k, len(rows["k"].parts)
            except UnknownLayout as other:
                problem = problem or other
        if not path:
            raise problem or UnknownLayout(f"{row} is not a module of the model")
        path = path.rpartition(".")[0]


def watch(
    model: nn.Module,
    recorder: Recorder,
    every: int = 1,
    spectra_every: int = 100,
    layouts: Optional[Layouts] = None,
    *,
    on_error: str = "warn",
    group: Any = None,
) -> Watch:
    """Record the max logits of a model's attention, layer by layer and head by head, with every ``recorder.log``.

    Found are ``F.scaled_dot_product_attention``, ``nn.MultiheadAttention``, ``flex_attention``, the attention interface of
    transformers, flash-attn's functions; what multiplies by itself calls :func:`maxlogit.torch.see`. Series, by layer (the
    modules that have attention, with their paths; ``PATH#2`` is the second call in one pass) and head:

    - ``attn/max_logit`` [layer, head], nat: the signed maximum over the batch and the allowed positions of the softmax's
      input before any cap, its scale and a bias included. Exact: from queries and keys as they enter, products in float32.
      Of all forward passes in training since the row before, on all ranks; validation (``model.eval()``) does not count.
    - every ``spectra_every`` steps (0: never) ``head_q/...``, ``head_k/...``, ``head_qk/...`` [layer, head]: norms, entropy
      and ranks of each head's rows of the query and key projections, and of the form that makes its logits.

    Args:
        model: the one that is called; DDP, FSDP2 (fully_shard) and compiled ones too.
        recorder: where rows go. Each process has one, with its rank, and all of them log.
        every: look at steps that are multiples of it; others cost nothing.
        layouts: where projections are fused in a way that is not known: a layout by module's name (see `Fused`).
        on_error: ``warn`` once about what cannot be seen, or ``raise``.
        group: the process group of the ranks that train this model.
    """
    return Watch(model, recorder, every, spectra_every, layouts, on_error, group)
