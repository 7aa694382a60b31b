"""Where attention is, however it is called: a mode of PyTorch sees the functions of PyTorch while a watched model runs, and
the code of Python functions (flex_attention, flash-attn, the attention interface of transformers) is diverted. Maxima belong
to the innermost module that is running. What runs is a thread's own: another thread's forward pass cannot reach it."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from maxlogit import UsageError
from maxlogit.torch._layout import part_of_heads
from maxlogit.torch._logits import ALL, Mask, max_logits

if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 5):
    raise ImportError(f"maxlogit.torch needs PyTorch 2.5 or later, this is {torch.__version__}")

NOT_FOUND = (
    "no attention was seen since it began. Found are scaled_dot_product_attention, nn.MultiheadAttention, flex_attention, "
    "the attention interface of transformers and flash-attn, called within the watched model in training mode. If the model "
    "multiplies queries and keys itself, call maxlogit.torch.see(q, k, scale=..., causal=...) there"
)


def _is_exporting() -> bool:
    """Not is_exporting(), which is true in all compiled code before PyTorch 2.10."""
    flag = getattr(torch.compiler, "_is_exporting_flag", None)
    return bool(torch.compiler._is_compiling_flag if flag is None else flag)


_modes: Any = torch.overrides  # its stack of modes, whose functions are private

# Under a mode their compiler cannot read methods of tensors that are written in Python (unflatten, split, norm): around
# compiled code there is none, and a function that was imported by its name before is not found in it.
_TRACES_NO_MODE = tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 10)

# By a wrapper's class in PyTorch, DeepSpeed or Megatron: the part with the wrapped module. Classes go by name, because
# importing some takes seconds. A user's module may have parts of the same names.
_WRAPPED = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "AveragedModel": "module",
    "OptimizedModule": "_orig_mod",
    "ActivationWrapper": "_checkpoint_wrapped_module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "DeepSpeedEngine": "module",
    "Float16Module": "module",
}


@functools.lru_cache(1024)
def _part_of(kind: type) -> Optional[str]:
    bases = (base for base in kind.__mro__ if base.__module__.startswith(("torch.", "deepspeed.", "megatron.")))
    return next((_WRAPPED[base.__name__] for base in bases if base.__name__ in _WRAPPED), None)


def _part_in(wrapper: nn.Module) -> Optional[str]:
    """The name of the part that a wrapper wraps; None: it is no wrapper."""
    part = _part_of(type(wrapper))
    return part if part is not None and wrapper._modules.get(part) is not None else None


def modules_of(model: nn.Module, again: bool = True) -> Iterator[tuple[str, nn.Module]]:
    """Modules by their paths, without the parts that DDP, FSDP, checkpointing and compile add: a wrapper has the path of the
    module in it, and comes before it. again: also the other paths of a module that has several."""
    done: set[nn.Module] = set()
    todo: list[tuple[str, nn.Module]] = [("", model)]
    while todo:
        path, module = todo.pop()
        if not again and module in done:
            continue
        done.add(module)
        yield path, module
        wrapped = _part_in(module)
        for part, child in reversed(module._modules.items()):
            if child is not None:
                todo.append((path if part == wrapped else f"{path}.{part}".lstrip("."), child))


def parameters_of(model: nn.Module, again: bool = True) -> dict[str, tuple[nn.Module, str]]:
    """By path, the module that has a parameter, and its name there. A wrapper's own parts may not have the path of another:
    it would be unknown which of them is scaled, or recorded."""
    found: dict[str, tuple[nn.Module, str]] = {}
    modules: dict[str, nn.Module] = {}
    for path, module in modules_of(model, again):
        wrapper = modules.get(path)
        if wrapper is not None and wrapper._modules.get(_part_in(wrapper) or "") is not module:
            raise UsageError(f"the model has two modules called {path}: one of a wrapper, one of what it wraps. Rename one")
        modules[path] = module
        for own, parameter in module._parameters.items():
            name = f"{path}.{own}".lstrip(".")
            other, its = found.setdefault(name, (module, own))
            if other._parameters[its] is not parameter:
                raise UsageError(
                    f"the model has two parameters called {name}: one of a wrapper, one of what it wraps. Rename one"
                )
    return found


def _kind(module: nn.Module) -> type:
    """The class of what a wrapper wraps."""
    part = _part_in(module)
    inner = None if part is None else module._modules[part]
    return type(module) if inner is None else _kind(inner)


_warned: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def warn_once(owner: Any, text: str) -> None:
    said = _warned.setdefault(owner, set())
    if text not in said:
        said.add(text)
        warnings.warn("maxlogit: " + text, stacklevel=3)


class Reader:
    """The maxima since the last `take`, for one observer: by row, [heads] on the tensors' device.

    absolute: [2, heads], with the absolute ones. bias: whether a bias that is added to the scores counts. strict: whether an
    error stops the user's forward pass."""

    def __init__(self, absolute: bool = False, bias: bool = True, strict: bool = False) -> None:
        self.active = True
        self.absolute = absolute
        self.bias = bias
        self.strict = strict
        self.found: dict[str, Tensor] = {}
        self.problems: dict[str, str] = {}  # of rows whose maxima are not known

    def merge(self, name: str, new: Tensor) -> None:
        old = self.found.get(name)
        if old is not None and old.shape != new.shape:
            raise ValueError(f"{name}: {new.shape[-1]} heads after {old.shape[-1]} in one step")
        self.found[name] = new if old is None else torch.maximum(old, new.to(old.device))

    def take(self) -> dict[str, Tensor]:
        found, self.found = self.found, {}
        return found


