"""What watches a model never breaks its training: threads, copies, compiled code, errors, and what is left after close."""

import copy
import io
import os
import pickle
import subprocess
import sys
import threading
import types
import unittest
import warnings
from unittest import mock

import numpy as np

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention as by_name
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

import in_folder
import maxlogit
import maxlogit.torch as mt
from maxlogit.torch import _attention, _ranks
from ranks import run_as_ranks
from test_torch import HEADS, WIDTH, Nano, NanoAttention, T, batch, truth_of_nano

stored = F.scaled_dot_product_attention


class InFolder(in_folder.InFolder):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def rows(self, model, step, steps=1, **options):
        with maxlogit.Recorder(self.path, mode="replace") as recorder:
            with mt.watch(model, recorder, **{"spectra_every": 0, "on_error": "raise", **options}):
                for i in range(steps):
                    step(i)
                    recorder.log(i, loss=1.0)
        return maxlogit.open(self.path)["attn/max_logit"]


class Calls(NanoAttention):
    """However the function is called."""

    how = None

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, -1))
        return self.c_proj(self.how(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Threads(InFolder):
    def test_each_has_its_own(self):
        """Three models in three threads, of which two are watched."""
        models = [Nano() for _ in range(3)]
        truths = [[truth_of_nano(model, batch(i + 10 * n)) for i in range(15)] for n, model in enumerate(models)]
        problems, begin = [], threading.Barrier(3)

        def train(n):
            try:
                begin.wait()
                if n == 2:
                    for i in range(40):
                        models[n](1 * batch(i))
                    return
                with maxlogit.Recorder(self.folder / f"{n}.h5") as recorder, mt.watch(models[n], recorder, spectra_every=0):
                    for i in range(15):
                        models[n](batch(i + 10 * n)).sum().backward()
                        recorder.log(i, loss=1.0)
            except Exception as problem:
                problems.append(problem)

        threads = [threading.Thread(target=train, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        for n in range(2):
            found = maxlogit.open(self.folder / f"{n}.h5")["attn/max_logit"].values
            np.testing.assert_allclose(found, truths[n], rtol=1e-5)

    def test_evaluation_in_another_thread(self):
        model, other = Nano(), Nano()

        def step(i):
            thread = threading.Thread(target=lambda: [other(batch(j)) for j in range(20)])
            thread.start()
            for _ in range(20):
                model(batch(i))
            thread.join()

        found = self.rows(model, step, 3)
        self.assertEqual(found.places["layer"], ["blocks.0", "blocks.1"])
        np.testing.assert_allclose(found.values, [truth_of_nano(model, batch(i)) for i in range(3)], rtol=1e-5)


class Found(InFolder):
    def test_however_it_is_called(self):
        import functools

        for how in (by_name, stored, functools.partial(stored, scale=None), torch._C._nn.scaled_dot_product_attention):
            model = Nano()
            for block in model.blocks:
                block.__class__, block.how = Calls, how
            found = self.rows(model, lambda i, m=model: m(batch(i)))
            np.testing.assert_allclose(found.values[0], truth_of_nano(model, batch(0)), rtol=1e-5)

    def test_a_function_without_a_name(self):
        """A lambda as transformers' eager attention."""

        def attention(module, q, k, v, mask=None, **options):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True), None

        module = types.ModuleType("of_lambdas")
        module.attention = attention
        exec("eager_attention_forward = lambda *args, **options: attention(*args, **options)", module.__dict__)
        code = module.eager_attention_forward.__code__
        with mock.patch.dict(sys.modules, of_lambdas=module):
            model = nn.Sequential(Calls())
            model[0].__class__ = type("Own", (Calls,), {"__module__": "of_lambdas"})
            model[0].how = lambda q, k, v, **_: module.eager_attention_forward(model[0], q, k, v)[0]
            self.assertEqual(self.rows(model, lambda i: model(torch.randn(4, T, WIDTH))).places["layer"], ["0"])
        self.assertIs(module.eager_attention_forward.__code__, code)

    def test_layers_that_are_dropped(self):
        """A module that runs later has a row from the beginning."""
        model = Nano()
        both, first = model.blocks, nn.ModuleList([model.blocks[0]])

        def step(i):
            ids = batch(i)
            x = model.embed(ids)
            with mock_blocks(model, both if i in (1, 2) else first):
                model(ids)
            return x

        found = self.rows(model, step, 4)
        self.assertEqual(found.places["layer"], ["blocks.0", "blocks.1"])
        missing = found.values.view(np.uint64) == np.float64(maxlogit.MISSING).view(np.uint64)  # no other NaN
        self.assertEqual(missing.all(2).tolist(), [[False, True], [False, False], [False, False], [False, True]])
        self.assertEqual(np.isnan(found.values).tolist(), missing.tolist())

    def test_two_calls_have_two_rows(self):
        class Two(nn.Module):
            def forward(self, x):
                for heads in (2, 4):
                    q = x.unflatten(-1, (heads, -1)).transpose(1, 2)
                    F.scaled_dot_product_attention(q, q, q)
                return x

        model, x = nn.Sequential(Two()), torch.randn(2, 5, 8)
        found = self.rows(model, lambda i: model(x))
        self.assertEqual(found.places["layer"], ["0", "0#2"])
        self.assertEqual(np.isnan(found.values[0]).sum(1).tolist(), [2, 0])

    def test_nested_tensors_and_func(self):
        model = Nano()
        names = dict(model.named_parameters())

        def loss(p, ids):
            return torch.func.functional_call(model, p, (ids,)).square().mean()

        def step(i):
            torch.func.grad(loss)({k: v.detach() for k, v in names.items()}, batch(i))

        found = self.rows(model, step)
        np.testing.assert_allclose(found.values[0], truth_of_nano(model, batch(0)), rtol=1e-5)
        # of every example: said once, and training goes on
        with maxlogit.Recorder(self.path, mode="replace") as recorder, mt.watch(model, recorder):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                for i in range(2):
                    p = {k: v.detach() for k, v in names.items()}
                    torch.func.vmap(torch.func.grad(loss), (None, 0))(p, batch(i)[:, None])
                    recorder.log(i, loss=1.0)
        said = [str(w.message) for w in said if "maxlogit" in str(w.message)]
        self.assertEqual(len([text for text in said if "blocks.0" in text and "vmap" in text]), 1, said)

    def test_nested_tensors(self):
        """One warning, and training goes on."""

        class Nested(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

            def forward(self, x):
                q, k, v = (p(x).view(2, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for p in self.qkv)
                return F.scaled_dot_product_attention(q, k, v)

        from torch.nested._internal import sdpa

        model, processor = nn.Sequential(Nested()), mock.patch.object(sdpa, "can_use_cudnn_attention", return_value=False)
        x = torch.nested.nested_tensor([torch.randn(n, WIDTH) for n in (5, 3)], layout=torch.jagged)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with maxlogit.Recorder(self.path, mode="replace") as recorder, mt.watch(model, recorder):
                for i in range(2):
                    with processor:  # a build for GPUs asks for one
                        model(x)
                    recorder.log(i, loss=1.0)
        self.assertEqual(sum("0: its maxima are missing: nested tensors" in str(w.message) for w in said), 1)
        self.assertNotIn("attn/max_logit", maxlogit.open(self.path))
        clip = mt.QKClip(model, tau=0.01)
        with processor:
            model(x)
        with self.assertRaisesRegex(mt.CannotClip, "nested"):
            clip.step()
        clip.close()

    def test_export(self):
        model = Nano()
        with maxlogit.Recorder(self.path) as recorder, mt.watch(model, recorder, spectra_every=0):
            for strict in (False, True):
                graph = torch.export.export(model, (batch(0),), strict=strict)
                self.assertNotIn("maxlogit", str(graph.graph))
            model(batch(0))
            recorder.log(0, loss=1.0)
        np.testing.assert_allclose(
            maxlogit.open(self.path)["attn/max_logit"].values[0], truth_of_nano(model, batch(0)), rtol=1e-5
        )

    def test_spectra_of_attention_in_an_inner_module(self):
        """The projections of the module around it, by their names, or as the warning proposes."""

        class Attend(nn.Module):
            def forward(self, q, k, v):
                return F.scaled_dot_product_attention(q, k, v)

        class Outer(nn.Module):
            def __init__(self, q, k):
                super().__init__()
                self.names = q, k
                for name in self.names:
                    setattr(self, name, nn.Linear(8, 8))
                self.attend = Attend()

            def forward(self, x):
                q, k = (getattr(self, name)(x).unflatten(-1, (2, 4)).transpose(1, 2) for name in self.names)
                return self.attend(q, k, k)

        for names, layouts in (
            (("wq", "wk"), None),
            (("a", "b"), None),
            (("a", "b"), {"0.attend": mt.Separate("a", "b")}),
            (("a", "b"), {"0": mt.Separate("a", "b")}),
        ):
            model = nn.Sequential(Outer(*names))
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                with maxlogit.Recorder(self.path, mode="replace") as recorder, mt.watch(model, recorder, layouts=layouts):
                    model(torch.randn(2, 5, 8))
                    recorder.log(0, loss=1.0)
            run, unknown = maxlogit.open(self.path), names[0] == "a" and not layouts
            self.assertEqual(run["attn/max_logit"].places["layer"], ["0.attend"])
            self.assertEqual("head_q/spectral_norm" not in run, unknown)
            self.assertEqual(sum("layouts={'0.attend'" in str(w.message) for w in said), int(unknown))
            if not unknown:
                w = getattr(model[0], names[0]).weight.detach().numpy()
                np.testing.assert_allclose(run["head_q/spectral_norm"][0, 0, 0], np.linalg.norm(w[:4], 2), rtol=1e-5)

    def test_eval_is_said_once(self):
        model = Nano().eval()
        with maxlogit.Recorder(self.path) as recorder, mt.watch(model, recorder):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                for i in range(3):
                    model(batch(i))
                    recorder.log(i, loss=1.0)
        self.assertEqual(sum("eval mode" in str(w.message) for w in said), 1)

    def test_attention_by_hand_is_said(self):
        """It would be missed without a word, beside attention that is found or alone."""

        class ByHand(NanoAttention):
            sees, way = False, ""

            def forward(self, x):
                q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, -1))
                if self.sees:
                    mt.see(q, k, scale=1)
                if self.way == "einsum":
                    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
                elif self.way == "baddbmm":
                    q, k, v = (y.flatten(0, 1) for y in (q, k, v))
                    scores = torch.baddbmm(torch.zeros(len(q), q.shape[1], k.shape[1]), q, k.mT, beta=0)
                else:
                    scores = q @ k.mT
                y = F.softmax((scores / 4).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf), dim=-1) @ v
                return self.c_proj(y.reshape(x.shape))

        class Router(nn.Module):
            """A softmax of products with weights, plain and stacked, is none."""

            def __init__(self):
                super().__init__()
                self.plain, self.stacked = nn.Linear(WIDTH, 3), nn.Parameter(torch.randn(2, WIDTH, 3))
                self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

            def forward(self, x):
                pairs = x.flatten(0, 1).unflatten(0, (2, -1))
                one, two = self.plain(x).softmax(-1).sum(), torch.softmax(pairs @ self.stacked, -1).sum()
                return self.attn(x, x, x, need_weights=True)[0] * one * two

        for way, sees, wanted in (("", False, 1), ("einsum", False, 1), ("baddbmm", False, 1), ("", True, 0), (None, True, 0)):
            with self.subTest(way=way, sees=sees):
                by_hand = Router() if way is None else ByHand()
                by_hand.sees, by_hand.way = sees, way
                model = nn.Sequential(Calls(), by_hand).train()
                model[0].how = F.scaled_dot_product_attention
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    self.rows(model, lambda i, model=model: model(torch.randn(4, T, WIDTH)), 3, on_error="warn")
                said = [str(w.message) for w in said if "softmax" in str(w.message)]
                self.assertEqual(len(said), wanted, said)
                if said:
                    self.assertRegex(said[0], r"1 \(ByHand\) has a softmax of products.*maxlogit\.torch\.see")

    def test_layer_1_is_not_around_layer_10(self):
        for inner, outer, wanted in (("h.10", "h.1", False), ("h.1.attn", "h.1", True), ("h.1", "h.1", True), ("h.1", "", True)):
            self.assertEqual(_attention._is_around(inner, outer), wanted, (inner, outer))

    def test_errors_are_said_once(self):
        model = Nano()
        for on_error in ("warn", "raise"):
            with maxlogit.Recorder(self.path, mode="replace") as recorder, mt.watch(model, recorder, on_error=on_error):
                with mock.patch.object(_attention, "max_logits", side_effect=ZeroDivisionError("no")):
                    if on_error == "raise":
                        with self.assertRaises(ZeroDivisionError):
                            model(batch(0))
                        continue
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter("always")
                        for i in range(3):
                            model(batch(i))
                            recorder.log(i, loss=1.0)
                self.assertEqual(sum("blocks.0: its maxima are missing" in str(w.message) for w in said), 1)


class mock_blocks:
    def __init__(self, model, blocks):
        self.model, self.blocks, self.before = model, blocks, model.blocks

    def __enter__(self):
        self.model.blocks = self.blocks

    def __exit__(self, *_):
        self.model.blocks = self.before


class Closed(InFolder):
    def setUp(self):
        super().setUp()
        import gc

        gc.collect()
        for attention in list(_attention._of_model.values()):  # that other tests of this process left open
            for reader in list(attention.readers):
                attention.release(reader)

    def traces(self, model):
        from torch.nn.attention import flex_attention as flex

        hooks = [h for m in model.modules() for h in (*m._forward_hooks.values(), *m._forward_pre_hooks.values())]
        attributes = [name for m in model.modules() for name in m.__dict__ if "maxlogit" in name]
        functions = (F.multi_head_attention_forward, flex.flex_attention)
        codes = [f.__code__ for f in functions if "_maxlogit" in str(f.__code__.co_names)]
        names = [name for f in functions for name in f.__globals__ if name.startswith("_maxlogit")]
        return hooks + attributes + codes + names + ([1] if F.scaled_dot_product_attention is not stored else [])

    def test_nothing_is_left(self):
        model = Nano()
        self.assertEqual(self.traces(model), [])
        with maxlogit.Recorder(self.path) as recorder:
            watched, clip = mt.watch(model, recorder), mt.QKClip(model, recorder=recorder)
            model(batch(0))
            clip.step()
            recorder.log(0, loss=1.0)
            watched.close()
            self.assertNotEqual(self.traces(model), [])
            clip.close()
            self.assertEqual(self.traces(model), [])
            self.assertEqual(torch._C._len_torch_function_stack(), 0)
            recorder.log(1, loss=1.0)
        file = io.BytesIO()
        torch.save(model, file)
        self.assertNotIn(b"maxlogit", file.getvalue())
        with maxlogit.Recorder(self.path, mode="replace") as recorder:  # and begins again
            mt.watch(model, recorder)
            model(batch(1))
            recorder.log(0, loss=1.0)
        np.testing.assert_allclose(
            maxlogit.open(self.path)["attn/max_logit"].values[0], truth_of_nano(model, batch(1)), rtol=1e-5
        )

    def test_saved_after_close_it_needs_no_package(self):
        """It loads and runs where there is none, and so does an exported graph."""
        (self.folder / "of_a_user.py").write_text(
            "import torch\nfrom torch import nn\n\n"
            "class Model(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.a = nn.MultiheadAttention(8, 2, batch_first=True)\n\n"
            "    def forward(self, x):\n"
            "        return self.a(x, x, x, need_weights=False)[0]\n"
        )
        reads = (
            "import sys, torch, of_a_user\n"
            "x = torch.ones(1, 3, 8)\n"
            "for one in (torch.load('model.pt', weights_only=False), torch.export.load('graph.pt2').module()):\n"
            "    print(one(x).sum().item())\n"
            "assert not any('maxlogit' in name for name in sys.modules)\n"
        )
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        import of_a_user

        self.addCleanup(sys.modules.pop, "of_a_user")
        model, x = of_a_user.Model(), torch.ones(1, 3, 8)
        with maxlogit.Recorder(self.path) as recorder, mt.watch(model, recorder):
            clip = mt.QKClip(model, tau=1e-3, recorder=recorder)
            model(x)
            self.assertGreater(clip.step(), 0)
            recorder.log(0, loss=1.0)
            graph = torch.export.export(model, (x,))
            clip.close()
        torch.save(model, self.folder / "model.pt")
        torch.export.save(graph, self.folder / "graph.pt2")
        ran = subprocess.run(
            [sys.executable, "-c", reads],
            cwd=self.folder,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            capture_output=True,
            text=True,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for found in ran.stdout.split():
            self.assertAlmostEqual(float(found), float(model(x).sum()), 4)

    def test_a_watch_that_fails_leaves_nothing(self):
        """Nor does a clip. Those that watch the model already go on."""
        model = Nano()
        hook, divert, calls = _attention.Attention._hook, _attention._divert, []

        def third(function):
            def fails(*args):
                calls.append(1)
                if len(calls) == 3:
                    raise ZeroDivisionError
                return function(*args)

            return fails

        class Broken:
            last_step = -1

            def add_source(self, source):
                raise ZeroDivisionError

        recorder = maxlogit.Recorder(self.path)
        for what, owner, name, given in (
            ("a hook", _attention.Attention, "_hook", {"new": third(hook)}),
            ("a function", _attention, "_divert", {"new": third(divert)}),
            ("a wrapped function", _attention, "_wrap_flex", {"side_effect": ZeroDivisionError}),
            ("what wraps the model", _attention.Attention, "wrap", {"side_effect": ZeroDivisionError}),
            ("the recorder", maxlogit.Recorder, "add_source", {"side_effect": ZeroDivisionError}),
        ):
            for start in (lambda: mt.watch(model, recorder), lambda: mt.QKClip(model, recorder=recorder)):
                with self.subTest(what), mock.patch.object(owner, name, **given), self.assertRaises(ZeroDivisionError):
                    calls.clear()
                    start()
                self.assertEqual(self.traces(model), [])
        with self.subTest("no recorder"), self.assertRaises(AttributeError):
            mt.watch(model, None)
        self.assertEqual(self.traces(model), [])
        with mt.watch(model, recorder, spectra_every=0):
            clip = mt.QKClip(model, tau=0.5)
            with warnings.catch_warnings(), self.assertRaisesRegex(UserWarning, "has a QKClip already"):
                warnings.simplefilter("error")
                mt.QKClip(model, tau=0.5)
            with warnings.catch_warnings(), self.assertRaises(ZeroDivisionError):
                warnings.simplefilter("ignore")
                mt.QKClip(model, tau=0.5, recorder=Broken())
            model(batch(0))
            self.assertGreater(clip.step(), 0)
            clip.close()
            recorder.log(0, loss=1.0)
        recorder.close()
        self.assertEqual(self.traces(model), [])
        self.assertEqual(maxlogit.open(self.path)["attn/max_logit"].shape, (1, 2, HEADS))

    def test_a_model_that_is_dropped(self):
        import gc
        import weakref

        model = Nano()
        gone = weakref.ref(model)
        watched = mt.watch(model, maxlogit.Recorder(self.path))
        self.assertNotEqual(self.traces(model), [])
        watched.recorder._sources.clear()
        del model, watched
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(self.traces(Nano()), [])

    def test_an_exception_in_forward(self):
        model = Nano()
        good = model.head.forward

        def bad(x):
            raise ZeroDivisionError

        with maxlogit.Recorder(self.path) as recorder, mt.watch(model, recorder, spectra_every=0):
            model.head.forward = bad
            with self.assertRaises(ZeroDivisionError):
                model(100 * batch(0) // 100)
            self.assertEqual(torch._C._len_torch_function_stack(), 0)
            self.assertIsNone(_attention.threads.own.at)
            model.head.forward = good
            model(batch(0))
            recorder.log(0, loss=1.0)
        np.testing.assert_allclose(
            maxlogit.open(self.path)["attn/max_logit"].values[0], truth_of_nano(model, batch(0)), rtol=1e-5
        )

    def test_copies_and_pickles(self):
        model = Nano()
        with maxlogit.Recorder(self.path) as recorder, mt.watch(model, recorder, spectra_every=0):
            other, read = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
            for one in (other, read):
                with torch.no_grad():
                    one.embed.weight.mul_(10)
                one(batch(0))
            model(batch(0))
            recorder.log(0, loss=1.0)
        np.testing.assert_allclose(
            maxlogit.open(self.path)["attn/max_logit"].values[0], truth_of_nano(model, batch(0)), rtol=1e-5
        )


    def test_wrappers(self):
        """Each loses its hooks, and may be copied meanwhile."""
        model = Nano()
        wrappers = [torch.compile(model, backend="eager"), nn.DataParallel(model), nn.DataParallel(model)]
        with maxlogit.Recorder(self.path) as recorder:
            watched = mt.watch(wrappers[0], recorder, spectra_every=0)
            clips = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for other in wrappers[1:]:
                    clips.append(mt.QKClip(other, tau=1e6))
            for step, wrapper in enumerate(wrappers):
                for one in (copy.deepcopy(wrapper), pickle.loads(pickle.dumps(wrapper)) if step else wrapper):
                    with torch.no_grad():
                        one(batch(7))
                watched.reader.take()
                wrapper(batch(step))
                clips[-1].step()
                recorder.log(step, loss=1.0)
            for one in (watched, *clips):
                one.close()
        found = maxlogit.open(self.path)["attn/max_logit"].values
        for step in range(3):
            np.testing.assert_allclose(found[step], truth_of_nano(model, batch(step)), rtol=1e-5)
        for wrapper in (model, *wrappers):
            self.assertEqual(self.traces(wrapper), [])


class Compiled(InFolder):
    def test_as_many_graphs(self):
        """Blocks share one graph, and steps that nobody looks at have no other."""
        from torch._dynamo.backends.common import aot_autograd
        from functorch.compile import make_boxed_func

        def run(how, backend, watched):
            torch._dynamo.reset()
            torch.manual_seed(0)
            model, graphs = Nano(), []
            truths = [truth_of_nano(model, batch(i)) for i in range(3)]

            def count(graph, inputs):
                graphs.append(graph)
                return make_boxed_func(graph.forward) if backend == "aot" else graph.forward

            options = {"backend": aot_autograd(fw_compiler=count) if backend == "aot" else count, "fullgraph": True}
            forward = model
            if how == "whole":
                forward = torch.compile(model, **options)
            elif how == "in place":
                model.compile(**options)
            elif how == "blocks in place":
                for block in model.blocks:
                    block.compile(**options)
            elif how == "blocks":
                for i in range(2):
                    model.blocks[i] = torch.compile(model.blocks[i], **options)
            elif how == "a step":
                forward = torch.compile(lambda ids: model(ids), **options)
            if not watched:
                for i in range(3):
                    forward(batch(i)).sum().backward()
                return len(graphs)
            found = self.rows(model if how == "a step" else forward, lambda i: forward(batch(i)).sum().backward(), 3, every=2)
            self.assertEqual(found.places["layer"], ["blocks.0", "blocks.1"], how)
            np.testing.assert_allclose(found.values[[0, 2]], [truths[0], truths[2]], rtol=1e-5, err_msg=how)
            self.assertTrue(np.isnan(found.values[1]).all())
            return len(graphs)

        for how in ("whole", "in place", "blocks in place", "blocks", "a step"):
            for backend in ("eager", "aot"):
                self.assertEqual(run(how, backend, True), run(how, backend, False), (how, backend))


# --- ranks --------------------------------------------------------------------------------------------------


def of_stages(rank, ranks, path):
    """Layers 0 and 1 on the first rank, 1 and 2 on the second; the third has no forward pass; each drops one at times."""
    model = nn.Module()
    model.layers = nn.ModuleDict({str(i): NanoAttention() for i in ((0, 1), (1, 2), (3,))[rank]})
    model.train()
    x = torch.randn(2, T, WIDTH, generator=torch.Generator().manual_seed(rank))

    def forward(x, step):
        for name, layer in model.layers.items():
            if (int(name) + step) % 3:
                layer(x * (step + 1))

    model.forward = forward
    own, told = [], []
    names = mock.patch.object(torch.distributed, "all_gather_object", wraps=torch.distributed.all_gather_object)
    with maxlogit.Recorder(path, rank=rank) as recorder, mt.watch(model, recorder, spectra_every=0), names as gathered:
        clip = mt.QKClip(model, tau=1e9)
        for step in range(4):
            if rank < 2:
                model(x, step)
            clip.step()
            recorder.log(step, loss=1.0)
            own.append({k: v.max() for k, v in zip(clip.layers, clip.max_logit)})
            told.append(gathered.call_count)
    assert 0 < told[2] == told[3] < 8, told  # names are gathered only when they have changed
    everyone = [None] * ranks
    torch.distributed.all_gather_object(everyone, [sorted(map(str, row.items())) for row in own])
    assert all(one == everyone[0] for one in everyone), everyone


def of_groups(rank, ranks, folder):
    """Two models at once, each on two ranks, which reduce their own maxima."""
    groups = [torch.distributed.new_group([2 * i, 2 * i + 1]) for i in range(2)]
    one, own = rank // 2, rank % 2
    torch.manual_seed(one)
    model = Nano()
    truth = np.maximum(*(truth_of_nano(model, batch(10 * one + i)) for i in range(2)))
    gamma = np.minimum(1, 3 / truth[0])
    with maxlogit.Recorder(f"{folder}/{one}.h5", rank=own) as recorder:
        mt.watch(model, recorder, spectra_every=0, group=groups[one])
        clip = mt.QKClip(model, tau=3, recorder=recorder, group=groups[one])
        model(batch(10 * one + own))
        assert clip.step() > 0
        np.testing.assert_allclose(clip.gamma[0], gamma, rtol=1e-5)
        recorder.log(0, loss=1.0)
    if own == 0:
        np.testing.assert_allclose(maxlogit.open(f"{folder}/{one}.h5")["attn/max_logit"].values[0], truth, rtol=1e-5)


def of_replicas(rank, ranks, path):
    """The same weights, and layers that are dropped by each replica as it likes: they stay the same."""
    torch.manual_seed(0)
    model, given = Nano(), np.random.default_rng(rank)
    with torch.no_grad():
        for block in model.blocks:
            block.c_attn.weight.mul_(2)
    every = [*model.blocks, *(copy.deepcopy(block) for block in model.blocks)]
    model.blocks = nn.ModuleList(every)
    seen = [set() for _ in range(2)]
    with maxlogit.Recorder(path, rank=rank) as recorder, mt.watch(model, recorder, spectra_every=0):
        clip = mt.QKClip(model, tau=2, on_ineffective="warn")
        for step in range(6):
            kept = [i for i in range(4) if given.random() < 0.5] if step else [rank, 3]
            seen[step % 2] = set(kept)
            model.blocks = nn.ModuleList(every[i] for i in kept)
            x = model.embed(batch(step * ranks + rank))
            model.blocks = nn.ModuleList(every)
            model.forward = lambda x, kept=kept: [every[i](x) for i in kept]
            model(x)
            kepts = [None] * ranks
            torch.distributed.all_gather_object(kepts, kept)
            clip.step()
            known = dict(zip(clip.layers, np.isnan(clip.max_logit).all(1)))
            wanted = {f"blocks.{i}" for kept in kepts for i in kept}
            assert {name for name, is_missing in known.items() if not is_missing} == wanted, (step, known, wanted)
            for block in every:
                weights = [torch.empty_like(block.c_attn.weight) for _ in range(ranks)]
                torch.distributed.all_gather(weights, block.c_attn.weight.detach())
                assert all(torch.equal(weights[0], w) for w in weights), (step, kepts)
            recorder.log(step, loss=1.0)
        assert clip.clips > 0


def of_resumed(rank, ranks, path, steps):
    """The first rank alone has the rows of the recording that was killed."""
    torch.manual_seed(0)
    model = Nano()
    recorder = maxlogit.Recorder(path, rank=rank)
    mt.watch(model, recorder, every=3, spectra_every=0)
    for step in steps:
        model(batch(step))
        recorder.log(step, loss=1.0)
    if steps[0] == 0:
        if rank == 0:
            recorder.snapshot()
        torch.distributed.barrier()
        os._exit(0)
    recorder.close()


def of_late(rank, ranks, path):
    """All ranks have logged rows before they watch."""
    model = Nano()
    recorder = maxlogit.Recorder(path, rank=rank)
    recorder.log(0, loss=1.0)
    mt.watch(model, recorder, every=2, spectra_every=0, on_error="raise")
    for step in range(1, 5):
        model(batch(step))
        recorder.log(step, loss=1.0)
    recorder.close()


@unittest.skipUnless(torch.distributed.is_available() and torch.distributed.is_gloo_available(), "no gloo here")
class Ranks(InFolder):
    def test_ranks_that_watch_late(self):
        run_as_ranks(self, 2, of_late, str(self.path), wait=60)
        rows = np.isfinite(maxlogit.open(self.path)["attn/max_logit"].values).all((1, 2))
        self.assertEqual(np.nonzero(rows)[0].tolist(), [2, 4])

    def test_groups(self):
        run_as_ranks(self, 4, of_groups, str(self.folder))

    def test_ranks_that_are_resumed(self):
        for steps in (range(5), range(5, 9)):
            run_as_ranks(self, 2, of_resumed, str(self.path), steps, wait=60)
        values = maxlogit.open(self.path)["attn/max_logit"].values
        torch.manual_seed(0)
        model = Nano()
        for step in range(9):
            if step % 3:
                self.assertTrue(np.isnan(values[step]).all(), step)
            else:
                np.testing.assert_allclose(values[step], truth_of_nano(model, batch(step)), rtol=1e-5)

    def test_replicas_that_drop_other_layers(self):
        run_as_ranks(self, 3, of_replicas, str(self.path))

    def test_the_group_s_device(self):
        """What is reduced is there, also of a rank that has nothing; of two devices the processor."""

        class Stop(Exception):
            pass

        def reduced(tensor, *args, **kwargs):
            devices.append(tensor.device.type)
            raise Stop

        for backend, wanted in (
            ("cuda:nccl", "meta"),
            ("cpu:gloo,cuda:nccl", "cpu"),
            ("cpu:gloo", "cpu"),
            ("cpu:mpi,cuda:mpi", "cpu"),
            ("cpu:ucc,cuda:ucc", "cpu"),
        ):
            devices = []
            distributed = mock.Mock(wraps=torch.distributed, all_reduce=reduced, get_backend_config=lambda g, b=backend: b)
            chip = mock.Mock()
            chip.current_accelerator.return_value, chip.current_device_index.return_value = torch.device("meta"), 0
            one = mock.patch.object(_ranks, "is_distributed", return_value=True)
            two = mock.patch.multiple(torch, distributed=distributed, accelerator=chip, create=True)
            with one, two:
                rows = _ranks.Rows()
                for work in (
                    lambda: rows.agree(["a"], {"a": 2}),
                    lambda: rows.reduce({}),
                    lambda: rows.reduce({"a": torch.ones(2)}),
                    lambda: rows.sum(np.zeros(1)),
                ):
                    with self.assertRaises(Stop):
                        work()
            self.assertEqual(devices, [wanted] * 4, backend)

    def test_rows_by_name(self):
        run_as_ranks(self, 3, of_stages, str(self.path))
        found = maxlogit.open(self.path)["attn/max_logit"]
        self.assertEqual(found.places["layer"], ["layers.0", "layers.1", "layers.2"])
        missing = np.isnan(found.values).all(2)
        for step in range(4):
            self.assertEqual(missing[step].tolist(), [(i + step) % 3 == 0 for i in range(3)])


if __name__ == "__main__":
    unittest.main()
