"""Where attention is, however it is written: the functions that compute it are replaced by ones that tell first what
queries and keys they were given. The maxima belong to the innermost module that is running."""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Iterator
from typing import Any, Callable, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from maxlogit.torch._layout import have_one_norm, part_of_heads
from maxlogit.torch._logits import ALL, Mask, max_logits

if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 5):
    raise ImportError(f"maxlogit.torch wants PyTorch 2.5 or later, this is {torch.__version__}")

_NONE = -1
_stack: list[int] = []  # keys of the modules that are running; _NONE: told already
_places: list[Optional[tuple[weakref.ref[Attention], str]]] = []  # by key
_masks: dict[int, Mask] = {}  # of a call on its way through the operator


class Key:
    """Which place a module is; of a copy, and of one that another process reads, none."""

    def __init__(self, number: int = _NONE) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return Key, ()


def clean(name: str) -> str:
    """A module's path without what DDP and compile put into it."""
    return ".".join(part for part in name.split(".") if part not in ("module", "_orig_mod", "_checkpoint_wrapped_module"))


class Reader:
    """The maxima since the last `take`, for one who asks: by module, [heads] on the tensors' device, or [2, heads] with
    the absolute ones."""

    def __init__(self, absolute: bool = False, norms: bool = False) -> None:
        self.active = True
        self.absolute = absolute
        self.norms = norms  # whether it asks, too, which modules' queries are all of one length
        self.one_norm: dict[str, bool] = {}
        self.found: dict[str, Tensor] = {}

    def merge(self, name: str, new: Tensor) -> None:
        old = self.found.get(name)
        self.found[name] = new if old is None else torch.maximum(old, new)

    def take(self) -> dict[str, Tensor]:
        found, self.found = self.found, {}
        return found


