"""What is recorded of a model while it trains."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from maxlogit import MISSING, Recorder, spectra
from maxlogit.torch._attention import Attention, Reader, attention_of
from maxlogit.torch._layout import Layouts, Rows, blocks, layout_of

DEFINITION = (
    "signed maximum over the batch and the positions that the mask allows of scale times query times key, as they enter "
    "attention, before any cap, over all forward passes in training since the row before; from outside of the model, in "
    "float32"
)


def reduced(found: dict[str, Tensor], order: list[str], heads: int) -> npt.NDArray[np.float32]:
    """The maxima as [modules, heads] over all ranks; MISSING of what a module has not."""
    device = next(iter(found.values())).device if found else torch.device("cpu")
    table = torch.full((len(order), heads), -torch.inf, device=device)
    for i, name in enumerate(order):
        if name in found:
            table[i, : found[name].shape[-1]] = found[name]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # whether NaN is above all depends on the backend
        broken = torch.isnan(table).float()
        table = table.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
        torch.distributed.all_reduce(table, torch.distributed.ReduceOp.MAX)
        torch.distributed.all_reduce(broken, torch.distributed.ReduceOp.MAX)
        table = table.masked_fill(broken > 0, torch.nan)
    result: npt.NDArray[np.float32] = table.cpu().numpy()
    result[np.isneginf(result)] = MISSING
    return result


def most_heads(attention: Attention, order: list[str]) -> int:
    return max(attention.shape[name][0] for name in order)


class Watch:
    """Made by :func:`watch`."""

    def __init__(
        self, model: nn.Module, recorder: Recorder, every: int, spectra_every: int, layouts: Optional[Layouts]
    ) -> None:
        if every < 1 or spectra_every < 0:
            raise ValueError(f"every={every}, spectra_every={spectra_every}")
        self.attention = attention_of(model)
        self.recorder = recorder
        self.every, self.spectra_every, self.layouts = every, spectra_every, layouts
        self.reader = Reader()
        self.order: list[str] = []
        self._last = recorder.last_step
        self.reader.active = (self._last + 1) % every == 0
        self.attention.readers.append(self.reader)
        recorder.add_source(self._log)

    def close(self) -> None:
        """Look no more."""
        if self.reader in self.attention.readers:
            self.attention.readers.remove(self.reader)

    # --- rows ---------------------------------------------------------------------------------------------

    def _log(self, step: int) -> None:
        if self.reader not in self.attention.readers:
            return
        if self.reader.active:
            self._put_maxima()
        if self.spectra_every and step % self.spectra_every == 0 and self.order:
            self._put_spectra()
        # the next row is expected as far on as this one was; where rows are seldom each has its maxima
        stride = max(1, step - self._last)
        self._last = step
        self.reader.active = (step + stride) % self.every == 0 or stride >= self.every

    def _put_maxima(self) -> None:
        found = self.reader.take()
        if not self.order:
            self.order = self.attention.order()
            if not self.order:
                raise RuntimeError(
                    "maxlogit.torch.watch: no attention was seen since it began. Known are scaled_dot_product_attention, "
                    "nn.MultiheadAttention, flex_attention, transformers' attention interface and flash-attn, called "
                    "within the watched model in training mode; where a model multiplies by itself, call "
                    "maxlogit.torch.see(q, k, scale=..., causal=...) there"
                )
            self.heads = most_heads(self.attention, self.order)
            shape = (len(self.order), self.heads)
            self.recorder.define("attn/max_logit", shape, unit="nat", long_name="max logit", definition=DEFINITION)
            self.recorder.axis("layer", self.order)
        self.recorder.put("attn/max_logit", reduced(found, self.order, self.heads))

    def _put_spectra(self) -> None:
        layers = len(self.order)
        table: dict[str, npt.NDArray[np.float64]] = {}

        def put(group: str, layer: int, found: Any, of: Any) -> None:
            for field, values in found._asdict().items():
                series = table.setdefault(f"{group}/{field}", np.full((layers, self.heads), MISSING))
                series[layer, : len(of)] = values[of]

        for layer, name in enumerate(self.order):
            heads, _, size = self.attention.shape[name]
            rows = {r.role: r for r in layout_of(name, self.attention.modules[name], heads, size, self.layouts)}
            q, k = _stacked(rows["q"]), _stacked(rows["k"])
            groups = len(rows["k"].parts)
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


def _stacked(rows: Rows) -> npt.NDArray[np.float32]:
    return np.concatenate(blocks(rows))


def watch(
    model: nn.Module,
    recorder: Recorder,
    every: int = 1,
    spectra_every: int = 100,
    layouts: Optional[Layouts] = None,
) -> Watch:
    """Record the max logits of a model's attention, layer by layer and head by head, with every ``recorder.log``.

    Found are ``F.scaled_dot_product_attention``, ``nn.MultiheadAttention``, ``flex_attention``, the attention interface of
    transformers, flash-attn's functions; what multiplies by itself calls :func:`maxlogit.torch.see`. Series, by layer (the
    modules that have attention, with their paths) and head:

    - ``attn/max_logit`` [layer, head], nat: the signed maximum over the batch and the allowed positions of the softmax's
      input before any cap, its scale included. Exact: from queries and keys as they enter, products in float32. Of all
      forward passes in training since the row before, on all ranks; validation (``model.eval()``) does not count.
    - every ``spectra_every`` steps (0: never) ``head_q/...``, ``head_k/...``, ``head_qk/...`` [layer, head]: norms, entropy
      and ranks of each head's rows of the query and key projections, and of the form that makes its logits.

    Args:
        model: the one that is called; DDP, FSDP2 (fully_shard) and compiled ones too.
        recorder: where rows go. Each process has one, with its rank, and all of them log.
        every: look at steps that are multiples of it; others cost nothing.
        layouts: where projections are fused in a way that is not known: a layout by module's name (see `Fused`).
    """
    return Watch(model, recorder, every, spectra_every, layouts)