class Attention:
    """All attention of one model, found while it runs. It lasts as long as somebody reads."""

    def __init__(self, model: nn.Module) -> None:
        self._model = weakref.ref(model)
        self._lock = threading.Lock()
        self.readers: list[Reader] = []
        self.paths: dict[str, weakref.ref[nn.Module]] = {}
        self.shape: dict[str, tuple[int, int, int]] = {}  # heads, heads of keys, size, as they entered, of all ranks
        self.only_eval = False  # attention was seen in eval mode, and never in training
        self.compiled = False  # some was seen from inside compiled code
        self.prober: Optional[weakref.WeakMethod[Callable[..., Any]]] = None  # a QKClip holds the model
        self.clip: Any = None  # a weak reference to the one that clips this model
        self.passes_to_check = 4  # for attention that nothing here finds
        self._part: dict[str, tuple[int, int]] = {}
        self._places: list[Tensor] = []  # alive, so that no other tensor has their addresses
        parameters_of(model, again=False)
        modules: dict[str, nn.Module] = {}
        for name, module in modules_of(model, again=False):
            is_plain = type(module).__module__.startswith("torch.nn.modules")
            if is_plain and not isinstance(module, nn.MultiheadAttention) and module is not model:
                continue
            if _is_watched(module):
                raise ValueError(
                    f"{name or type(module).__name__} is watched as a part of another model: close that one first"
                )
            modules.setdefault(name, module)  # a wrapper before the module in it
        self._diverted: list[Any] = []
        weakref.finalize(self, _forget, self._places, self._diverted)
        try:
            for name, module in modules.items():
                self.paths[name] = weakref.ref(module)
                self._hook(module, name)
            _divert_all(model, self._diverted)
        except BaseException:
            self._remove()
            raise

    def _hook(self, module: nn.Module, name: str) -> None:
        # Compiled code gets the place as a tensor, so that it does not depend on its value: blocks share one graph.
        place = torch.zeros(1, dtype=torch.int64)
        module._maxlogit_place = place
        _registry[place.data_ptr()] = weakref.ref(self), name
        self._places.append(place)
        _add_hooks(module, _enter, _leave)

    def wrap(self, outer: nn.Module) -> None:
        """Compiled code cannot run the model a second time: what compile has wrapped around it can."""
        if outer is not self._model() and outer not in _inside:
            _inside[outer] = weakref.ref(self)
            _add_hooks(outer, _enter_outer, _leave_outer)

    @property
    def model(self) -> nn.Module:
        model = self._model()
        assert model is not None
        return model

    def module(self, row: str) -> nn.Module:
        module = self.paths[row.split("#")[0]]()
        assert module is not None
        return module

    def release(self, reader: Reader) -> None:
        """One reads no more; the last one takes every trace away."""
        if reader not in self.readers:
            return
        self.readers.remove(reader)
        if not self.readers:
            self._remove()

    def _remove(self) -> None:
        for path in self.paths.values():
            module = path()
            if module is not None:
                _end_interrupted(module)
                _remove_hooks(module)
                module.__dict__.pop("_maxlogit_place", None)
        for outer in [outer for outer, inner in _inside.items() if inner() is self]:
            _end_interrupted(outer)
            _remove_hooks(outer)
            del _inside[outer]
        _forget(self._places, self._diverted)
        model = self._model()
        if model is not None and _of_model.get(model) is self:
            del _of_model[model]

    def order(self) -> list[str]:
        """Rows in the order of the model's modules. A module of a class that has attention is one, also before it runs."""
        kinds: dict[type, tuple[int, int, int]] = {}
        by_path: dict[str, list[str]] = {}
        for row in self.shape:
            path = row.split("#")[0]
            by_path.setdefault(path, []).append(row)
            module = self.paths[path]()
            if module is not None:
                kinds.setdefault(_kind(module), self.shape[row])
        rows = []
        for path, ref in self.paths.items():
            module = ref()
            if path in by_path:
                rows += sorted(by_path[path], key=lambda row: int([*row.split("#"), "1"][1]))
            elif module is not None and _kind(module) in kinds:
                rows.append(path)
        return rows

    def heads_of(self, row: str) -> int:
        """0 where it has not run."""
        return self.shape.get(row, (0, 0, 0))[0]

    def asking(self) -> list[Reader]:
        # validation does not count, nor does what activation checkpointing computes again within backward
        if _is_again():
            return []
        readers = [reader for reader in self.readers if reader.active]
        if not self.model.training:
            self.only_eval = bool(readers)
            return []
        return readers

    def see(self, row: str, q: Tensor, k: Tensor, scale: Optional[float], mask: Mask, found: Optional[Tensor] = None) -> None:
        """found [heads]: the maxima, if they are there already."""
        readers = self.asking()
        if not readers:
            return
        try:
            with torch._C.DisableTorchFunction():
                self._see(readers, row, q, k, scale, mask, found)
        except Exception as problem:
            if any(reader.strict for reader in readers):
                raise
            self.skip(row, f"{type(problem).__name__}: {problem}")

    def skip(self, row: str, reason: str) -> None:
        """Maxima of a row are not known."""
        if self.asking():
            for reader in self.readers:
                reader.problems.setdefault(row, reason)
            if any(reader.strict for reader in self.readers):
                raise Unsupported(f"{row}: {reason}")
            warn_once(self, f"{row}: its maxima are missing: {reason}")

    def _see(
        self,
        readers: list[Reader],
        row: str,
        q: Tensor,
        k: Tensor,
        scale: Optional[float],
        mask: Mask,
        given: Optional[Tensor],
    ) -> None:
        q, k = plain_call(q, k)
        found: dict[bool, Tensor] = {}
        has_bias = mask.tensor is not None and mask.tensor.dtype != torch.bool
        for bias in {reader.bias for reader in readers} if has_bias else (True,):
            absolute = any(reader.absolute for reader in readers if reader.bias == bias or not has_bias)
            found[bias] = (
                given if given is not None else max_logits(q, k, scale=scale, mask=mask, absolute=absolute, bias=bias)
            )
        if row not in self._part:
            self._part[row] = part_of_heads(self.module(row), q.shape[1], q.shape[3])
        rank, ranks = self._part[row]
        with self._lock:
            self.only_eval = False
            self.shape[row] = (ranks * q.shape[1], ranks * k.shape[1], q.shape[3])
            for reader in readers:
                own = found[reader.bias if has_bias else True]
                own = own if reader.absolute or own.dim() == 1 else own[0]
                if ranks > 1:  # those of the others come with the reduction over ranks
                    part = own
                    own = part.new_full((*part.shape[:-1], ranks * q.shape[1]), -torch.inf)
                    own[..., rank * q.shape[1] : (rank + 1) * q.shape[1]] = part
                reader.merge(row, own)