class Attention:
    """All attention of one model, found while it runs."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.readers: list[Reader] = []
        self.modules: dict[str, nn.Module] = {}
        self.shape: dict[str, tuple[int, int, int]] = {}  # heads, heads of keys, size, as they entered, of all ranks
        self._part: dict[str, tuple[int, int]] = {}
        self.handles: list[Any] = []
        for name, module in model.named_modules():
            if type(module).__module__.startswith("torch.nn.modules") and not isinstance(module, nn.MultiheadAttention):
                continue
            name = clean(name)
            if name in self.modules:  # a wrapper and what it wraps
                continue
            self.modules[name] = module
            module._maxlogit_key = Key(len(_places))  # type: ignore[assignment]
            _places.append((weakref.ref(self), name))
            self.handles.append(module.register_forward_pre_hook(_enter, with_kwargs=True))
            self.handles.append(module.register_forward_hook(_leave, always_call=True))
        _patch(model)

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def order(self) -> list[str]:
        """Modules that have attention, as the model has them."""
        return [name for name in self.modules if name in self.shape]

    def asking(self) -> list[Reader]:
        # validation does not count, nor does what activation checkpointing computes again within backward
        if not self.model.training or torch._C._current_graph_task_id() != -1:
            return []
        return [reader for reader in self.readers if reader.active]

    def see(
        self, name: str, q: Tensor, k: Tensor, scale: Optional[float], mask: Mask, found: Optional[Tensor] = None
    ) -> None:
        """found [heads]: the maxima, where somebody has them already."""
        readers = self.asking()
        if not readers:
            return
        absolute = any(reader.absolute for reader in readers)
        if found is None:
            found = max_logits(q, k, scale=scale, mask=mask, absolute=absolute)
        if name not in self._part:
            self._part[name] = part_of_heads(self.modules[name], q.shape[1], q.shape[3])
        rank, ranks = self._part[name]
        self.shape[name] = (ranks * q.shape[1], ranks * k.shape[1], q.shape[3])
        if ranks > 1:  # those of the others come with the reduction over ranks
            own = found
            found = own.new_full((*own.shape[:-1], ranks * q.shape[1]), -torch.inf)
            found[..., rank * q.shape[1] : (rank + 1) * q.shape[1]] = own
        for reader in readers:
            if reader.norms and reader.one_norm.get(name, True):
                reader.one_norm[name] = have_one_norm(q)
            reader.merge(name, found if reader.absolute or not absolute else found[0])


_of_model: weakref.WeakKeyDictionary[nn.Module, Attention] = weakref.WeakKeyDictionary()


def attention_of(model: nn.Module) -> Attention:
    """One for all who ask about a model."""
    while True:  # the same for what compile and DDP wrap
        inner = getattr(model, "_orig_mod", model)
        inner = inner.module if isinstance(inner, nn.parallel.DistributedDataParallel) else inner
        if inner is model:
            break
        model = inner
    if model not in _of_model:
        _of_model[model] = Attention(model)
    return _of_model[model]


# --- what is running ----------------------------------------------------------------------------------------


def _enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    key: int = module._maxlogit_key.number  # type: ignore[assignment,union-attr]
    _stack.append(key)
    if isinstance(module, nn.MultiheadAttention):
        _see_multihead(module, key, args, kwargs)


def _leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    key: int = module._maxlogit_key.number  # type: ignore[assignment,union-attr]
    while _stack and _stack.pop() != key:  # above it, what an exception left
        pass


# --- telling ------------------------------------------------------------------------------------------------


def _tell(key: int, q: Tensor, k: Tensor, scale: Optional[float], mask: Mask) -> None:
    place = _places[key]
    attention = place[0]() if place else None
    if place and attention is not None:
        attention.see(place[1], q, k, scale, mask)


# What compiled code calls: the compiler does not look into it, and keeps it for the token that it seems to change.
@torch.library.custom_op("maxlogit::see", mutates_args=("token",))
def _see_op(
    token: Tensor, q: Tensor, k: Tensor, mask: Optional[Tensor], key: int, scale: float, offset: int, window: int
) -> None:
    _tell(key, q, k, scale, Mask(None if offset == _NO_OFFSET else offset, window, mask))


@_see_op.register_fake
def _(token: Tensor, q: Tensor, k: Tensor, mask: Optional[Tensor], key: int, scale: float, offset: int, window: int) -> None:
    return None


_NO_OFFSET = -(1 << 40)
_token = torch.zeros(1)


def see(q: Tensor, k: Tensor, scale: Optional[float] = None, mask: Mask = ALL, key: Optional[int] = None) -> None:
    """Tell queries [batch, heads, queries, size] and keys [batch, kv_heads, keys, size] of the running module."""
    if key is None:
        key = _stack[-1] if _stack else _NONE
    if key == _NONE:
        return
    if not torch.compiler.is_compiling():
        _tell(key, q, k, scale, mask)
        return
    if mask.modify is not None:
        raise NotImplementedError("flex_attention inside torch.compile of the model: compile flex_attention alone")
    offset = _NO_OFFSET if mask.offset is None else mask.offset
    size: float = q.shape[-1] ** -0.5 if scale is None else scale
    tensor = None if mask.tensor is None else mask.tensor.detach()
    _see_op(_token, q.detach(), k.detach(), tensor, key, size, offset, mask.window)


# --- the functions ------------------------------------------------------------------------------------------


def _four(mask: Optional[Tensor]) -> Optional[Tensor]:
    """[..., queries, keys] as [batch or 1, heads or 1, queries, keys]."""
    while mask is not None and mask.dim() < 4:
        mask = mask[None]
    return mask


def _wrap_sdpa(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def scaled_dot_product_attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Optional[Tensor] = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: Optional[float] = None,
        enable_gqa: bool = False,
        **more: Any,
    ) -> Any:
        if _stack and _stack[-1] != _NONE and query.dim() >= 3:
            q, k = (x if x.dim() == 4 else x[:, None] if x.dim() == 3 else x.flatten(0, -4) for x in (query, key))
            tensor = attn_mask
            if tensor is not None and query.dim() == 3 and tensor.dim() == 3:
                tensor = tensor[:, None]
            see(q, k, scale, Mask(0 if is_causal else None, 0, _four(tensor)))
        return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa, **more)

    return scaled_dot_product_attention


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
        if _stack and _stack[-1] != _NONE:
            if score_mod is None and _gives_maxima(query, _stack[-1]):
                given = (query, key, value, score_mod, block_mask, scale)
                return _with_maxima(original, _stack[-1], given, args, kwargs)

            def modify(scores: Tensor, at: tuple[int, int, int]) -> Tensor:
                shape = tuple(scores.shape)
                if score_mod is not None:
                    scores = _vmapped(score_mod, shape, at, scores.device, scores)
                if block_mask is not None:
                    seen = _vmapped(block_mask.mask_mod, shape, at, scores.device, None)
                    scores = scores.masked_fill(~seen, -torch.inf)
                return scores

            some = score_mod is not None or block_mask is not None
            see(query, key, scale, Mask(modify=modify if some else None))
        return original(query, key, value, score_mod, block_mask, scale, *args, **kwargs)

    return flex_attention


def _flex() -> Any:
    import torch.nn.attention.flex_attention as flex

    return flex


def _gives_maxima(query: Tensor, key: int) -> bool:
    """flex_attention can tell each query's largest score (PyTorch from 2.9 on; not on a processor), and that is what is
    asked for."""
    place = _places[key]
    attention = place[0]() if place else None
    readers = attention.asking() if attention is not None and not torch.compiler.is_compiling() else []
    fused = query.device.type != "cpu" and hasattr(_flex(), "AuxRequest")
    return fused and bool(readers) and not any(reader.absolute for reader in readers)


def _with_maxima(
    original: Callable[..., Any], key: int, given: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """flex_attention with its own maxima, [batch, heads, queries] before the softmax; returns what was asked for."""
    flex = _flex()
    more = {**dict(zip(("enable_gqa", "return_lse", "kernel_options"), args)), **kwargs}
    return_lse, asked = more.pop("return_lse", False), more.pop("return_aux", None)
    out, aux = original(*given, **more, return_aux=flex.AuxRequest(lse=True, max_scores=True))
    place = _places[key]
    attention = place[0]() if place else None
    if place and attention is not None:
        # a kernel's maximum may pass over NaN, its sum does not
        largest = aux.max_scores.detach().float().masked_fill(aux.lse.detach().isnan(), torch.nan)
        attention.see(place[1], given[0], given[1], None, ALL, largest.amax((0, 2)))
    if asked is not None:
        return out, flex.AuxOutput(aux.lse if asked.lse else None, aux.max_scores if asked.max_scores else None)
    return (out, aux.lse) if return_lse else out


def _wrap_interface(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Hugging Face's attention interface, of one implementation."""

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
        own: Any = getattr(module, "_maxlogit_key", None)
        place: int = _NONE if own is None else own.number
        if place == _NONE or (_stack and _stack[-1] == _NONE):
            return original(module, query, key, value, attention_mask, *args, **kwargs)
        queries, keys = query.shape[2], key.shape[2]
        if attention_mask is not None and not isinstance(attention_mask, Tensor):  # a BlockMask: flex itself is told
            return original(module, query, key, value, attention_mask, *args, **kwargs)
        causal = kwargs.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        scale = kwargs.get("scaling", args[0] if args and name == "eager" else None)
        if "flash" in name:
            tensor = None if attention_mask is None else attention_mask[:, None, None, -keys:].bool()
            mask = Mask(keys - queries if causal else None, kwargs.get("sliding_window") or 0, tensor)
        elif attention_mask is None:
            mask = Mask(0 if name != "eager" and causal and queries > 1 else None)
        else:
            mask = Mask(tensor=_four(attention_mask))
        bias = kwargs.get("position_bias")
        if bias is not None:
            mask = mask._replace(tensor=_joined(bias, mask.tensor))
        see(query, key, scale, mask, place)
        _stack.append(_NONE)
        result = original(module, query, key, value, attention_mask, *args, **kwargs)
        _stack.pop()
        return result

    return attention_forward


