"""Projections by every name and order, masks of every form, and what watch, see and QKClip say and refuse."""

import math
import unittest
import warnings
from unittest import mock

import numpy as np

try:
    import torch
    import torch.distributed.algorithms._checkpoint.checkpoint_wrapper as wrapper
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

import in_folder
import maxlogit
import maxlogit.torch as mt
from maxlogit.torch import _attention, _layout, _logits, _ranks, _watch

HEADS, GROUPS, SIZE, WIDTH = 4, 2, 6, 10


def module_of(**outputs):
    """Projections by their names, and numbers and modules as they are."""
    module = nn.Module()
    for name, given in outputs.items():
        is_size = type(given) is int and not name.endswith("_dim") and not name.startswith("num_")
        setattr(module, name, nn.Linear(WIDTH, given) if is_size else given)
    return module


class Kinds(unittest.TestCase):
    def rows(self, module, heads=HEADS, size=SIZE, layouts=None, name="a.b"):
        return _layout.layout_of(name, module, heads, size, layouts)

    def parts(self, *args, **more):
        return {r.role: r.parts for r in self.rows(*args, **more)}

    def said(self, message, *args, **more):
        with self.assertRaisesRegex(mt.UnknownLayout, message):
            self.rows(*args, **more)

    def blocks(self, first, count, step=SIZE, size=SIZE):
        return [(first + i * step, size) for i in range(count)]

    def test_projections_of_their_own(self):
        for q, k in (
            ("q_proj", "k_proj"),
            ("wq", "wk"),
            ("w_q", "w_k"),
            ("query", "key"),
            ("to_q", "to_k"),
            ("q_lin", "k_lin"),
        ):
            module = module_of(**{q: HEADS * SIZE, k: GROUPS * SIZE})
            found = self.rows(module)
            self.assertEqual([r.role for r in found], ["q", "k"])
            self.assertEqual([r.parts for r in found], [self.blocks(0, HEADS), self.blocks(0, GROUPS)])
            for row, name in zip(found, (q, k)):
                self.assertIs(row.weight, getattr(module, name).weight)
                self.assertIs(row.bias, getattr(module, name).bias)
                self.assertEqual(row.dim, 0)
        odd = module_of(one=HEADS * SIZE, two=GROUPS * SIZE)
        self.assertEqual(self.parts(odd, layouts={"*": mt.Separate("one", "two")})["k"], self.blocks(0, GROUPS))
        inner = nn.Module()
        inner.inside = odd
        inner.bare = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        found = self.rows(inner, layouts={"a*": mt.Separate("bare", "inside.two")})
        self.assertIs(found[1].weight, odd.two.weight)
        self.assertIsNone(found[0].bias)
        self.said("has a wq of 23 outputs, and heads of 6", module_of(wq=23, wk=12))
        self.said("has a wq of 18 outputs, and heads of 6", module_of(wq=18, wk=12))
        self.said("has a wk of 13 outputs, and heads of 6", module_of(wq=24, wk=13))
        self.said("has no projection 'one'", module_of(wq=24, wk=12), layouts={"*": mt.Separate("one", "wk")})

    def test_fused(self):
        for groups in (HEADS, GROUPS, 1):
            module = module_of(x=(HEADS + 2 * groups) * SIZE)
            found = self.parts(module, layouts={"a.b": mt.Fused("x", kv_heads=0 if groups == HEADS else groups)})
            self.assertEqual(found, {"q": self.blocks(0, HEADS), "k": self.blocks(HEADS * SIZE, groups)})
        module = module_of(x=3 * HEADS * SIZE)
        found = self.parts(module, layouts={"?.[bc]": mt.Fused("x", "heads")})
        self.assertEqual(found, {"q": self.blocks(0, HEADS, 3 * SIZE), "k": self.blocks(SIZE, HEADS, 3 * SIZE)})
        self.said("is told order 'x': qkv, heads", module, layouts={"*": mt.Fused("x", "x")})
        self.said("72 outputs: not 4 heads of 6 with 2 keys", module, layouts={"*": mt.Fused("x", kv_heads=2)})
        self.said("outputs: not 4 heads of 6 with 2", module_of(x=48), layouts={"*": mt.Fused("x", "heads", 2)})
        # the first pattern that fits is taken; none that fits: guessed
        two = {"c.*": mt.Fused("none"), "a.*": mt.Fused("x"), "*": mt.Fused("none")}
        self.assertEqual(self.parts(module, layouts=two)["q"], self.blocks(0, HEADS))
        self.said("has no projections of queries and keys that are known; tell it", module, layouts={"A.*": mt.Fused("x")})
        for name in ("qkv", "Wqkv", "qkv_proj", "query_key_value", "in_proj", "to_qkv"):
            self.said(rf"a\.b \(Module\) has one projection {name}, and how.*'a\.b': maxlogit", module_of(**{name: 72}))
        self.assertEqual(self.parts(module_of(c_attn=72))["k"], self.blocks(HEADS * SIZE, HEADS))
        found = self.parts(module_of(qkv_proj=48, head_dim=SIZE, num_key_value_heads=GROUPS))
        self.assertEqual(found, {"q": self.blocks(0, HEADS), "k": self.blocks(HEADS * SIZE, GROUPS)})
        config = type("Config", (), {"num_key_value_heads": GROUPS})()
        self.assertEqual(self.parts(module_of(qkv_proj=48, head_dim=SIZE, config=config)), found)
        self.said("has one projection qkv_proj", module_of(qkv_proj=48, head_dim=SIZE))

    def test_conv1d_has_its_outputs_last(self):
        class Conv1D(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight, self.bias = nn.Parameter(torch.zeros(WIDTH, 72)), nn.Parameter(torch.zeros(72))

        module = nn.Module()
        module.c_attn = Conv1D()
        self.assertEqual([(r.dim, r.parts[1]) for r in self.rows(module)], [(1, (6, 6)), (1, (30, 6))])

    def test_bigcode(self):
        def of(**more):
            module = module_of(**more)
            module.__class__ = type("GPTBigCodeAttention", (nn.Module,), {})
            return module

        self.assertEqual(self.parts(of(c_attn=36, multi_query=True))["k"], self.blocks(24, 1))
        self.assertEqual(self.parts(of(c_attn=72, multi_query=False))["k"], self.blocks(SIZE, HEADS, 3 * SIZE))

    def test_latent(self):
        sizes = {"qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 3}
        for q in ("q_proj", "q_b_proj"):
            module = module_of(**{q: HEADS * 6, "kv_b_proj": HEADS * 7, "kv_a_proj_with_mqa": 9}, **sizes)
            found = {r.role: r for r in self.rows(module)}
            self.assertEqual(list(found), ["q", "q_rope", "k", "k_rope"])
            self.assertEqual(found["q"].parts, self.blocks(0, HEADS, 6, 4))
            self.assertEqual(found["q_rope"].parts, self.blocks(4, HEADS, 6, 2))
            self.assertEqual(found["k"].parts, self.blocks(0, HEADS, 7, 4))
            self.assertEqual(found["k_rope"].parts, [(7, 2)])
            self.assertIs(found["q_rope"].weight, getattr(module, q).weight)
            self.assertIs(found["k"].bias, module.kv_b_proj.bias)
            self.assertIs(found["k_rope"].weight, module.kv_a_proj_with_mqa.weight)
            self.said("has kv_b_proj, and not the sizes", module, size=7)
            del module.v_head_dim
            self.said("has kv_b_proj, and not the sizes", module)

    def test_multihead(self):
        for more, bias in (({}, True), ({"bias": False}, False)):
            module = nn.MultiheadAttention(24, HEADS, **more)
            found = self.rows(module)
            self.assertEqual([r.parts for r in found], [self.blocks(0, HEADS), self.blocks(24, HEADS)])
            self.assertTrue(all(r.weight is module.in_proj_weight and (r.bias is not None) == bias for r in found))
        module = nn.MultiheadAttention(24, HEADS, kdim=7, bias=False)
        found = self.rows(module)
        self.assertEqual([r.parts for r in found], [self.blocks(0, HEADS)] * 2)
        self.assertIs(found[0].weight, module.q_proj_weight)
        self.assertIs(found[1].weight, module.k_proj_weight)
        self.said("weights of their own and one bias: bias=False", nn.MultiheadAttention(24, HEADS, kdim=7))

    def test_scaled_rows(self):
        w, f = torch.arange(12.0).view(3, 4), np.float32([1, 2, 3])
        x = nn.Parameter(w.clone())
        _layout.scale_rows(x, 0, f)
        torch.testing.assert_close(x.detach(), w * torch.tensor(f)[:, None])
        x = w.T.clone().double()
        _layout.scale_rows(x, 1, f)
        torch.testing.assert_close(x, w.T.double() * torch.tensor(f).double())


class InFolder(in_folder.InFolder):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def close(self, found, truth, tolerance=1e-5):
        np.testing.assert_allclose(np.asarray(found), np.asarray(truth.detach()), rtol=tolerance, atol=tolerance)


def truth_of(q, k, scale=None, mask=None):
    """[heads]; mask bool or added."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    s = q.double() @ k.double().transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask
    return s.amax((0, 2, 3))


class Calls(InFolder):
    """What a function was given is what is seen, whatever the places and forms of its arguments."""

    def seen(self, call, model=None):
        class Model(nn.Module):
            def forward(self):
                return call(self)

        model = model or Model()
        attention = _attention.attention_of(model)
        reader = _attention.Reader()
        attention.readers.append(reader)
        model()
        return next(iter(reader.take().values()))

    def test_see(self):
        q, k = torch.randn(2, HEADS, 5, SIZE), torch.randn(2, GROUPS, 7, SIZE)
        keep, added = torch.rand(5, 7) > 0.4, torch.randn(2, HEADS, 5, 7)
        lower = torch.arange(7) <= torch.arange(5)[:, None]
        for more, truth in (
            ({}, {}),
            ({"scale": 0.2}, {"scale": 0.2}),
            ({"scale": -0.2}, {"scale": -0.2}),
            ({"scale": 0.0}, {"scale": 0.0}),
            ({"causal": True}, {"mask": lower}),
            ({"mask": keep}, {"mask": keep}),
            ({"mask": keep[None]}, {"mask": keep}),
            ({"mask": added}, {"mask": added}),
            ({"mask": keep, "causal": True}, {"mask": keep & lower}),
        ):
            self.close(self.seen(lambda m, more=more: mt.see(q, k, **more)), truth_of(q, k, **truth))
        mt.see(q, k)  # nobody runs: nothing
        with self.assertRaisesRegex(ValueError, "4 heads of queries, 3 of keys"):
            mt.max_logits(q, torch.randn(2, 3, 7, SIZE))

    def test_sdpa(self):
        q, k, v = torch.randn(2, HEADS, 5, SIZE), torch.randn(2, HEADS, 7, SIZE), torch.randn(2, HEADS, 7, 3)
        keep = torch.rand(5, 7) > 0.4
        keep[:, 0] = True
        lower = torch.arange(7) <= torch.arange(5)[:, None]
        f = F.scaled_dot_product_attention
        for args, more, truth in (
            ((q, k, v), {}, {}),
            ((q, k, v, keep), {}, {"mask": keep}),
            ((q, k, v, None, 0.0, True), {}, {"mask": lower}),
            ((q, k), {"value": v, "attn_mask": keep.float().log(), "scale": 0.3}, {"mask": keep, "scale": 0.3}),
            ((q, k, v), {"is_causal": True, "scale": 2.0}, {"mask": lower, "scale": 2.0}),
        ):

            def call(m, args=args, more=more):
                m.said = F.scaled_dot_product_attention(*args, **more)

            model = type("Model", (nn.Module,), {"forward": lambda self, call=call: call(self)})()
            self.close(self.seen(None, model), truth_of(q, k, **truth))
            torch.testing.assert_close(model.said, getattr(f, "__wrapped__", f)(*args, **more))
        few = k[:, :GROUPS]
        self.close(
            self.seen(lambda m: F.scaled_dot_product_attention(q, few, v[:, :GROUPS], enable_gqa=True)), truth_of(q, few)
        )
        # [batch, positions, size] is of one head; more than four dimensions are more batches
        own = torch.rand(2, 5, 7) > 0.3
        own[..., 0] = True
        found = self.seen(lambda m: F.scaled_dot_product_attention(q[:, 0], k[:, 0], v[:, 0], own))
        self.close(found, truth_of(q[:, :1], k[:, :1], mask=own[:, None]))
        five = [x.view(2, 2, 2, *x.shape[2:]) for x in (q, k, v)]
        found = self.seen(lambda m: F.scaled_dot_product_attention(*five))
        self.close(found, truth_of(*(x.flatten(0, 1) for x in five[:2])))

    def test_multihead(self):
        x, other = torch.randn(3, 5, 24), torch.randn(3, 7, 24)
        pad = torch.zeros(3, 7, dtype=torch.bool)
        pad[1, 4:] = True
        hides = torch.rand(3 * HEADS, 5, 7) > 0.6
        hides[..., 0] = False
        for need_weights in (True, False):
            for kdim in (None, 9):
                module = nn.MultiheadAttention(24, HEADS, batch_first=True, kdim=kdim)
                with torch.no_grad():
                    for p in module.parameters():
                        p.add_(0.3 * torch.randn_like(p))
                y = other[..., :kdim]
                if kdim is None:
                    w, b = module.in_proj_weight.split(24), module.in_proj_bias.split(24)
                else:
                    w, b = (module.q_proj_weight, module.k_proj_weight), module.in_proj_bias.split(24)
                q, k = (F.linear(z, w[i], b[i]).unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for i, z in enumerate((x, y)))
                keys = ~pad[:, None, None]
                added = torch.randn(5, 7)
                for args, more, mask in (
                    ((x, y, other), {}, None),
                    ((x, y, other, pad), {}, keys),
                    ((x, y, other), {"attn_mask": hides}, ~hides.view(3, HEADS, 5, 7)),
                    ((x, y, other, pad), {"attn_mask": hides[0]}, keys & ~hides[0]),
                    ((x, y), {"value": other, "attn_mask": added}, added),
                    (
                        (x, y, other),
                        {"attn_mask": added, "key_padding_mask": pad.float()},
                        added + pad[:, None, None].float(),
                    ),
                ):

                    def call(m, args=args, more=more, module=module, need_weights=need_weights):
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            module(*args, need_weights=need_weights, **more)

                    model = type("Model", (nn.Module,), {"forward": lambda self, call=call: call(self)})()
                    model.inner = module
                    self.close(self.seen(None, model), truth_of(q, k, mask=mask))
        one = nn.MultiheadAttention(24, HEADS)
        with torch.no_grad():
            w = one.in_proj_weight.split(24)
            q, k = (F.linear(x[0], w[i]).unflatten(-1, (HEADS, SIZE)).transpose(0, 1)[None] for i in range(2))
        model = type("Model", (nn.Module,), {"forward": lambda self: self.inner(x[0], x[0], x[0])})()
        model.inner = one
        self.close(self.seen(None, model), truth_of(q, k))
        # keys that the module adds count, too
        for more in ({"add_bias_kv": True}, {"add_zero_attn": True}):
            for need_weights in (True, False):
                one = nn.MultiheadAttention(24, HEADS, batch_first=True, **more)
                model = type("Model", (nn.Module,), {"forward": lambda self: self.inner(x, x, x, need_weights=self.need)})()
                model.inner, model.need = one, need_weights
                with torch.no_grad():
                    w = one.in_proj_weight.split(24)
                    q, k = (F.linear(x, w[i]) for i in range(2))
                    added = one.bias_k.expand(3, 1, 24) if "add_bias_kv" in more else torch.zeros(3, 1, 24)
                    q, k = (y.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for y in (q, torch.cat((k, added), 1)))
                self.close(self.seen(None, model), truth_of(q, k))

    def test_max_logits(self):
        q, k = torch.randn(2, HEADS, 5, SIZE), torch.randn(2, GROUPS, 7, SIZE)
        nothing = torch.zeros(1, 1, 5, 7, dtype=torch.bool)
        for mask in (mt.Mask(-9), mt.Mask(tensor=nothing)):
            self.assertEqual(mt.max_logits(q, k, mask=mask).tolist(), [-math.inf] * HEADS)
            self.assertEqual(mt.max_logits(q, k, mask=mask, absolute=True)[1].tolist(), [0] * HEADS)
        self.assertEqual(mt.max_logits(q[:0], k[:0]).tolist(), [-math.inf] * HEADS)
        for kind in (torch.float16, torch.bfloat16, torch.float64):
            for other in (kind, torch.float32):
                a, b = q.to(kind), k.to(other)
                self.close(mt.max_logits(a, b), truth_of(a.float(), b.float()), 1e-5)
        swapped = q.transpose(1, 2).contiguous().transpose(1, 2)
        self.close(mt.max_logits(swapped[..., ::2], k[..., ::2]), truth_of(q[..., ::2], k[..., ::2]))
        self.close(mt.max_logits(q.expand(3, *q.shape[1:]) if q.shape[0] == 1 else q, k), truth_of(q, k))
        one = torch.randn(1, 1, 1, SIZE).expand(2, HEADS, 5, SIZE)
        self.close(mt.max_logits(one, k), truth_of(one, k))
        for threads in (1, 2):
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            self.close(
                mt.max_logits(q, k, mask=mt.Mask(2, 2)),
                truth_of(
                    q,
                    k,
                    mask=(torch.arange(7) <= torch.arange(5)[:, None] + 2) & (torch.arange(7) > torch.arange(5)[:, None]),
                ),
            )
            torch.set_num_threads(before)
        # by chunks, as elsewhere than on a processor
        for room in (1, 40, 1 << 20):
            found = torch.full((2, 4, 2), -math.inf)
            with mock.patch.dict(_logits.CHUNK, cpu=room):
                _logits._look(
                    (q * 0.5).reshape(-1, 2, 5, SIZE), k.reshape(-1, 7, SIZE).transpose(1, 2), mt.Mask(1, 3), 2, found, True
                )
            see = (torch.arange(7) <= torch.arange(5)[:, None] + 1) & (torch.arange(7) > torch.arange(5)[:, None] - 2)
            self.close(found[0].view(2, HEADS).amax(0), truth_of(q, k, 0.5, see))
            lowest = -truth_of(-q, k, 0.5, see)
            self.close(found[1].view(2, HEADS).amax(0), torch.maximum(truth_of(q, k, 0.5, see), -lowest))


class Attends(nn.Module):
    """Heads of a width of their own, two a key."""

    def __init__(self, heads=HEADS, groups=GROUPS):
        super().__init__()
        self.heads, self.groups = heads, groups
        self.q_proj, self.k_proj = nn.Linear(WIDTH, heads * SIZE), nn.Linear(WIDTH, groups * SIZE)
        with torch.no_grad():
            self.q_proj.weight.mul_(5)

    def parts(self, x):
        return (
            p(x).unflatten(-1, (n, SIZE)).transpose(1, 2) for p, n in ((self.q_proj, self.heads), (self.k_proj, self.groups))
        )

    def forward(self, x):
        q, k = self.parts(x)
        mt.see(q, k, scale=0.5)
        return x


class Two(nn.Module):
    """Layers of other numbers of heads."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Attends(), Attends(2, 1)

    def forward(self, x):
        return self.second(self.first(x))


class Watching(InFolder):
    def test_names(self):
        def names(model):
            return list(dict.fromkeys(path for path, _ in _attention.modules_of(model)))

        def inner():
            return nn.ModuleDict({"a": wrapper.checkpoint_wrapper(nn.ModuleDict({"b": nn.Linear(2, 2)}))})

        engine = type("DeepSpeedEngine", (nn.Module,), {"__module__": "deepspeed.runtime.engine"})()
        engine.module = inner()
        for model in (
            inner(),
            nn.DataParallel(inner()),
            torch.compile(inner()),
            torch.optim.swa_utils.AveragedModel(inner()),
            engine,
        ):
            self.assertEqual(names(model), ["", "a", "a.b"])
            self.assertEqual(list(_attention.parameters_of(model)), ["a.b.weight", "a.b.bias"])
        for part in ("module", "module_", "_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"):
            self.assertEqual(names(nn.ModuleDict({part: nn.ModuleDict({"b": nn.Linear(2, 2)})})), ["", part, f"{part}.b"])

    def test_two_of_one_name(self):
        """A wrapper's own parts, and those of the module in it."""

        class OfAUser(nn.DataParallel):
            pass

        for part, reason in (
            (nn.Linear(2, 2), "two modules called 0.first"),
            (nn.Parameter(torch.zeros(2)), "two parameters called 0.p"),
        ):
            model = Two()
            model.p = nn.Parameter(torch.zeros(2))
            outer = OfAUser(model)
            setattr(outer, "first" if isinstance(part, nn.Module) else "p", part)
            with self.assertRaisesRegex(maxlogit.UsageError, reason):
                mt.QKClip(nn.Sequential(outer))

    def test_readers(self):
        reader = _attention.Reader()
        reader.merge("a", torch.tensor([1.0, 5, math.nan]))
        reader.merge("a", torch.tensor([2.0, 4, 9]))
        reader.merge("b", torch.tensor([0.0]))
        taken = reader.take()
        self.assertEqual(taken["a"][:2].tolist(), [2, 5])
        self.assertTrue(taken["a"][2].isnan() and taken["b"].tolist() == [0])
        self.assertEqual(reader.take(), {})

    def test_fewer_heads_are_missing(self):
        found = {"a": torch.tensor([1.0, math.inf, math.nan]), "c": torch.tensor([2.0])}
        rows = _ranks.Rows()
        rows.agree(["a", "b", "c"], {"a": 3, "b": 0, "c": 1})
        table = rows.reduce(found)
        self.assertEqual(table[0, :2].tolist(), [1, math.inf])
        missing = np.float32(maxlogit.MISSING).view(np.uint32)
        self.assertNotEqual(table[0, 2:].view(np.uint32)[0], missing)
        self.assertEqual(
            table[1:].view(np.uint32).tolist(), [[missing] * 3, [np.float32(2).view(np.uint32), missing, missing]]
        )
        self.assertEqual(rows.reduce({}).view(np.uint32).tolist(), [[missing] * 3] * 3)

    def test_wrong_arguments(self):
        with maxlogit.Recorder(self.path) as recorder:
            for every, spectra in ((0, 0), (-1, 5), (1, -1)):
                with self.assertRaisesRegex(ValueError, f"every={every}, spectra_every={spectra}"):
                    mt.watch(Two(), recorder, every, spectra)

    def test_rows_of_layers(self):
        model, x = Two(), torch.randn(3, 5, WIDTH)
        with maxlogit.Recorder(self.path) as recorder:
            watched = mt.watch(model, recorder, spectra_every=3)
            self.assertIsInstance(watched, mt.Watch)
            for step in range(5):
                model(x * (step + 1))
                if step == 4:
                    watched.close()
                    watched.close()
                recorder.log(step, loss=1)
        run = maxlogit.open(self.path)
        logits = run["attn/max_logit"]
        self.assertEqual((logits.unit, logits.long_name, logits.definition), ("nat", "max logit", _watch.DEFINITION))
        self.assertEqual(logits.places, {"layer": ["first", "second"]})
        self.assertEqual(logits.values.shape, (5, 2, HEADS))
        for step in range(4):
            self.close(logits.values[step, 0], truth_of(*model.first.parts(x * (step + 1)), 0.5), 1e-5)
            self.close(logits.values[step, 1, :2], truth_of(*model.second.parts(x * (step + 1)), 0.5), 1e-5)
        self.assertTrue(np.isnan(logits.values[:, 1, 2:]).all() and np.isnan(logits.values[4]).all())
        self.assertEqual(run["head_q/svd_entropy"].steps.tolist(), [0, 3])
        for part, name in ((model.first, 0), (model.second, 1)):
            q = part.q_proj.weight.detach().numpy().reshape(part.heads, SIZE, WIDTH)
            k = part.k_proj.weight.detach().numpy().reshape(part.groups, SIZE, WIDTH)
            for h in range(part.heads):
                own = k[h * part.groups // part.heads]
                for series, w in (("head_q", q[h]), ("head_k", own)):
                    found = [run[f"{series}/{field}"].values[1, name, h] for field in maxlogit.Spectrum._fields]
                    np.testing.assert_allclose(found, [x[0] for x in maxlogit.spectra(w)], rtol=1e-5)
                found = run["head_qk/frobenius_norm"].values[0, name, h]
                np.testing.assert_allclose(found, np.linalg.norm(q[h].T @ own), rtol=1e-5)
            self.assertTrue(np.isnan(run["head_k/stable_rank"].values[0, 1, 2:]).all())
        self.assertEqual(
            run["head_k/effective_rank_p"].long_name, "effective rank p of the rows of the key projection that serve the head"
        )
        self.assertEqual(run["head_qk/svd_entropy"].long_name, "svd entropy of the head's form w_q^T w_k, n = head size")
        self.assertEqual(run["head_q/svd_entropy"].long_name, "svd entropy of the head's rows of the query projection")

    def test_every_from_where_a_recording_goes_on(self):
        model, x = Two(), torch.randn(3, 5, WIDTH)
        for first in (0, 3):  # the second life begins with step 3
            with maxlogit.Recorder(self.path, mode="resume") as recorder:
                mt.watch(model, recorder, every=2, spectra_every=0)
                for step in range(first, first + 3):
                    model(x)
                    recorder.log(step, loss=1)
        run = maxlogit.open(self.path)
        self.assertEqual(np.isnan(run["attn/max_logit"].values).all((1, 2)).tolist(), [False, True] * 3)
        self.assertNotIn("head_q/svd_entropy", run)


class Clipping(InFolder):
    def test_options(self):
        for message, options in {
            "tau=-1, alpha=0.5": {"tau": -1},
            "tau=nan": {"tau": math.nan},
            "alpha=1.1": {"alpha": 1.1},
            "alpha=-0.1": {"alpha": -0.1},
            "maximum='x': signed, absolute": {"maximum": "x"},
            "scope 'x': head, layer": {"scope": "x"},
        }.items():
            with self.assertRaisesRegex(ValueError, message):
                mt.QKClip(Two(), **options)

    def test_what_a_step_does(self):
        x = torch.randn(3, 5, WIDTH)
        for options in (
            {},
            {"scope": "layer"},
            {"alpha": 0.2, "gqa": "group_max"},
            {"gqa": "compensated"},
            {"gqa": "own_q_min_k", "alpha": 1},
            {"maximum": "absolute"},
        ):
            model = Two()
            tau = truth_of(*model.first.parts(x), 0.5).median().item()
            clip = mt.QKClip(model, tau, **options)
            self.assertEqual((clip.layers, clip.gamma, clip.max_logit), ([], None, None))
            weights = {name: p.detach().clone() for name, p in model.named_parameters()}
            model(x)
            model(0.5 * x)
            logits = []
            for part in (model.first, model.second):
                q, k = part.parts(x)
                s = truth_of(q, k, 0.5)
                q, k = part.parts(0.5 * x)
                s = torch.maximum(s, truth_of(q, k, 0.5))
                if "maximum" in options:
                    for y in (x, 0.5 * x):
                        q, k = part.parts(y)
                        s = torch.maximum(s, truth_of(-q, k, 0.5))
                logits.append(s.detach().float().numpy())
            count = clip.step()
            self.assertEqual(clip.layers, ["first", "second"])
            rule = {key: options[key] for key in options if key != "maximum"}
            clipped = 0
            for layer, (part, name) in enumerate(((model.first, "first"), (model.second, "second"))):
                np.testing.assert_allclose(clip.max_logit[layer, : part.heads], logits[layer], rtol=1e-5)
                q, k, gamma = maxlogit.clip_factors(clip.max_logit[layer, : part.heads], part.groups, tau=tau, **rule)
                np.testing.assert_array_equal(clip.gamma[layer, : part.heads], gamma)
                clipped += int((gamma < 1).sum())
                for projection, factors in (("q_proj", q), ("k_proj", k)):
                    each = torch.from_numpy(np.repeat(factors, SIZE))
                    for kind in ("weight", "bias"):
                        after = dict(model.named_parameters())[f"{name}.{projection}.{kind}"].detach()
                        before = weights[f"{name}.{projection}.{kind}"]
                        torch.testing.assert_close(
                            after, before * (each[:, None] if kind == "weight" else each), rtol=1e-6, atol=0
                        )
            self.assertTrue(np.isnan(clip.gamma[1, 2:]).all())
            self.assertEqual((count, clip.clips, clip.steps), (clipped, clipped, 1))
            self.assertEqual(clip.step(), 0)  # nothing was seen since
            self.assertEqual((clip.clips, clip.steps), (clipped, 2))
            clip.close()
            clip.close()
            model(100 * x)
            self.assertEqual(clip.step(), 0)

    def test_moments(self):
        model, x = Two(), torch.randn(3, 5, WIDTH)
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
        optimizer.step()
        clip = mt.QKClip(model, 1, optimizer=optimizer)
        before = {p: {k: v.clone() for k, v in s.items()} for p, s in optimizer.state.items()}
        model(x)
        self.assertGreater(clip.step(), 0)
        q = torch.from_numpy(np.repeat(clip.gamma[0], SIZE))
        for p, by in ((model.first.q_proj.weight, q[:, None]), (model.first.q_proj.bias, q), (model.first.k_proj.weight, 1)):
            torch.testing.assert_close(optimizer.state[p]["exp_avg"], before[p]["exp_avg"] * by)
            torch.testing.assert_close(optimizer.state[p]["exp_avg_sq"], before[p]["exp_avg_sq"])

    def test_state(self):
        model, x = Two(), torch.randn(3, 5, WIDTH)
        clip = mt.QKClip(model, 1, "layer", alpha=0.25, gqa="compensated", mla="kr_head")
        model(x)
        clip.step()
        rule = {"tau": 1, "alpha": 0.25, "scope": "layer", "gqa": "compensated", "mla": "kr_head"}
        self.assertEqual(clip.state_dict(), {"steps": 1, "clips": clip.clips, **rule})
        self.assertGreater(clip.clips, 0)
        for key, other in {"tau": 2, "alpha": 0.5, "scope": "head", "gqa": "q_only", "mla": "exact"}.items():
            with self.assertRaisesRegex(ValueError, f"QKClip: the state has {{'{key}': .*this one"):
                mt.QKClip(model, **{**rule, key: other}).load_state_dict(clip.state_dict())
        again = mt.QKClip(model, **rule)
        again.load_state_dict({"steps": 5.0, "clips": 7})  # of an older one, which said less
        self.assertEqual((again.steps, again.clips), (5, 7))


if __name__ == "__main__":
    unittest.main()
