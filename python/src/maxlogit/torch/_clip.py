"""QK-Clip behind any optimizer."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from maxlogit import MISSING, MaxlogitError, Recorder, UsageError
from maxlogit._numbers import clip_factors, clip_factors_mla, clip_rule
from maxlogit.torch import _probe
from maxlogit.torch._attention import NOT_FOUND, Attention, Reader, attention_of, parameters_of, warn_once
from maxlogit.torch._layout import scale_rows, whole
from maxlogit.torch._probe import Source
from maxlogit.torch._ranks import Rows, is_distributed

_MOMENTA = ("momentum_buffer", "exp_avg")  # first moments, by the names of PyTorch's optimizers
_PATIENCE = 3  # clips without effect
FROZEN = "frozen"
_SAMPLE = 64  # rows of a parameter that are kept, and inputs of a row
Floats = npt.NDArray[np.float32]
_open: weakref.WeakSet[QKClip] = weakref.WeakSet()


class CannotClip(UsageError):
    """The weights of a module do not make its logits in a way that a clip can scale. Names the module, the reason and the
    remedy."""


class OfACopy:
    """What a copy of a model has where the model has its Watch or QKClip."""

    def step(self) -> int:
        raise RuntimeError("QKClip.step: the QKClip of this model's original does not clip the copy: make one for it")

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"QKClip.{name}: a copy of a model has no QKClip: make one for it")


class _Clipped(NamedTuple):
    """A sample of the numbers of a parameter that a clip has changed: later values show whether it lasted. A copy of all
    clipped rows would be as large as the weights."""

    path: str
    dim: int
    rows: Tensor
    before: Tensor
    after: Tensor


class QKClip:
    """Rescale the query and key weights of heads whose max logit has passed ``tau`` (Kimi K2, arXiv 2507.20534 Alg. 1).

        clip = maxlogit.torch.QKClip(model, tau=100)
        ...
        optimizer.step()
        clip.step()

    With S a head's max logit in the forward passes since the last ``step``: where S > tau, gamma = tau / S and the head's
    logits shrink by gamma. A head of S <= tau, or whose S is not finite, is left as it is. S is without a bias that is added
    to the scores, which no weight can scale. The factors are those of ``maxlogit run``, to the last bit where weights are
    float32. Called before ``optimizer.step()`` it is the order of ms-swift.

    **Which weights.** Before the first clip, and again when the model has other parameters, the model runs once more on the
    batch of a training step, and queries and keys are followed back to the linear layers that make them. If they do not make
    the logits alone and in proportion, the module is refused. Modules that are not trained are left alone.

    Args:
        tau, alpha: threshold; the query weights' share of the exponent, keys take the rest.
        scope: ``head``; ``layer``: its largest S is that of all heads.
        gqa: where heads share keys: ``q_only`` (exact for every head), ``group_max`` (Megatron-LM), ``own_q_min_k``,
            ``compensated``.
        mla: where all heads share a rotary key: ``exact`` (Kimi K2), ``kr_layer``, ``kr_head``.
        maximum: ``signed``, or ``absolute``.
        optimizer: one or several, whose first moments (momentum_buffer, exp_avg) of clipped rows shrink with them, and their
            float32 copies of weights.
        recorder: gets ``qk_clip/gamma`` [layer, head] and an event ``clip`` for each head that was clipped.
        on_unknown: ``raise`` an error for a module that is refused, or ``skip`` it with one warning.
        on_ineffective: ``raise`` or ``warn`` when three clips of a module had no effect. It is not clipped again.
        group: the process group of the ranks that train this model.
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
        recorder: Optional[Recorder] = None,
        on_unknown: str = "raise",
        on_ineffective: str = "raise",
        group: Any = None,
    ) -> None:
        for name, value, choices in (
            ("maximum", maximum, ("signed", "absolute")),
            ("on_unknown", on_unknown, ("raise", "skip")),
            ("on_ineffective", on_ineffective, ("raise", "warn")),
        ):
            if value not in choices:
                raise ValueError(f"{name}={value!r}: {', '.join(choices)}")
        self._settings: dict[str, Any] = {}
        self._set_rule({"tau": tau, "alpha": alpha, "scope": scope, "gqa": gqa, "mla": mla})
        self.optimizer = optimizer
        self._on_unknown, self._on_ineffective = on_unknown, on_ineffective
        self._model = model  # the rest has weak references alone
        self._reader = Reader(absolute=maximum == "absolute", bias=False)
        self._rows = Rows(group)
        # what is known of each row of heads: a Source, FROZEN, or the reason why it is refused
        self._states: dict[str, Union[Source, str]] = {}
        self._is_due = True  # whether forward passes have an extra pass
        self._signature: Any = None
        self._problem, self._replaced = "", False
        self._said: set[str] = set()
        self._pending: dict[str, tuple[Floats, Floats, list[_Clipped]]] = {}
        self._without_effect: dict[str, int] = {}
        self._sharing: tuple[dict[str, Source], dict[str, list[str]]] = {}, {}
        self._recorder = recorder
        self._unlogged: Optional[tuple[list[str], Floats]] = None  # rows, and their least factors since the last log
        self.steps = 0
        self.clips = 0
        self.gamma: Optional[Floats] = None
        self.max_logit: Optional[Floats] = None
        """Of the last step, [layer, head]: the factor of the logits, and their maxima before it."""
        self._attention = attention_of(model, self._reader)
        older = self._attention.clip() if self._attention.clip is not None else None
        try:
            if older is not None:
                warnings.warn("maxlogit: this model has a QKClip already; the new one takes its place", stacklevel=2)
            if recorder is not None:
                recorder.add_source(self._log)
        except BaseException:
            self._attention.release(self._reader)
            raise
        if older is not None:
            older.close()
            older._replaced = True
        self._attention.clip = weakref.ref(self)
        self._attention.prober = weakref.WeakMethod(self._probe)
        _open.add(self)

    def _set_rule(self, settings: dict[str, Any]) -> None:
        tau, alpha = settings["tau"], settings["alpha"]
        if not 0 < tau < float("inf") or not 0 <= alpha <= 1:
            raise ValueError(f"tau={tau}, alpha={alpha}: tau must be finite and above 0, alpha from 0 to 1")
        self._rule = clip_rule(**settings)
        self._settings = settings

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_settings", ()):
            self._set_rule({**self._settings, name: value})
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        """The rule, which may be changed meanwhile: clip.tau = 50."""
        if name in self.__dict__.get("_settings", ()):
            return self._settings[name]
        raise AttributeError(f"QKClip has no {name}")

    def __reduce__(self) -> Any:
        return OfACopy, ()

    @property
    def layers(self) -> list[str]:
        """The modules that have attention, in the order of the layers."""
        return list(self._rows.order)

    @property
    def refused(self) -> dict[str, str]:
        """The modules that are not clipped, and why."""
        return {row: state for row, state in self._states.items() if isinstance(state, str) and state != FROZEN}

    @property
    def frozen(self) -> list[str]:
        """The modules that are left alone, because nothing that makes their logits is trained."""
        return [row for row, state in self._states.items() if state == FROZEN]

    def close(self) -> None:
        """Clip no more."""
        if self._attention.clip is not None and self._attention.clip() is self:
            self._attention.clip = None
            self._attention.prober = None
        self._attention.release(self._reader)
        _open.discard(self)

    # --- which parameters ---------------------------------------------------------------------------------

    def verify(self, *args: Any, **kwargs: Any) -> None:
        """Find the parameters now, by a forward pass of the model with these arguments: where the model runs inside a
        function that is compiled, ``step`` cannot do it itself."""
        found, _ = self._find(self._attention.model, args, kwargs)
        self._states.update(found)

    def _probe(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Before a forward pass of training. Returns that pass's arguments, or None.

        The extra pass may have collectives. So ``step``, where all ranks meet, decides for each pass until the next one,
        and only a process that is alone stops before."""
        if not self._is_due or (not is_distributed() and self._knows(self._attention.shape)):
            return None
        found, theirs = self._find(module, args, kwargs)
        known = {row: old for row, old in self._states.items() if not (row in found and getattr(old, "zeros", False))}
        self._states = {**found, **known}  # a part that runs alone does not show all uses of its weights
        return theirs

    def _knows(self, rows: Iterable[str]) -> bool:
        return bool(self._states) and all(row in self._states for row in rows)

    def _find(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """An extra pass. Returns the states that it shows, and the arguments of the pass after it, or None."""
        own, theirs = _probe.for_two(args, kwargs)
        probe, self._problem = _probe.run(self._attention, module, *own)
        if self._problem:  # later uses of the weights were not seen
            return {}, theirs
        found = {**dict.fromkeys(probe.frozen, FROZEN), **probe.reasons, **probe.sources}
        if not found and not self._states and not probe.not_finite:
            self._problem = NOT_FOUND
        return found, theirs

    def _parameters(self) -> dict[str, tuple[nn.Module, str]]:
        """Parameters by their path, as a probe names them."""
        return parameters_of(self._attention.model)

    def _has_changed(self) -> bool:
        """Other parameters than those that were followed: all is to be found anew."""
        now = [(name, id(p), p.requires_grad) for name, p in self._attention.model.named_parameters(remove_duplicate=False)]
        before, self._signature = self._signature, now
        return before is not None and before != now

    def _report(self) -> None:
        """Say once what is not clipped."""
        for row, reason in self.refused.items():
            if row in self._said:
                continue
            self._said.add(row)
            named = f"{row} ({type(self._attention.module(row)).__name__})" if self._is_here(row) else row
            text = f"QKClip: {named} cannot be clipped: it {reason}"
            if self._on_unknown == "raise":
                self._said.discard(row)
                raise CannotClip(f"{text}. QKClip(..., on_unknown='skip') leaves it as it is")
            warnings.warn(text, stacklevel=4)
        if self.frozen and FROZEN not in self._said:
            self._said.add(FROZEN)
            warnings.warn(
                f"QKClip: left alone, because their queries and keys are not trained: {len(self.frozen)} of the modules "
                f"({self.frozen[0]} is the first)",
                stacklevel=4,
            )

    def _is_here(self, row: str) -> bool:
        path = self._attention.paths.get(row.split("#")[0])
        return path is not None and path() is not None

    def weights(self, row: str) -> Optional[tuple[Floats, Floats, int]]:
        """The rows of the heads' queries and keys, [heads * size, inputs], and the number of heads of keys; None where they
        are not known, or not of one weight. Of latent attention the content part."""
        source = self._states.get(row)
        if not isinstance(source, Source):
            return None
        parameters = self._parameters()
        found = []
        for role in "qk":
            blocks = []
            for parts in source.roles[role]:
                own = [(p, parameters[p.path]) for p in parts if p.path in parameters]
                two = [(p, m._parameters[n]) for p, (m, n) in own if m._parameters[n].dim() == 2]  # type: ignore[union-attr]
                if len(two) != 1:
                    return None
                part, parameter = two[0]
                weight = whole(parameter.detach())  # type: ignore[union-attr]
                weight = weight.T if part.dim else weight
                blocks.append(weight[list(part.rows)].float().cpu().numpy())
            if len({b.shape for b in blocks}) != 1:
                return None
            found.append(np.concatenate(blocks))
        if source.is_part:
            return None
        return found[0], found[1], source.groups

    # --- a step -------------------------------------------------------------------------------------------

    def step(self) -> int:
        """Clip by the maxima since the last call, on all ranks alike; how many heads were clipped."""
        if self._replaced:
            raise RuntimeError("QKClip.step: a later QKClip of the same model has taken the place of this one")
        if self._reader not in self._attention.readers:
            return 0
        found = self._reader.take()
        reason, problem, self._problem = "", self._problem, ""
        if problem:
            reason = f"was not followed to its parameters: {problem}. clip.verify(...) tries it again"
        elif self._attention.compiled:
            reason = (
                "runs inside a function that is compiled, where it cannot be followed back to its parameters. Call "
                "clip.verify(...) once, with the arguments of the model's forward pass"
            )
        # on one rank is on all: they sum together below
        changed, has_reason = self._rows.sum(np.array([self._has_changed(), bool(reason)], float))
        if changed:
            self._states, self._pending = {}, {}
        for row, missing in self._reader.problems.items():
            self._states[row] = f"has maxima that are not known: {missing}"
        for row, state in self._states.items():
            if isinstance(state, Source) and state.has_common_keys and self.gqa != "q_only":
                self._states[row] = (
                    "has keys that all ranks share, and other queries on each rank (tensor parallelism): gqa='q_only' can "
                    "clip it, because it scales queries alone"
                )
        self._agree()
        if has_reason:  # for rows that no rank has followed
            self._states.update((row, reason) for row in found if reason and row not in self._states)
            self._agree()
        order = self._rows.order
        was_due = self._is_due  # so that rows of zeros were tried in this step: a clip leaves zeros as they are
        self._is_due = not self._knows(row for row in order if self._rows.heads[row])
        if not order and not self.refused:
            raise RuntimeError(f"QKClip.step: {problem or NOT_FOUND}")
        if not order:
            self._report()
            return 0
        for row in order:
            state = self._states.get(row)
            if isinstance(state, Source) and state.heads != self._rows.heads[row]:
                self._states[row] = "has other numbers of heads in other passes, so that other weights may make its logits"
        self._report()
        one = {name: s[1] if self._reader.absolute else s for name, s in found.items()}
        self.max_logit = self._rows.reduce(one)
        all_gamma = np.full(self.max_logit.shape, MISSING, np.float32)
        self._check_effect()
        factors: dict[tuple[str, int], dict[int, float]] = {}
        shrinks: list[str] = []
        sharing = self._shares()
        due = {row: (self._states[row], self._largest(row, self._states[row], sharing)) for row in order if self._clips(row)}
        # now that they are not zero, their scale can be tried first
        zeros = {row: own for row, own in due.items() if own[0].zeros and not was_due}
        late = {row for row, (source, s) in zeros.items() if (self._factors(source, s, {}) < 1).any()}
        for i, row in enumerate(order):
            own = self._rows.heads[row]
            if row in due and not any(other in late for other in sharing[row]):
                all_gamma[i, :own] = gamma = self._factors(*due[row], factors)
                if (gamma < 1).any():
                    shrinks.append(row)
            else:
                all_gamma[i, :own] = 1
        self._apply(factors, shrinks, all_gamma)
        if late or any(due[row][0].zeros for row in shrinks):  # before the next clip their scale is tried again
            self._states = {row: state for row, state in self._states.items() if not getattr(state, "zeros", False)}
            self._is_due = True
        self.gamma = all_gamma
        if self._unlogged is None:
            self._unlogged = list(order), self.gamma
        else:
            rows, least = self._unlogged
            least = np.pad(least, ((0, 0), (0, self.gamma.shape[1] - least.shape[1])), constant_values=MISSING)
            self._unlogged = list(order), np.fmin(self.gamma, fit(least, rows, order, self.gamma.shape[1]))
        clipped = int((self.gamma < 1).sum())
        self.steps += 1
        self.clips += clipped
        return clipped

    def _agree(self) -> None:
        """Join the states of all ranks; every rank calls it."""
        heads = {row: self._attention.heads_of(row) for row in self._attention.order()}
        self._states = self._rows.agree(list(heads), heads, self._states)

    def _clips(self, row: str) -> bool:
        return isinstance(self._states.get(row), Source) and self._rows.heads[row] > 0

    def _shares(self) -> dict[str, list[str]]:
        """Of each row those that share a parameter with it, directly or through others, itself included."""
        sources = {row: state for row, state in self._states.items() if isinstance(state, Source)}
        if sources != self._sharing[0]:
            self._sharing = sources, sharing(sources)
        return self._sharing[1]

    def _largest(self, row: str, source: Source, shares: dict[str, list[str]]) -> Floats:
        """S of each head; rows that share a parameter shrink together, by the smallest factor due."""
        assert self.max_logit is not None
        rows = [self._rows.order.index(other) for other in shares[row] if other in self._rows.heads]
        largest: Floats = np.fmax.reduce(self.max_logit[rows, : source.heads], axis=0)
        return largest

    def _factors(self, source: Source, s: Floats, factors: dict[tuple[str, int], dict[int, float]]) -> Floats:
        """The factors of rows of parameters, each once; returns those of the logits."""
        if "q_rope" in source.roles:
            q, k, rope, shared, gamma = clip_factors_mla(s, rule=self._rule)
            of_role = {"q": q, "k": k, "q_rope": rope, "k_rope": np.array([shared], np.float32)}
        else:
            q, k, gamma = clip_factors(s, source.groups, rule=self._rule)
            of_role = {"q": q, "k": k}
        for role, heads in source.roles.items():
            first = source.first if role.startswith("q") else source.first_group if role == "k" else 0
            for h, parts in enumerate(heads):
                factor = float(of_role[role][first + h])
                for part in parts:
                    if source.roles["q"] == source.roles.get("k"):  # queries are keys
                        factor = float(np.sqrt(gamma[first + h]))
                    if factor != 1:
                        factors.setdefault((part.path, part.dim), {}).update(dict.fromkeys(part.rows, factor))
        return gamma

    def _apply(self, factors: dict[tuple[str, int], dict[int, float]], shrinks: list[str], gamma: Floats) -> None:
        """All of it or nothing: whatever can fail does so before the first tensor is scaled."""
        parameters = self._parameters() if factors else {}
        sources = self._sharing[0]
        owners: dict[str, list[str]] = {}  # of each parameter
        for row in shrinks:
            for path in sources[row].parameters:
                owners.setdefault(path, []).append(row)
        ready: list[tuple[str, int, nn.Parameter, list[Tensor], Floats, Tensor]] = []
        for (path, dim), of_rows in factors.items():
            if path not in parameters:
                continue  # of another pipeline stage
            module, own = parameters[path]
            parameter = module._parameters[own]
            assert parameter is not None
            each = np.ones(parameter.shape[dim], np.float32)
            each[list(of_rows)] = list(of_rows.values())
            ready.append((path, dim, parameter, self._scaled(path, parameter, dim), each, _sample(parameter, dim)))
        self._check_others({id(parameter): path for path, _, parameter, *_ in ready})
        for _, dim, _, tensors, each, _ in ready:
            for tensor in tensors:
                scale_rows(tensor, dim, each)
        clipped: dict[str, list[_Clipped]] = {}
        for path, dim, parameter, _, _, before in ready:
            if parameter.dim() > 1:
                after = _sample(parameter, dim)
                rows = (before != after).any(1).nonzero()[:, 0]
                rows = rows[:: max(1, len(rows) // _SAMPLE)]
                record = _Clipped(path, dim, rows, before[rows], after[rows])
                for row in owners.get(path, ()):
                    clipped.setdefault(row, []).append(record)
        assert self.max_logit is not None
        for row in shrinks:
            i = self._rows.order.index(row)
            self._pending[row] = self.max_logit[i].copy(), gamma[i].copy(), clipped.get(row, [])

    @staticmethod
    def _check_others(scaled: dict[int, str]) -> None:
        """Maxima of another model are stale as soon as weights that it shares are scaled."""
        for other in _open:
            if other._reader.found:  # this clip has taken its own
                sources = [state for state in other._states.values() if isinstance(state, Source)]
                used = {path for source in sources for path in source.parameters}
                for path, (module, own) in other._parameters().items():
                    if path in used and id(module._parameters[own]) in scaled:
                        raise RuntimeError(
                            f"QKClip.step: {scaled[id(module._parameters[own])]} is also clipped by the QKClip of another "
                            "model, which would scale it twice, and nothing has changed. Call step() of each before the "
                            "other model runs, or make one QKClip of nn.ModuleList([one, other])"
                        )

    def _scaled(self, path: str, parameter: nn.Parameter, dim: int) -> list[Tensor]:
        """The tensors that a clip of a parameter scales, each once, tried with factors of one, which change nothing."""
        ones = np.ones(parameter.shape[dim], np.float32)
        weights = [*self._masters(parameter), parameter]
        found: dict[int, Tensor] = {}
        for tensor in (*weights, *(moment for weight in weights for moment in self._moments(weight))):
            try:
                if tensor.shape != parameter.shape or not tensor.is_floating_point():
                    raise ValueError(f"{tensor.dtype} {list(tensor.shape)}, the weight is {list(parameter.shape)}")
                # two rows show whether a plain tensor can be written to; a tensor of another kind may have no slices
                few = tensor.narrow(dim, 0, min(2, len(ones))) if type(tensor) in (Tensor, nn.Parameter) else tensor
                scale_rows(few, dim, ones[: few.shape[dim]])
                found[id(tensor)] = tensor
            except Exception as problem:
                if any(tensor is weight for weight in weights):
                    text = f"QKClip.step: {path} cannot be scaled, and nothing has changed: {problem}"
                    raise RuntimeError(text) from problem
                if "first moments" not in self._said:
                    self._said.add("first moments")
                    warnings.warn(
                        f"QKClip: the first moment of {path}, and any other like it, stays as it is, because it cannot be "
                        f"scaled by rows as the weight is: {problem}",
                        stacklevel=4,
                    )
        return list(found.values())

    @property
    def _optimizers(self) -> list[Any]:
        given = self.optimizer
        return list(given) if isinstance(given, Sequence) else [] if given is None else [given]

    def _states_of(self, parameter: Tensor) -> Iterator[dict[str, Any]]:
        for optimizer in self._optimizers:
            state = getattr(optimizer, "state", {})
            if parameter in state:
                yield state[parameter]

    def _moments(self, parameter: Tensor) -> list[Tensor]:
        found = [state.get(name) for state in self._states_of(parameter) for name in _MOMENTA]
        return [moment for moment in found if moment is not None]

    def _masters(self, parameter: Tensor) -> list[Tensor]:
        """Copies of a narrow weight in float32 that an optimizer keeps: tensors that are the weight when they are rounded.
        Parameters of an optimizer may be another model's, or another layer's copies: they count only in place of the weight,
        and if there is one."""
        if parameter.dtype not in (torch.bfloat16, torch.float16):
            return []
        in_states = [x for state in self._states_of(parameter) for x in state.values() if isinstance(x, Tensor)]
        others = {id(p): p for optimizer in self._optimizers for group in optimizer.param_groups for p in group["params"]}
        if id(parameter) in others:
            others = {}
        for p in self._attention.model.parameters():
            others.pop(id(p), None)
        found, copies = (
            [x for x in candidates if x.shape == parameter.shape and x.dtype == torch.float32 and _equal(x, parameter)]
            for candidates in (in_states, others.values())
        )
        return found + copies if len(copies) == 1 else found

    # --- whether it lasts ---------------------------------------------------------------------------------

    def _check_effect(self) -> None:
        """A head that was clipped must have shrunk by now, if the optimizer's step cannot explain why it has not."""
        assert self.max_logit is not None
        pending, self._pending = self._pending, {}
        parameters = self._parameters() if pending else {}
        for row, (s, gamma, records) in pending.items():
            i = self._rows.order.index(row)
            now = self.max_logit[i, : len(s)]
            if np.isnan(now).all():
                self._pending[row] = s, gamma, records  # not seen since
                continue
            sums = np.zeros(3)
            for path, dim, rows, before, after in records:
                module, own = parameters.get(path, (None, ""))
                parameter = None if module is None else module._parameters[own]
                if parameter is not None:
                    x = _sample(parameter, dim)[rows]
                    sums += [float((a - b).square().sum()) for a, b in ((x, before), (x, after), (before, after))]
            to_before, to_after, clip = np.sqrt(self._rows.sum(sums))
            h = int(np.nanargmin(np.where(np.isnan(gamma), 1, gamma)))
            undone = to_before < 0.5 * to_after
            no_effect = to_after < 0.5 * clip and now[h] > s[h] * np.sqrt(gamma[h])
            self._without_effect[row] = self._without_effect.get(row, 0) + 1 if undone or no_effect else 0
            if self._without_effect[row] < _PATIENCE:
                continue
            reason = (
                "its weights are again as before each clip: the optimizer has copies of its own (float32 master weights). "
                "Give it to QKClip(optimizer=...)"
                if undone
                else f"its weights shrink, and its logits do not ({s[h]:.4g}, clipped by {gamma[h]:.4g}, is {now[h]:.4g} now)"
            )
            self._states[row] = reason
            text = f"QKClip: {_PATIENCE} clips of {row} had no effect, and it is not clipped again: {reason}"
            self._said.add(row)
            if self._on_ineffective == "raise":
                raise CannotClip(text)
            warnings.warn(text, stacklevel=3)

    # --- rows ---------------------------------------------------------------------------------------------

    @functools.cached_property
    def _logged(self) -> tuple[list[str], int]:
        """The rows of the file, and the heads of each."""
        assert self.gamma is not None and self._recorder is not None
        self._recorder.define(
            "qk_clip/gamma",
            self.gamma.shape,
            long_name="QK-Clip factor",
            definition="factor by which QK-Clip scaled the head's logits since the row before, the least if it ran several "
            "times; 1 where it did not",
            summary="min",
        )
        order = order_of_file(self._recorder, "qk_clip/gamma", list(self._rows.order))
        self._recorder.axis("layer", order)
        return order, self.gamma.shape[1]

    def _log(self, step: int) -> None:
        if self._recorder is None or self._unlogged is None:
            return
        rows, least = self._unlogged
        logged, heads = self._logged
        if not set(rows) <= set(logged) or least.shape[1] > heads:
            warn_of_late(self._attention, [row for row in rows if row not in logged])
        gamma = fit(least, rows, logged, heads)
        self._recorder.put("qk_clip/gamma", gamma)
        for layer, head in zip(*np.nonzero(gamma < 1)):
            self._recorder.event(step, "clip", int(layer), int(head), float(gamma[layer, head]))
        self._unlogged = None

    # --- state --------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Counts of steps and clips, and the rule. Maxima are of one step, and no state."""
        return {"steps": self.steps, "clips": self.clips, **self._settings}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Counts go on. A rule that is not this one's is an error, because a run goes on as it began."""
        other = {key: state[key] for key in self._settings if key in state and state[key] != self._settings[key]}
        if other:
            raise ValueError(f"QKClip: the state has {other}, this one {self._settings}")
        self.steps, self.clips = int(state["steps"]), int(state["clips"])


def sharing(sources: dict[str, Source]) -> dict[str, list[str]]:
    """The rows of heads that share rows of a parameter, directly or through others: of each all of them."""
    by_path: dict[str, list[str]] = {}
    for row, source in sources.items():
        for path in source.parameters:
            by_path.setdefault(path, []).append(row)
    found = {row: [row] for row in sources}
    for path, users in by_path.items():
        owners: dict[int, str] = {}  # of its rows
        for user in users if len(users) > 1 else ():
            heads = [head for role in sources[user].roles.values() for head in role]
            for r in {r for head in heads for part in head if part.path == path for r in part.rows}:
                one, other = found[owners.setdefault(r, user)], found[user]
                if one is not other:
                    one += other
                    found.update(dict.fromkeys(other, one))
    return found


def fit(values: Any, order: list[str], rows: list[str], heads: int) -> Any:
    """Values of rows in the order of a file, whose numbers of rows and heads are what they were when it began."""
    found = np.full((len(rows), heads), MISSING, values.dtype)
    width = min(heads, values.shape[1])
    for i, row in enumerate(rows):
        if row in order:
            found[i, :width] = values[order.index(row), :width]
    return found


def order_of_file(recorder: Recorder, series: str, order: list[str]) -> list[str]:
    """The rows in the order of the file that a recording goes on with, if it has the same ones."""
    try:
        names = recorder.places_of(series, "layer")
    except MaxlogitError:  # a failure that the others do not wait for
        return order
    return names if sorted(names) == sorted(order) else order


def warn_of_late(attention: Attention, late: list[str]) -> None:
    name = (late and late[0]) or "a module that was added to the model"
    warn_once(attention, f"{name} has attention, or more heads, only since the first row was written: it has no row")


def _equal(master: Tensor, parameter: Tensor) -> bool:
    with torch.no_grad():
        master, parameter = (x.to_local() if hasattr(x, "to_local") else x for x in (master, parameter))
        return master.shape == parameter.shape and torch.equal(master.to(parameter.dtype), parameter)


def _sample(parameter: Tensor, dim: int) -> Tensor:
    """[outputs, some inputs], a copy; of a sharded parameter of the piece that is here."""
    x = parameter.detach()
    x = x.to_local() if hasattr(x, "to_local") else x
    x = x.movedim(dim, 0).flatten(1) if x.dim() > 1 else x[:, None]
    return x[:, :: max(1, x.shape[1] // _SAMPLE)].to(torch.float32, copy=True)