def _joined(bias: Tensor, mask: Optional[Tensor]) -> Tensor:
    if mask is None:
        return bias
    if mask.dtype == torch.bool:
        return bias.masked_fill(~mask, -torch.inf)
    return bias + mask


_FLASH = tuple(f"flash_attn_{varlen}{packed}func" for varlen in ("", "varlen_") for packed in ("", "qkvpacked_", "kvpacked_"))


def _wrap_flash(original: Callable[..., Any]) -> Callable[..., Any]:
    """flash-attn's functions, whose arguments stand in other orders from version 2 to version 3."""
    names = tuple(inspect.signature(original).parameters)

    @functools.wraps(original)
    def flash_attn_func(*args: Any, **kwargs: Any) -> Any:
        if _stack and _stack[-1] != _NONE:
            _see_flash({**dict(zip(names, args)), **kwargs})
        return original(*args, **kwargs)

    return flash_attn_func


def _see_flash(given: dict[str, Any]) -> None:
    left, right = (-1 if w is None else w for w in given.get("window_size") or (-1, -1))
    causal = given.get("causal", False) or right == 0
    if given.get("attention_chunk"):
        raise NotImplementedError("flash-attn with attention_chunk")
    if right > 0 or (left >= 0 and not causal):
        raise NotImplementedError(f"flash-attn with window_size {left, right} that is not causal")
    if given.get("block_table") is not None or given.get("page_table") is not None:
        raise NotImplementedError("flash-attn with keys in pages (block_table)")
    if "qkv" in given:  # [..., 3, heads, size]
        q, k = given["qkv"].select(-3, 0), given["qkv"].select(-3, 1)
    else:
        q, k = given["q"], given["kv"].select(-3, 0) if "kv" in given else given["k"]
    limits = [given.get(f"cu_seqlens_{x}", given.get("cu_seqlens")) for x in "qk"]
    see_one = functools.partial(_see_sequence, given.get("softmax_scale"), causal, max(0, left + 1))
    if limits[0] is None:
        see_one(q, k)
    else:
        _see_sequences(see_one, q, k, limits)


def _see_sequence(scale: Optional[float], causal: bool, window: int, q: Tensor, k: Tensor) -> None:
    """q [batch, queries, heads, size], k [batch, keys, heads of keys, size]."""
    mask = Mask(k.shape[1] - q.shape[1], window) if causal else ALL
    see(q.transpose(1, 2), k.transpose(1, 2), scale, mask)