class Unsupported(NotImplementedError):
    """A call whose maxima cannot be computed; it is skipped with a warning."""


def plain_call(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys as plain tensors [batch, heads, positions, size]: what torch.func has wrapped is unwrapped."""
    if q.is_nested or k.is_nested:
        raise Unsupported("nested tensors are not supported")
    functorch = torch._C._functorch
    tensors = [q, k]
    for i, x in enumerate(tensors):
        while functorch.is_functorch_wrapped_tensor(x):
            if functorch.is_batchedtensor(x):
                raise Unsupported("attention under torch.func.vmap is not supported")
            x = functorch.get_unwrapped(x)
        tensors[i] = x
    if type(q) is not Tensor and hasattr(q, "to_local"):
        tensors = [x.to_local() if hasattr(x, "to_local") else x for x in tensors]
    return tensors[0].detach(), tensors[1].detach()


_of_model: weakref.WeakKeyDictionary[nn.Module, Attention] = weakref.WeakKeyDictionary()
# of each wrapper of a watched model; not its attribute, which a copy or a pickle would have, too
_inside: weakref.WeakKeyDictionary[nn.Module, weakref.ref[Attention]] = weakref.WeakKeyDictionary()


def attention_of(model: nn.Module, reader: Optional[Reader] = None) -> Attention:
    """One for all who ask about a model, with one more reader; compile, DDP and FSDP wrap it, and do not change it."""
    outer = model
    while True:
        inner: nn.Module = model._orig_mod if _part_in(model) == "_orig_mod" else model  # type: ignore[assignment]
        inner = inner.module if isinstance(inner, (nn.parallel.DistributedDataParallel, nn.DataParallel)) else inner
        if inner is model:
            break
        model = inner
    if model not in _of_model:
        _of_model[model] = Attention(model)
    attention = _of_model[model]
    if reader is not None:
        attention.readers.append(reader)
    try:
        attention.wrap(outer)
    except BaseException:
        if reader is not None:
            attention.release(reader)
        raise
    return attention


# --- what is running ----------------------------------------------------------------------------------------

# (attention, name of the module) of each place, by the address of its tensor: a copy of a module has another one
_registry: dict[int, tuple[weakref.ref[Attention], str]] = {}
_HOOK = "maxlogit"  # one name for all modules: compiled code depends on it


class Running(NamedTuple):
    """A module that runs: its place (None: what is called here was seen already), what runs around it, calls so far."""

    place: Optional[Tensor]
    outer: Any
    calls: int
    multihead: int = 0  # heads of a multi_head_attention_forward that has not reached its scores


class _Thread:
    """What runs in a thread."""

    def __init__(self) -> None:
        self.at: Optional[Running] = None
        self.probe: Any = None
        self.mode: Any = None
        self.owner: Any = None  # the module that has begun it
        self.frame: Any = None  # that calls the module
        self.told: Any = None  # a call that compiled code has told, whose backend may call the function of PyTorch itself
        self.by_hand: Counter[str] = Counter()  # softmaxes of products, by module, minus those whose products were seen


class _Threads(threading.local):
    def __init__(self) -> None:
        self.own = _Thread()


threads = _Threads()


def _forget(places: list[Tensor], diverted: list[Any]) -> None:
    while places:
        _registry.pop(places.pop().data_ptr(), None)
    while diverted:
        _restore(diverted.pop())


def _owner(place: Tensor) -> tuple[Optional[Attention], str]:
    """The attention and the name of the module of a place; None: a copy's, or closed."""
    own = _registry.get(place.data_ptr())
    return (None, "") if own is None else (own[0](), own[1])


def _row_of(name: str, call: int) -> str:
    return name if not call else f"{name}#{call + 1}"


def _is_watched(module: nn.Module) -> bool:
    place = module.__dict__.get("_maxlogit_place")
    return place is not None and place.data_ptr() in _registry


def _add_hooks(module: nn.Module, enter: Any, leave: Any) -> None:
    key: Any = _HOOK
    module._forward_pre_hooks[key] = enter
    module._forward_pre_hooks_with_kwargs[key] = True
    module._forward_hooks[key] = leave
    module._forward_hooks_always_called[key] = True


def _remove_hooks(module: nn.Module) -> None:
    key: Any = _HOOK
    every: Any = (
        module._forward_pre_hooks,
        module._forward_pre_hooks_with_kwargs,
        module._forward_hooks,
        module._forward_hooks_always_called,
    )
    for hooks in every:
        hooks.pop(key, None)


def _start(owner: Any, attention: Attention) -> None:
    mode: Any = Observer(attention)
    mode.__enter__()
    threads.own.mode, threads.own.owner, threads.own.by_hand = mode, owner, Counter()
    threads.own.frame = sys._getframe(2)


def _end(owner: Any) -> None:
    if threads.own.mode is not None and threads.own.owner is owner:
        mode, threads.own.mode, threads.own.owner, threads.own.frame = threads.own.mode, None, None, None
        _remove_mode(mode)
        mode.finish()


def _remove_mode(mode: Observer) -> None:
    """Take the mode of a pass from PyTorch's stack, where other modes may be above it after Ctrl-C. A `with` around that pass
    has then removed this mode as the top one, and its own mode remains: the last one of those that were below."""
    stack = _modes._get_current_function_mode_stack()
    left = next((m for m in (mode, *reversed(mode.below)) if any(m is other for other in stack)), None)
    above: list[Any] = []
    while left is not None and (top := _modes._pop_mode()) is not left:
        above.append(top)
    for other in reversed(above):
        _modes._push_mode(other)


def _is_interrupted() -> bool:
    """Whether KeyboardInterrupt ended the pass: that calls no hook behind it."""
    begun, frame = threads.own.frame, None
    if begun is not None:
        frame = sys._getframe()
        while frame is not None and frame is not begun:
            frame = frame.f_back  # type: ignore[assignment]
    return begun is not frame


def _end_interrupted(owner: Any, is_root: bool = False) -> None:
    """Before a pass of the same module, or of another model."""
    if not torch.compiler.is_compiling() and (threads.own.owner is owner or (is_root and _is_interrupted())):
        threads.own.at = None
        _end(threads.own.owner)


def _is_again() -> bool:
    """Activation checkpointing computes again, within backward."""
    return bool(torch._C._current_graph_task_id() != -1)


def _enter_outer(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if torch.compiler.is_compiling():
        return None
    inner = _inside.get(module)
    attention = None if inner is None else inner()
    _end_interrupted(module, is_root=True)
    if attention is None or threads.own.mode is not None or _is_again():
        return None
    given = _maybe_probe(attention, attention.model, args, kwargs)
    if not (_TRACES_NO_MODE and hasattr(module, "_orig_mod")):
        _start(module, attention)
    return given


def _leave_outer(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    if not torch.compiler.is_compiling():
        _end(module)


def _maybe_probe(attention: Attention, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns other arguments for the pass, or None."""
    probe = None if attention.prober is None else attention.prober()
    if probe is not None and attention.model.training and not torch.is_inference_mode_enabled():
        return probe(module, args, kwargs)
    return None


def _enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if _is_exporting():
        return None
    given = None
    place: Any = module._maxlogit_place
    if not torch.compiler.is_compiling():
        _end_interrupted(module, is_root=threads.own.mode is not None and not _owner(place)[1])
    if threads.own.at is None and threads.own.mode is None and not torch.compiler.is_compiling():
        attention = _owner(place)[0]
        if attention is None or _is_again():  # a copy has no attention of its own
            return None
        given = _maybe_probe(attention, module, args, kwargs)
        _start(module, attention)
    threads.own.told = None
    threads.own.at = Running(place, threads.own.at, 0)
    return given


def _leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    at = threads.own.at
    while at is not None and at.place is not module._maxlogit_place:  # above it, what an exception left
        at = at.outer
    threads.own.at = None if at is None else at.outer
    if threads.own.at is None and not torch.compiler.is_compiling():
        _end(module)


class Observer(TorchFunctionMode):
    """Active in the thread of a watched forward pass, while it lasts."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.below = _modes._get_current_function_mode_stack()
        self.checks = attention.passes_to_check > 0 and bool(attention.asking())

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is _sdpa:
            see_sdpa(*args, **kwargs)
        elif func is torch.bmm or func is torch.baddbmm:
            see_bmm(func, args)
        elif func is F.softmax or func is torch.softmax or func is Tensor.softmax:
            if not torch.compiler.is_compiling() and self.checks:
                count_softmax(args, kwargs)
        return func(*args, **kwargs)

    def finish(self) -> None:
        if self.checks:
            self.attention.passes_to_check -= 1
            warn_by_hand(self.attention)


def count_softmax(args: Any, kwargs: Any) -> None:
    at = threads.own.at
    if at is not None and at.place is not None:
        threads.own.by_hand[_owner(at.place)[1]] += _of_products(args[0] if args else kwargs["input"])


def _is_around(inner: str, outer: str) -> bool:
    return not outer or f"{inner}.".startswith(f"{outer}.")


def warn_by_hand(attention: Attention) -> None:
    """After a pass: a module has a softmax of its own, and neither there nor around it were its queries and keys seen."""
    counts = threads.own.by_hand
    for name in +counts:
        seen = sum(n for other, n in (-counts).items() if _is_around(name, other) or _is_around(other, name))
        if counts[name] > seen:
            warn_once(
                attention,
                f"{name} ({type(attention.module(name)).__name__}) has a softmax of products of its own. If that is attention, "
                "it is neither recorded nor clipped: call maxlogit.torch.see(q, k, scale=..., causal=...) there",
            )


def _of_products(x: Any) -> bool:
    """Whether a tensor is made of a product of two activations, without a linear layer or a softmax in between."""
    todo, seen = [getattr(x, "grad_fn", None)], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen or "Softmax" in node.name() or node.name().startswith(("Mm", "Addmm", "Linear")):
            continue
        if node.name().startswith(("BmmBackward", "BaddbmmBackward")):
            if not any(_is_parameter(of) for of, _ in node.next_functions[-2:]):
                return True
            continue
        seen.add(node)
        todo.extend(next_node for next_node, _ in node.next_functions)
    return False


def _is_parameter(node: Any) -> bool:
    """Or a view of one."""
    while node is not None and len(node.next_functions) == 1:
        node = node.next_functions[0][0]
    return isinstance(getattr(node, "variable", None), nn.Parameter)


_sdpa: Any = getattr(F.scaled_dot_product_attention, "__wrapped__", F.scaled_dot_product_attention)


def _wrap_sdpa(original: Callable[..., Any]) -> Callable[..., Any]:
    """For compiled code that calls the model, where a mode that begins does not end; and where there is no mode."""

    @functools.wraps(original)
    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Any:
        if threads.own.mode is None:
            see_sdpa(*args, **kwargs)
        return original(*args, **kwargs)

    return scaled_dot_product_attention


def tell(place: Tensor, call: int, q: Tensor, k: Tensor, v: Any, scale: Optional[float], mask: Mask) -> None:
    attention, name = _owner(place)
    if attention is None:
        return
    if _is_interrupted():  # this is another model
        threads.own.at = None
        return
    row = _row_of(name, call)
    if threads.own.probe is not None:
        threads.own.probe.see(row, q, k, v)
    else:
        attention.see(row, q, k, scale, mask)


# Compiled code calls this. The compiler does not look into it, and keeps it for the token that it seems to change.
@torch.library.custom_op("maxlogit::see", mutates_args=("token",))
def _see_op(
    token: Tensor,
    place: Tensor,
    call: int,
    q: Tensor,
    k: Tensor,
    mask: Optional[Tensor],
    scale: float,
    offset: int,
    window: int,
    limits_q: Optional[Tensor],
    limits_k: Optional[Tensor],
) -> None:
    attention = _owner(place)[0]
    if attention is not None:
        attention.compiled = True
    limits = None if limits_q is None or limits_k is None else (limits_q, limits_k)
    tell(place, call, q, k, None, scale, Mask(None if offset == _NO_OFFSET else offset, window, mask, limits=limits))
    threads.own.told = (q.data_ptr(), k.data_ptr(), q.shape)


@_see_op.register_fake
def _(*args: Any) -> None:
    return None


_NO_OFFSET = -(1 << 40)
_token = torch.zeros(1)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _skip(text: str) -> int:
    """A call that is not seen; also while the compiler reads the code."""
    at = threads.own.at
    attention, name = (None, "") if at is None or at.place is None else _owner(at.place)
    if attention is not None:
        if threads.own.probe is not None:
            threads.own.probe.refuse(name, text)
        else:
            attention.skip(name, text)
    return 0


def next_call() -> Optional[Running]:
    """The call of attention that begins now; None where nobody watches, or it was told already."""
    at = threads.own.at
    if at is None or at.place is None:
        return None
    threads.own.at = at._replace(calls=at.calls + 1, multihead=0)
    return at


def see(
    q: Tensor, k: Tensor, scale: Optional[float] = None, mask: Mask = ALL, at: Optional[Running] = None, v: Any = None
) -> None:
    """Queries [batch, heads, queries, size] and keys [batch, kv_heads, keys, size] of the running module."""
    at = at or next_call()
    if at is None or at.place is None:
        return
    if not torch.compiler.is_compiling():
        tell(at.place, at.calls, q, k, v, scale, mask)
        return
    if _is_exporting():
        return
    if mask.modify is not None:
        _skip("flex_attention that is compiled with the model around it is not supported: compile flex_attention alone")
        return
    if type(q) is not Tensor and not isinstance(q, Tensor):
        return
    offset = _NO_OFFSET if mask.offset is None else mask.offset
    size: float = q.shape[-1] ** -0.5 if scale is None else scale
    tensor = None if mask.tensor is None else mask.tensor.detach()
    limits = mask.limits or (None, None)
    _see_op(_token, at.place, at.calls, q.detach(), k.detach(), tensor, size, offset, mask.window, *limits)


def see_by_hand(q: Tensor, k: Tensor, scale: Optional[float], mask: Mask) -> None:
    """Where a softmax of the products is called, too."""
    at = threads.own.at
    if at is not None and at.place is not None and not torch.compiler.is_compiling():
        name = _owner(at.place)[1]
        threads.own.by_hand[name] -= 1
        if threads.own.probe is not None and not at.multihead:  # a user's own products
            threads.own.probe.by_hand.add(_row_of(name, at.calls))
    see(q, k, scale, mask)


# --- functions of PyTorch -----------------------------------------------------------------------------------


def four(mask: Optional[Tensor]) -> Optional[Tensor]:
    """[..., queries, keys] as [batch or 1, heads or 1, queries, keys]."""
    while mask is not None and mask.dim() < 4:
        mask = mask[None]
    return mask


def see_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    **more: Any,
) -> None:
    at = threads.own.at
    if at is None or at.place is None:
        return
    if not torch.compiler.is_compiling():
        told, threads.own.told = threads.own.told, None
        if told is not None and told == (query.data_ptr(), key.data_ptr(), query.shape):
            return  # by compiled code, whose backend calls the function as it is
    if query.is_nested:
        _skip("nested tensors are not supported")
        return
    if query.dim() < 3:
        return
    q, k = (x if x.dim() == 4 else x[:, None] if x.dim() == 3 else x.flatten(0, -4) for x in (query, key))
    tensor = attn_mask
    if tensor is not None and query.dim() == 3 and tensor.dim() == 3:
        tensor = tensor[:, None]
    if tensor is not None and tensor.dim() > 4:
        tensor = tensor.expand(*query.shape[:-3], *tensor.shape[-3:]).flatten(0, -4)
    see(q, k, scale, Mask(0 if is_causal else None, 0, four(tensor)), v=value)


def see_bmm(func: Any, args: tuple[Any, ...]) -> None:
    """The scores of multi_head_attention_forward, where weights are wanted: queries that are scaled, times keys."""
    at = threads.own.at
    if at is None or not at.multihead:
        return
    q, k = args[-2].unflatten(0, (-1, at.multihead)), args[-1].transpose(-2, -1).unflatten(0, (-1, at.multihead))
    mask = None
    if func is torch.baddbmm:
        mask = args[0] if args[0].dim() == 3 else args[0][None]
        mask = mask.unflatten(0, (-1, at.multihead)) if mask.shape[0] > 1 else mask[None]
    see_by_hand(q, k, 1.0, Mask(tensor=mask))


def _multihead(original: types.FunctionType) -> Callable[..., Any]:
    """multi_head_attention_forward asks for a mode first, which would not see what it calls: not so in this copy."""
    known = {**original.__globals__, "has_torch_function": lambda *_: False}
    copy = types.FunctionType(original.__code__, known, original.__name__, original.__defaults__, original.__closure__)
    copy.__kwdefaults__ = original.__kwdefaults__

    @functools.wraps(original)
    def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, *args: Any, **kwargs: Any
    ) -> Any:
        at = threads.own.at
        if at is not None and at.place is not None:
            threads.own.at = at._replace(multihead=num_heads)
        return copy(query, key, value, embed_dim_to_check, num_heads, *args, **kwargs)

    return multi_head_attention_forward


# --- flex_attention -----------------------------------------------------------------------------------------


def _vmapped(
    function: Callable[..., Tensor],
    shape: tuple[int, ...],
    at: tuple[int, int, int],
    device: torch.device,
    scores: Optional[Tensor],
) -> Tensor:
    """A function of (score,) batch, head, query, key over [1, heads, queries, keys], as flex_attention calls it."""
    index = [torch.arange(n, device=device) + first for n, first in zip(shape, (*at, 0))]
    with_scores = () if scores is None else (0,)
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        function = torch.vmap(function, in_dims=with_scores + dims)
    result: Tensor = function(*(() if scores is None else (scores,)), *index)
    return result.expand(shape)


def flex_mask(score_mod: Any, block_mask: Any) -> Mask:
    def modify(scores: Tensor, at: tuple[int, int, int]) -> Tensor:
        shape = tuple(scores.shape)
        if score_mod is not None:
            scores = _vmapped(score_mod, shape, at, scores.device, scores)
        if block_mask is not None:
            seen = _vmapped(block_mask.mask_mod, shape, at, scores.device, None)
            scores = scores.masked_fill(~seen, -torch.inf)
        return scores

    return Mask(modify=modify if score_mod is not None or block_mask is not None else None)


def _wrap_flex(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def flex_attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score_mod: Any = None,
        block_mask: Any = None,
        scale: Optional[float] = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        at = next_call()
        given = (query, key, value, score_mod, block_mask, scale)
        if at is None:
            return original(*given, *args, **kwargs)
        if threads.own.probe is not None and not args and not {"return_lse", "return_aux"} & set(kwargs):
            see(query, key, scale, flex_mask(score_mod, block_mask), at, value)
            # the mean of the values, as of equal weights; a gate that is multiplied with zeros would seem unused
            mean = value.detach().mean(-2, keepdim=True).repeat_interleave(query.shape[1] // value.shape[1], 1)
            return mean.expand(*query.shape[:-1], mean.shape[-1]).contiguous()
        with inside():
            if score_mod is None and _gives_maxima(query, at):
                return _with_maxima(original, at, given, args, kwargs)
            see(query, key, scale, flex_mask(score_mod, block_mask), at, value)
            return original(*given, *args, **kwargs)

    return flex_attention


class inside:
    """What is called here was told already. A probe looks for other uses of queries and keys than this one."""

    def __enter__(self) -> None:
        threads.own.at = Running(None, threads.own.at, 0)
        self.no_grad = None if threads.own.probe is None else torch.no_grad()
        if self.no_grad is not None:
            self.no_grad.__enter__()

    def __exit__(self, *_: Any) -> None:
        if self.no_grad is not None:
            self.no_grad.__exit__(None, None, None)
        at = threads.own.at
        while at is not None and at.place is not None:
            at = at.outer
        threads.own.at = None if at is None else at.outer


def _flex() -> Any:
    import torch.nn.attention.flex_attention as flex

    return flex


def _gives_maxima(query: Tensor, at: Running) -> bool:
    """flex_attention can return each query's largest score (PyTorch from 2.9 on; not on a processor), if that is what is
    asked for."""
    if torch.compiler.is_compiling() or threads.own.probe is not None or at.place is None:
        return False
    attention = _owner(at.place)[0]
    readers = attention.asking() if attention is not None else []
    fused = query.device.type != "cpu" and hasattr(_flex(), "AuxRequest")
    return fused and bool(readers) and not any(reader.absolute for reader in readers)


def _with_maxima(
    original: Callable[..., Any], at: Running, given: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """flex_attention with its own maxima, [batch, heads, queries] before the softmax; returns what was asked for."""
    flex = _flex()
    more = {**dict(zip(("enable_gqa", "return_lse", "kernel_options"), args)), **kwargs}
    return_lse, asked = more.pop("return_lse", False), more.pop("return_aux", None)
    out, aux = original(*given, **more, return_aux=flex.AuxRequest(lse=True, max_scores=True))
    assert at.place is not None
    attention, name = _owner(at.place)
    if attention is not None:
        # a kernel's maximum may pass over NaN, its sum does not
        largest = aux.max_scores.detach().float().masked_fill(aux.lse.detach().isnan(), torch.nan)
        attention.see(_row_of(name, at.calls), given[0], given[1], None, ALL, largest.amax((0, 2)))
    if asked is not None:
        return out, flex.AuxOutput(aux.lse if asked.lse else None, aux.max_scores if asked.max_scores else None)
    return (out, aux.lse) if return_lse else out


# --- the attention interface of transformers ----------------------------------------------------------------


def _wrap_interface(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """One implementation of it."""

    @functools.wraps(original)
    def attention_forward(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        given = (module, query, key, value, attention_mask, *args)
        at = next_call()
        if at is None:
            return original(*given, **kwargs)
        threads.own.at = at  # images and windows of one module are called one after the other: they are one row
        queries, keys = query.shape[2], key.shape[2]
        causal = kwargs.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        scale = kwargs.get("scaling", args[0] if args and name == "eager" else None)
        if attention_mask is not None and not isinstance(attention_mask, Tensor):  # a BlockMask
            see(query, key, scale, flex_mask(None, attention_mask), at, value)
        elif "flash" in name:
            window = kwargs.get("sliding_window") or 0
            limits = _sequences(query, key, attention_mask, kwargs)
            if limits is not None:  # batches are joined, too
                query, key = (x.transpose(0, 1).flatten(1, 2)[None] for x in (query, key))
            offset = key.shape[2] - query.shape[2] if causal else None
            mask = Mask(offset, window, _without_padding(attention_mask, queries, keys), limits=limits)
            see(query, key, scale, mask, at, value)
        else:
            if attention_mask is None:
                mask = Mask(0 if name != "eager" and causal and queries > 1 else None)
            else:
                mask = Mask(tensor=four(attention_mask))
            bias = kwargs.get("position_bias")
            if bias is not None:
                mask = mask._replace(tensor=_joined(bias, mask.tensor))
            see(query, key, scale, mask, at, value)
        with inside():
            return original(*given, **kwargs)

    return attention_forward


def _sequences(query: Tensor, key: Tensor, mask: Any, kwargs: dict[str, Any]) -> Optional[tuple[Tensor, Tensor]]:
    """Limits of packed sequences, as transformers finds them: without a mask from cu_seq_lens, or from the position ids of a
    batch of one, which begin again. Of those the number of limits is fixed (the last ones are equal): compiled code does not
    depend on it."""
    limits = kwargs.get("cu_seq_lens_q"), kwargs.get("cu_seq_lens_k")
    if mask is not None:
        return None
    if limits[0] is not None and limits[1] is not None:
        return limits[0], limits[1]
    positions, queries = kwargs.get("position_ids"), query.shape[2]
    if positions is None or positions.dim() != 2 or query.shape[0] != 1 or not positions.shape[1] == queries == key.shape[2]:
        return None
    begins = F.pad((positions[0] == positions.min())[1:], (1, 1), value=True)
    own = torch.where(begins, torch.arange(queries + 1, device=positions.device), queries).sort().values
    return own, own


def _without_padding(mask: Optional[Tensor], queries: int, keys: int) -> Optional[Tensor]:
    """[batch, positions], True: no padding, which flash attention neither asks nor sees."""
    if mask is None:
        return None
    seen = mask[:, None, None, -keys:].bool()
    return seen if queries == 1 else seen & mask[:, None, -queries:, None].bool()


def _joined(bias: Tensor, mask: Optional[Tensor]) -> Tensor:
    if mask is None:
        return bias
    if mask.dtype == torch.bool:
        return bias.masked_fill(~mask, -torch.inf)
    return bias + mask


# --- flash-attn ---------------------------------------------------------------------------------------------

_FLASH = tuple(f"flash_attn_{varlen}{packed}func" for varlen in ("", "varlen_") for packed in ("", "qkvpacked_", "kvpacked_"))


def _wrap_flash(original: Callable[..., Any]) -> Callable[..., Any]:
    """flash-attn's functions, whose arguments stand in other orders from version 2 to version 3."""
    names = tuple(inspect.signature(original).parameters)

    @functools.wraps(original)
    def flash_attn_func(*args: Any, **kwargs: Any) -> Any:
        at = next_call()
        if at is None:
            return original(*args, **kwargs)
        _see_flash({**dict(zip(names, args)), **kwargs}, at)
        with inside():
            return original(*args, **kwargs)

    return flash_attn_func


def _see_flash(given: dict[str, Any], at: Running) -> None:
    left, right = (-1 if w is None else w for w in given.get("window_size") or (-1, -1))
    causal = given.get("causal", False) or right == 0
    reason = ""
    if given.get("attention_chunk"):
        reason = "attention_chunk"
    if right > 0 or (left >= 0 and not causal):
        reason = f"window_size {left, right} that is not causal"
    if given.get("block_table") is not None or given.get("page_table") is not None:
        reason = "keys in pages (block_table)"
    if reason:
        _skip(f"flash-attn with {reason} is not supported")
        return
    if "qkv" in given:  # [..., 3, heads, size]
        q, k, v = (given["qkv"].select(-3, i) for i in range(3))
    elif "kv" in given:
        q, k, v = given["q"], given["kv"].select(-3, 0), given["kv"].select(-3, 1)
    else:
        q, k, v = (given[x] for x in "qkv")
    limits = [given.get(f"cu_seqlens_{x}", given.get("cu_seqlens")) for x in "qk"]
    if limits[0] is not None:  # [all positions, heads, size]
        q, k, v = q[None], k[None], v[None]
    mask = Mask(k.shape[1] - q.shape[1] if causal else None, max(0, left + 1) if causal else 0)
    if limits[0] is not None:
        mask = mask._replace(limits=(limits[0], limits[1]))
    see(q.transpose(1, 2), k.transpose(1, 2), given.get("softmax_scale"), mask, at, v)


# --- diverting ----------------------------------------------------------------------------------------------
# A function's code is replaced, not its name: whoever has imported or stored the function has it still.


class _Diverted:
    def __init__(self, restore: Callable[[], None]) -> None:
        self.restore, self.users = restore, 1


_diversions: dict[Any, _Diverted] = {}  # by function, or by (owner, name)
_lock = threading.Lock()
_unused: list[Any] = []


def _set(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, dict):
        owner[name] = value
    else:
        setattr(owner, name, value)


def _divert(function: Any, wrap: Callable[[Any], Any], owner: Any = None, name: str = "") -> Any:
    """Put the wrapped function into the place of the function, in a module or a dictionary; what `_restore` wants."""
    code: Any = getattr(function, "__code__", None)
    by_name = not isinstance(function, types.FunctionType) or code is None or bool(code.co_freevars)
    key = (id(owner), name) if by_name else function
    with _lock:
        if key in _diversions:
            _diversions[key].users += 1
            return key
        if by_name:
            if owner is None:
                return None
            _set(owner, name, wrap(function))
            _diversions[key] = _Diverted(lambda: _set(owner, name, function))
            return key
        original = types.FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        own = f"_maxlogit_{id(function)}"
        kept = function.__defaults__, function.__kwdefaults__, function.__dict__.get("__signature__")
        signature, wrapped = inspect.signature(function), wrap(original)
        made: dict[str, Any] = {}
        exec(f"def diverted(*args, **kwargs): return {own}(*args, **kwargs)", made)  # a lambda's name is no name of Python
        function.__globals__[own] = wrapped
        function.__code__ = made["diverted"].__code__.replace(co_name=code.co_name)
        function.__defaults__ = function.__kwdefaults__ = None
        function.__signature__ = signature

        def restore() -> None:
            function.__code__ = code
            function.__defaults__, function.__kwdefaults__ = kept[:2]
            if kept[2] is None:
                del function.__signature__
            else:
                function.__signature__ = kept[2]
            del function.__globals__[own]

        _diversions[key] = _Diverted(restore)
        return key


def _restore(key: Any) -> None:
    """Give a function back, if nobody else needs it diverted. A garbage collection may call this at any time: whoever holds
    the lock then does it."""
    _unused.append(key)
    _give_back()


def _give_back() -> None:
    while _unused and _lock.acquire(blocking=False):
        try:
            diverted = _diversions.get(key := _unused.pop())
            if diverted is None:
                continue
            diverted.users -= 1
            if not diverted.users:
                del _diversions[key]
                diverted.restore()
        except IndexError:  # another thread was faster
            pass
        finally:
            _lock.release()


def _python_modules(model: nn.Module) -> Iterator[Any]:
    """The Python modules that the model's classes come from."""
    seen = set()
    for module in model.modules():
        for kind in type(module).__mro__:
            if kind.__module__ not in seen and not kind.__module__.startswith("torch."):
                seen.add(kind.__module__)
                if kind.__module__ in sys.modules:
                    yield sys.modules[kind.__module__]


def _divert_all(model: nn.Module, keys: list[Any]) -> None:
    """Add to the keys one by one: those of a failure's beginning are given back, too."""

    def divert(*given: Any) -> None:
        key = _divert(*given)
        if key is not None:
            keys.append(key)

    torch.overrides.get_overridable_functions()  # PyTorch makes this list once: with its own functions
    divert(F.scaled_dot_product_attention, _wrap_sdpa, F, "scaled_dot_product_attention")
    divert(F.multi_head_attention_forward, _multihead)
    divert(_flex().flex_attention, _wrap_flex, _flex(), "flex_attention")
    for owner in (
        sys.modules[n] for n in ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn_interface") if n in sys.modules
    ):
        for name in _FLASH:
            if callable(getattr(owner, name, None)):
                divert(getattr(owner, name), _wrap_flash, owner, name)
    for owner in _python_modules(model):
        for name, value in list(vars(owner).items()):
            if name == "eager_attention_forward" and callable(value):
                divert(value, functools.partial(_wrap_interface, name="eager"), owner, name)
            elif callable(value) and getattr(value, "_torchdynamo_orig_callable", None) is _flex().flex_attention:
                divert(value, _wrap_flex, owner, name)  # flex_attention = torch.compile(flex_attention)
    interface = getattr(sys.modules.get("transformers.modeling_utils"), "ALL_ATTENTION_FUNCTIONS", None)
    for known in (getattr(interface, kind, {}) for kind in ("_global_mapping", "_local_mapping")):
        for name, value in list(known.items()):
            if "paged" not in name:
                divert(value, functools.partial(_wrap_interface, name=name), known, name)
    _give_back()
