"""QK-Clip behind any optimiser."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from maxlogit import Recorder
from maxlogit._numbers import clip_factors, clip_factors_mla, clip_rule
from maxlogit.torch._attention import Reader, attention_of
from maxlogit.torch._layout import Layouts, Rows, layout_of, norms_of, scale_rows
from maxlogit.torch._watch import most_heads, reduced

_MOMENTA = ("momentum_buffer", "exp_avg")  # first moments, by the names of PyTorch's optimisers


class QKClip:
    """Rescale the query and key weights of heads whose max logit has passed ``tau`` (Kimi K2, arXiv 2507.20534 Alg. 1).

        clip = maxlogit.torch.QKClip(model, tau=100)
        ...
        optimizer.step()
        clip.step()

    With S a head's max logit in the forward passes since the last ``step``: where S > tau, gamma = tau / S and the head's
    logits shrink by gamma. A head of S <= tau, or whose S is not finite, is left as it is. The factors are those of
    ``maxlogit run``, to the last bit where weights are float32. Called before ``optimizer.step()`` it is the order of
    ms-swift.

    Args:
        tau, alpha: threshold; the query weights' share of the exponent, keys take the rest.
        scope: ``head``; ``layer``: its largest S is that of all heads.
        gqa: where heads share keys: ``q_only`` (exact for every head), ``group_max`` (Megatron-LM), ``own_q_min_k``,
            ``compensated``.
        mla: where all heads share a rotary key: ``exact`` (Kimi K2), ``kr_layer``, ``kr_head``.
        maximum: ``signed``, or ``absolute``.
        optimizer: one or several, whose first moments (momentum_buffer, exp_avg) of clipped rows shrink with them.
        layouts: as in :func:`maxlogit.torch.watch`.
        recorder: gets ``qk_clip/gamma`` [layer, head] and an event ``clip`` for each head that was clipped.
    """

    def __init__(
        self,
        model: nn.Module,
        tau: float = 100,
        scope: str = "head",
        *,
        alpha: float = 0.5,
        gqa: str = "q_only",
        mla: str = "exact",
        maximum: str = "signed",
        optimizer: Optional[Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer]]] = None,
        layouts: Optional[Layouts] = None,
        recorder: Optional[Recorder] = None,
    ) -> None:
        if not tau > 0 or not 0 <= alpha <= 1:
            raise ValueError(f"tau={tau}, alpha={alpha}: tau is above 0, alpha from 0 to 1")
        if maximum not in ("signed", "absolute"):
            raise ValueError(f"maximum={maximum!r}: signed, absolute")
        self._settings = {"tau": tau, "alpha": alpha, "scope": scope, "gqa": gqa, "mla": mla}
        self._rule = clip_rule(tau, alpha, scope, gqa, mla)
        self._optimizers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer or [])
        self._layouts = layouts
        self._attention = attention_of(model)
        self._reader = Reader(absolute=maximum == "absolute", norms=True)
        self._attention.readers.append(self._reader)
        self._order: list[str] = []
        self._rows: dict[str, list[Rows]] = {}
        self._recorder = recorder
        self.steps = 0
        self.clips = 0
        self.gamma: Optional[npt.NDArray[np.float32]] = None
        self.max_logit: Optional[npt.NDArray[np.float32]] = None
        """Of the last step, [layer, head]: what became of the logits, and what they were."""
        if recorder is not None:
            recorder.add_source(self._log)

    @property
    def layers(self) -> list[str]:
        """The modules that are clipped, in the order of the layers."""
        return list(self._order)

    def close(self) -> None:
        """Clip no more."""
        if self._reader in self._attention.readers:
            self._attention.readers.remove(self._reader)

    def _find(self) -> None:
        self._order = self._attention.order()
        if not self._order:
            raise RuntimeError(
                "QKClip.step: no attention was seen yet: the model has not run in training mode since QKClip was made, "
                "or its attention is not of a known kind (see maxlogit.torch.watch)"
            )
        for name in self._order:
            module = self._attention.modules[name]
            norms = norms_of(module)
            if norms:
                raise ValueError(
                    f"QKClip: {name} ({type(module).__name__}) has {' and '.join(norms)} behind its projections: weights "
                    "that shrink before a norm change no logit"
                )
            heads, _, size = self._attention.shape[name]
            self._rows[name] = layout_of(name, module, heads, size, self._layouts)
        self._reader.norms = False
        normed = [name for name, one in self._reader.one_norm.items() if one]
        if normed:
            warnings.warn(
                f"QKClip: the queries of {normed[0]} are all of one length. Where a norm stands behind the projections, "
                "weights that shrink change no logit",
                stacklevel=3,
            )

    def step(self) -> int:
        """Clip by the maxima since the last call, on all ranks alike; how many heads were clipped."""
        found = self._reader.take()
        if not self._order:
            self._find()
        heads = most_heads(self._attention, self._order)
        one = {name: s[1] if self._reader.absolute else s for name, s in found.items()}
        self.max_logit = reduced(one, self._order, heads)
        self.gamma = np.full((len(self._order), heads), np.nan, np.float32)
        for layer, name in enumerate(self._order):
            own = self._attention.shape[name][0]
            self.gamma[layer, :own] = self._clip(self._rows[name], self.max_logit[layer, :own])
        clipped = int((self.gamma < 1).sum())
        self.steps += 1
        self.clips += clipped
        return clipped

    def _clip(self, rows: list[Rows], s: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        by_role = {r.role: r for r in rows}
        if "q_rope" in by_role:
            q, k, rope, shared, gamma = clip_factors_mla(s, rule=self._rule)
            factors = {"q": q, "k": k, "q_rope": rope, "k_rope": np.array([shared], np.float32)}
        else:
            q, k, gamma = clip_factors(s, len(by_role["k"].parts), rule=self._rule)
            factors = {"q": q, "k": k}
        for role, factor in factors.items():
            if (factor != 1).any():
                self._scale(by_role[role], factor)
        return gamma

    def _scale(self, rows: Rows, factor: npt.NDArray[np.float32]) -> None:
        each = np.ones(rows.weight.shape[rows.dim], np.float32)
        for (first, count), f in zip(rows.parts, factor):
            each[first : first + count] = f
        for parameter, dim in ((rows.weight, rows.dim), (rows.bias, 0)):
            if parameter is None:
                continue
            scale_rows(parameter, dim, each)
            for optimizer in self._optimizers:
                for name in _MOMENTA:
                    moment = optimizer.state.get(parameter, {}).get(name)
                    if moment is not None:
                        scale_rows(moment, dim, each)

    def _log(self, step: int) -> None:
        if self._recorder is None or self.gamma is None:
            return
        self._recorder.define(
            "qk_clip/gamma",
            self.gamma.shape,
            long_name="QK-Clip factor",
            definition="factor by which QK-Clip scaled the head's logits in this step; 1 where it did not",
        )
        self._recorder.axis("layer", self._order)
        self._recorder.put("qk_clip/gamma", self.gamma)
        for layer, head in zip(*np.nonzero(self.gamma < 1)):
            self._recorder.event(step, "clip", int(layer), int(head), float(self.gamma[layer, head]))
        self.gamma = None

    # --- state --------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Counts of steps and clips, and the rule. Maxima are of one step, and no state."""
        return {"steps": self.steps, "clips": self.clips, **self._settings}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Counts go on; a rule that is not the one of now is an error, for a run goes on as it began."""
        other = {key: state[key] for key in self._settings if key in state and state[key] != self._settings[key]}
        if other:
            raise ValueError(f"QKClip: the state has {other}, this one {self._settings}")
        self.steps, self.clips = int(state["steps"]), int(state["clips"])
