"""What users of notebooks do: each of it works as they expect, or is refused with a reason."""

import contextlib
import copy
import math
import threading
import unittest
import warnings

import numpy as np

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

import in_folder
import maxlogit
import maxlogit.torch as mt
from test_torch import Nano, NanoAttention, batch, truth_of_nano

TAU = 2.0


class Users(in_folder.InFolder):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.model = Nano()

    def first(self, model=None, ids=None):
        """The largest logit of the first layer, whose input no clip changes."""
        return float(truth_of_nano(model or self.model, batch() if ids is None else ids)[0].max())

    def clipped(self, clip, forward=None):
        (self.model if forward is None else forward)(batch())
        return clip.step()

    def test_a_cell_that_stops_between_step_and_log(self):
        """The next row has the maxima, and the least factors, of both passes."""
        with maxlogit.Recorder(self.path) as recorder:
            mt.watch(self.model, recorder, spectra_every=0)
            clip, truths, least = mt.QKClip(self.model, tau=TAU, recorder=recorder), [], []
            for step in range(2):
                truths.append(truth_of_nano(self.model, batch(step)))
                self.model(batch(step))
                clip.step()
                least.append(clip.gamma)
                if step == 0:
                    with self.assertRaises(ValueError):
                        recorder.log(0, loss="a text")
            recorder.log(0, loss=1.0)
        run = maxlogit.open(self.path)
        np.testing.assert_allclose(run["attn/max_logit"].values[0], np.max(truths, 0), rtol=1e-5)
        np.testing.assert_allclose(run["qk_clip/gamma"].values[0], np.min(least, 0), rtol=1e-6)

    def test_another_optimizer(self):
        weight = self.model.blocks[0].c_attn.weight
        optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9) for _ in range(2)]
        clip = mt.QKClip(self.model, tau=TAU, optimizer=optimizers[0])
        for optimizer in optimizers:
            with torch.no_grad():
                weight.mul_(2)
            optimizer.zero_grad()
            self.model(batch()).sum().backward()
            optimizer.step()
            before = optimizer.state[weight]["momentum_buffer"].clone()
            clip.optimizer = optimizer
            self.assertGreater(clip.step(), 0)
            self.assertLess(float(optimizer.state[weight]["momentum_buffer"].norm()), float(before.norm()))

    def test_another_threshold(self):
        clip = mt.QKClip(self.model, tau=1e9)
        self.assertEqual(self.clipped(clip), 0)
        clip.tau, clip.alpha = TAU, 1
        key = self.model.blocks[0].c_attn.weight.detach()[32:64].clone()
        self.assertGreater(self.clipped(clip), 0)
        self.assertAlmostEqual(self.first(), TAU, 4)
        self.assertTrue(torch.equal(self.model.blocks[0].c_attn.weight[32:64], key))
        self.assertEqual((clip.tau, clip.state_dict()["tau"], clip.alpha), (TAU, TAU, 1))
        for name, wrong in (("tau", -1), ("alpha", 2), ("scope", "x"), ("gqa", "x")):
            with self.assertRaises(ValueError):
                setattr(clip, name, wrong)
        self.assertEqual((clip.tau, clip.alpha, clip.scope), (TAU, 1, "head"))
        self.assertFalse(hasattr(clip, "tua"))

    def test_compiled_after_it(self):
        """The message's remedy works."""
        clip = mt.QKClip(self.model, tau=TAU)
        compiled = torch.compile(self.model, backend="eager")
        with self.assertRaisesRegex(mt.CannotClip, r"clip\.verify"):
            self.clipped(clip, compiled)
        clip.verify(batch())
        self.assertGreater(self.clipped(clip, compiled), 0)
        self.assertAlmostEqual(self.first(), TAU, 4)

    def test_a_step_that_the_scaler_skips(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        clip, scaler = mt.QKClip(self.model, tau=TAU, optimizer=optimizer), torch.amp.GradScaler("cpu", init_scale=2.0**120)
        scaler.scale(self.model(batch()).square().mean() * 1e30).backward()
        before = self.model.head.weight.clone()
        scaler.step(optimizer)
        scaler.update()
        self.assertTrue(torch.equal(self.model.head.weight, before))
        self.assertGreater(clip.step(), 0)
        self.assertAlmostEqual(self.first(), TAU, 4)

    def test_frozen_and_thawed(self):
        clip, weight = mt.QKClip(self.model, tau=TAU), self.model.blocks[0].c_attn.weight
        self.clipped(clip)
        for frozen in (True, False):
            self.model.blocks[0].requires_grad_(not frozen)
            with torch.no_grad():
                weight.mul_(3)
            before = weight.clone()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for _ in range(2):  # the first finds them anew
                    self.clipped(clip)
            self.assertEqual((torch.equal(weight, before), clip.frozen), (frozen, ["blocks.0"] if frozen else []))

    def test_hooks_that_replace_outputs(self):
        """A factor is followed, something added is refused."""
        self.model.blocks[0].c_attn.register_forward_hook(lambda module, args, output: 3 * output)
        self.model.blocks[1].c_attn.register_forward_hook(lambda module, args, output: output + 1)
        clip = mt.QKClip(self.model, tau=TAU, on_unknown="skip")
        with self.assertWarnsRegex(UserWarning, "blocks.1 .* not in proportion"):
            self.clipped(clip)
        self.clipped(clip)
        self.assertAlmostEqual(float(clip.max_logit[0].max()), TAU, 4)

    def test_an_ensemble_under_vmap(self):
        states, _ = torch.func.stack_module_state([Nano() for _ in range(2)])
        model = self.model
        with maxlogit.Recorder(self.path) as recorder, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            mt.watch(model, recorder)
            clip = mt.QKClip(model, tau=TAU)
            torch.func.vmap(lambda p, x: torch.func.functional_call(model, p, (x,)), (0, None))(states, batch())
            with self.assertRaisesRegex(mt.CannotClip, "blocks.0 .* torch.func.vmap is not supported"):
                clip.step()
            recorder.log(0, loss=1.0)
        text = "blocks.0: its maxima are missing: Unsupported: attention under torch.func.vmap"
        self.assertEqual(sum(text in str(w.message) for w in said), 1)

    def test_averages_and_copies(self):
        """Nothing of them is recorded, whether the model has its observers as attributes or not."""
        with maxlogit.Recorder(self.path) as recorder:
            self.model.watched = mt.watch(self.model, recorder, spectra_every=0)
            self.model.clip = mt.QKClip(self.model, tau=1e9)
            others = [torch.optim.swa_utils.AveragedModel(self.model), copy.deepcopy(self.model)]
            self.model(batch(1))
            for other in others:
                with torch.no_grad():
                    for p in other.parameters():
                        p.mul_(5)
                other(batch(1))
            self.model.clip.step()
            recorder.log(0, loss=1.0)
        found = maxlogit.open(self.path)["attn/max_logit"].values[0]
        np.testing.assert_allclose(found, truth_of_nano(self.model, batch(1)), rtol=1e-5)

    def test_one_model_in_many_threads(self):
        with maxlogit.Recorder(self.path) as recorder:
            mt.watch(self.model, recorder, spectra_every=0)
            threads = [threading.Thread(target=lambda i=i: self.model(batch(i)).sum().backward()) for i in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            recorder.log(0, loss=1.0)
        found = maxlogit.open(self.path)["attn/max_logit"].values[0]
        np.testing.assert_allclose(found, np.max([truth_of_nano(self.model, batch(i)) for i in range(6)], 0), rtol=1e-5)

    def test_interrupted_and_another_model(self):
        """After Ctrl-C another model runs, watched or not: it is not recorded as a part of the first."""
        other, third, block = Nano(), Nano(), self.model.blocks[1]

        def interrupt(x):
            raise KeyboardInterrupt

        for model in (other, third):
            with torch.no_grad():
                model.blocks[0].c_attn.weight.mul_(5)
        with maxlogit.Recorder(self.path) as recorder, maxlogit.Recorder(self.folder / "third.h5") as of_third:
            mt.watch(self.model, recorder, spectra_every=0)
            mt.watch(third, of_third, spectra_every=0)
            clip = mt.QKClip(third, tau=1e9)
            forward, block.forward = block.forward, interrupt
            with self.assertRaises(KeyboardInterrupt):
                self.model(batch())
            block.forward = forward
            other(batch())
            third(batch())
            self.assertEqual((torch._C._len_torch_function_stack(), clip.step()), (0, 0))
            of_third.log(0, loss=1.0)
            self.model(batch())
            recorder.log(0, loss=1.0)
        for model, path in ((self.model, self.path), (third, self.folder / "third.h5")):
            found = maxlogit.open(path)["attn/max_logit"]
            self.assertEqual(found.places["layer"], ["blocks.0", "blocks.1"])
            np.testing.assert_allclose(found.values[0], truth_of_nano(model, batch()), rtol=1e-5)

    def test_interrupted_and_other_modes(self):
        """After Ctrl-C the modes of PyTorch are the user's, within `with torch.device` and behind it."""
        good, stack = self.model.blocks[1].forward, torch.overrides._get_current_function_mode_stack
        Mode, meta = torch.overrides.BaseTorchFunctionMode, torch.device("meta")
        recorder, watched = maxlogit.Recorder(self.path), []

        def watch():
            while watched:
                close()
            watched.append(mt.watch(self.model, recorder, spectra_every=0))

        def close():
            watched.pop().close()

        def interrupt(x):
            raise KeyboardInterrupt

        def run(forward):
            self.model.blocks[1].forward = forward
            with self.assertRaises(KeyboardInterrupt) if forward is interrupt else contextlib.nullcontext():
                self.model(ids)

        ids, device = batch(), lambda: torch.empty(1).device.type
        for ends in (lambda: run(good), close):
            watch()
            run(interrupt)
            with meta:
                ends()
                self.assertEqual((device(), len(stack())), ("meta", 1))
            self.assertEqual(stack(), [])
            watch()
            outer, inner, later = Mode(), Mode(), Mode()
            with outer:
                with contextlib.suppress(KeyboardInterrupt), inner, meta:  # takes the mode that was left, not its own
                    run(interrupt)
                    raise KeyboardInterrupt
                with later:
                    ends()
                    self.assertEqual((device(), stack()), ("cpu", [outer, later]))
            self.assertEqual(stack(), [])
        recorder.close()

    def test_a_first_batch_that_is_not_finite(self):
        """It shows nothing of what makes the logits; the next one does."""
        clip, weight = mt.QKClip(self.model, tau=TAU), self.model.embed.weight
        kept = weight.detach().clone()
        with torch.no_grad():
            weight[batch()[0, 0]] = math.nan
        self.assertEqual(self.clipped(clip), 0)
        self.assertTrue(np.isnan(clip.max_logit).any())
        with torch.no_grad():
            weight.copy_(kept)
        self.assertGreater(self.clipped(clip), 0)
        self.assertAlmostEqual(self.first(), TAU, 4)

    def test_a_buffer_that_is_replaced(self):
        class Counts(Nano):
            def __init__(self):
                super().__init__()
                self.register_buffer("passes", torch.zeros(()))

            def forward(self, ids):
                self.passes = self.passes + 1
                return super().forward(ids)

        model = Counts()
        clip = mt.QKClip(model, tau=TAU)
        self.assertGreater(self.clipped(clip, model), 0)
        self.assertEqual(float(model.passes), 1)

    def test_layers_that_are_added(self):
        """They are clipped, and a warning says that the file has no row for them."""
        with maxlogit.Recorder(self.path) as recorder:
            mt.watch(self.model, recorder, spectra_every=0)
            clip = mt.QKClip(self.model, tau=TAU)
            for step in range(3):
                if step == 1:
                    self.model.blocks.append(NanoAttention())
                    nn.init.normal_(self.model.blocks[2].c_attn.weight)
                self.clipped(clip)
                if step == 1:
                    with self.assertWarnsRegex(UserWarning, "a module that was added to the model has attention"):
                        recorder.log(step, loss=1.0)
                else:
                    recorder.log(step, loss=1.0)
        self.assertLess(truth_of_nano(self.model, batch()).max(), TAU * 1.001)

    def test_branches_of_other_heads(self):
        """Rows go on where a branch with more heads runs later: the file keeps its places."""

        class Branch(nn.Module):
            def __init__(self, heads):
                super().__init__()
                self.heads, self.qkv = heads, nn.Linear(16, 48)

            def forward(self, x):
                q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
                return nn.functional.scaled_dot_product_attention(q, k, v)

        class Branches(nn.Module):
            def __init__(self):
                super().__init__()
                self.few, self.many = Branch(2), Branch(4)

            def forward(self, x, name):
                return getattr(self, name)(x)

        model = Branches()
        with maxlogit.Recorder(self.path) as recorder:
            clip = mt.QKClip(model, tau=1e-3, recorder=recorder)
            for step, (name, clips) in enumerate((("few", 2), ("many", 0), ("many", 4))):  # it is followed by the next pass
                model(torch.randn(2, 5, 16), name)
                self.assertEqual(clip.step(), clips)
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    recorder.log(step, loss=1.0)
                self.assertEqual(sum("more heads, only since" in str(w.message) for w in said), int(step == 1))
        self.assertEqual(maxlogit.open(self.path)["qk_clip/gamma"].shape, (3, 2, 2))
        model = Branch(2)
        clip = mt.QKClip(model, tau=1e-3)
        model(torch.randn(2, 5, 16))
        self.assertEqual(clip.step(), 2)
        model.heads = 4
        model(torch.randn(2, 5, 16))
        with self.assertRaisesRegex(mt.CannotClip, "other numbers of heads in other passes"):
            clip.step()

    def test_inference_mode_in_training(self):
        clip = mt.QKClip(self.model, tau=TAU)
        with torch.inference_mode():
            self.assertEqual(self.clipped(clip), 0)
        self.assertGreater(self.clipped(clip), 0)
        self.assertAlmostEqual(self.first(), TAU, 4)

    def test_numbers_of_another_type(self):
        clip = mt.QKClip(self.model, tau=TAU)
        for kind in (torch.float64, torch.bfloat16, torch.float32):
            self.model.to(kind)
            with torch.no_grad():
                self.model.blocks[0].c_attn.weight.mul_(3)
            for _ in range(3):
                self.clipped(clip)
            self.assertAlmostEqual(float(clip.max_logit[0].max()), TAU, 1)


if __name__ == "__main__":
    unittest.main()