def _see_each(see_one: Callable[[Tensor, Tensor], None], q: Tensor, k: Tensor, limits: list[Tensor]) -> None:
    """Sequences one after the other, q [all queries, heads, size]: no query sees another's keys."""
    of_q, of_k = (limit.tolist() for limit in limits)
    for i in range(len(of_q) - 1):
        see_one(q[None, of_q[i] : of_q[i + 1]], k[None, of_k[i] : of_k[i + 1]])


# not compiled: how many there are, and how long, is known when it runs
_see_sequences: Callable[..., None] = torch.compiler.disable(_see_each)  # type: ignore[no-untyped-call]


def _see_multihead(module: nn.MultiheadAttention, key: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Where weights are wanted, nn.MultiheadAttention multiplies by itself: its queries and keys are made here."""
    names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
    given = {**dict(zip(names, args)), **kwargs}
    if not given.get("need_weights", True):
        return  # scaled_dot_product_attention will be called
    if module.bias_k is not None or module.add_zero_attn:
        raise NotImplementedError("nn.MultiheadAttention with bias_kv or zero_attn, and weights wanted")
    with torch.no_grad():
        width, heads = module.embed_dim, module.num_heads
        if module._qkv_same_embed_dim:
            w_q, w_k = module.in_proj_weight[:width], module.in_proj_weight[width : 2 * width]
        else:
            w_q, w_k = module.q_proj_weight, module.k_proj_weight
        bias = module.in_proj_bias
        q = F.linear(given["query"], w_q, None if bias is None else bias[:width])
        k = F.linear(given["key"], w_k, None if bias is None else bias[width : 2 * width])
        if q.dim() == 2:
            q, k = q[None], k[None]
        elif not module.batch_first:
            q, k = q.transpose(0, 1), k.transpose(0, 1)
        q, k = (x.reshape(*x.shape[:2], heads, -1).transpose(1, 2) for x in (q, k))
        tensor = given.get("attn_mask")
        if tensor is not None:
            tensor = ~tensor if tensor.dtype == torch.bool else tensor
            tensor = tensor.reshape(-1, heads, *tensor.shape[-2:]) if tensor.dim() == 3 else _four(tensor)
        hidden = given.get("key_padding_mask")
        if hidden is not None:
            padding = torch.zeros(hidden.shape, device=q.device)
            padding = padding.masked_fill(hidden, -torch.inf) if hidden.dtype == torch.bool else hidden.float()
            padding = padding.reshape(-1, 1, 1, padding.shape[-1])
            tensor = padding if tensor is None else _joined(padding, tensor)
        see(q, k, None, Mask(tensor=tensor), key)


# --- replacing ----------------------------------------------------------------------------------------------

_replaced: dict[Any, Any] = {}  # original function: the one in its place
_wrapped: set[Any] = set()


def _replace(owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name, None)
    if original is None or original in _wrapped:
        return
    if original not in _replaced:
        _replaced[original] = wrap(original)
        _wrapped.add(_replaced[original])
    setattr(owner, name, _replaced[original])


def _python_modules(model: nn.Module) -> Iterator[Any]:
    """The Python modules that the model's classes come from: what they have imported by name is replaced there."""
    seen = set()
    for module in model.modules():
        for kind in type(module).__mro__:
            if kind.__module__ not in seen and not kind.__module__.startswith("torch."):
                seen.add(kind.__module__)
                if kind.__module__ in sys.modules:
                    yield sys.modules[kind.__module__]


def _patch(model: nn.Module) -> None:
    _replace(F, "scaled_dot_product_attention", _wrap_sdpa)
    _replace(_flex(), "flex_attention", _wrap_flex)
    flash = ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn_interface")
    for owner in (sys.modules[name] for name in flash if name in sys.modules):
        for name in _FLASH:
            _replace(owner, name, _wrap_flash)
    for owner in _python_modules(model):
        for name, value in list(vars(owner).items()):
            if callable(value) and _is_known(value):
                setattr(owner, name, _replaced[value])
            elif name == "eager_attention_forward":
                _replace(owner, name, functools.partial(_wrap_interface, name="eager"))
            elif _is_known(getattr(value, "_torchdynamo_orig_callable", None)):  # torch.compile(flex_attention)
                _replace(owner, name, _wrap_flex)
    _patch_interface()


def _is_known(value: Any) -> bool:
    try:
        return value in _replaced
    except TypeError:  # what has no hash is none of them
        return False


def _patch_interface() -> None:
    transformers = sys.modules.get("transformers.modeling_utils")
    interface = getattr(transformers, "AttentionInterface", None)
    if interface is None:
        return
    for name, function in list(interface._global_mapping.items()):
        if function not in _wrapped and "paged" not in name:
            wrapped = _wrap_interface(function, name)
            _wrapped.add(wrapped)
            interface._global_mapping[name] = wrapped
