"""flash-attn, which wants a GPU, by a stand-in: its functions with the arguments of its versions 2 and 3, in their order."""

import sys
import types
import unittest
from unittest import mock

import numpy as np

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

try:
    import transformers
except ImportError:
    transformers = None

import maxlogit.torch as mt
import test_torch
from test_torch import SMALL, VOCAB, causal, explicit

HEADS, GROUPS, SIZE = 4, 2, 8


def stand_in(name="flash_attn"):
    """Version 2 (Dao-AILab/flash-attention, flash_attn/flash_attn_interface.py)."""
    module = types.ModuleType(name)
    common = (
        "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, "
        "deterministic=False, return_attn_probs=False"
    )
    limits = "cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k"
    for kind, first in {
        "": "q, k, v",
        "qkvpacked_": "qkv",
        "kvpacked_": "q, kv",
        "varlen_": f"q, k, v, {limits}",
        "varlen_qkvpacked_": "qkv, cu_seqlens, max_seqlen",
        "varlen_kvpacked_": f"q, kv, {limits}",
    }.items():
        paged = ", block_table=None" if kind == "varlen_" else ""
        shape = "qkv[..., 0, :, :]" if first.startswith("qkv") else "q"
        exec(f"def flash_attn_{kind}func({first}, {common}{paged}): return {shape}.clone()", module.__dict__)
    return module


def stand_in_3():
    """Version 3 (hopper/flash_attn_interface.py), where the scale comes fourth."""
    module = types.ModuleType("flash_attn_interface")
    common = (
        "softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None, window_size=(-1, -1), "
        "attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, sm_margin=0"
    )
    exec(f"def flash_attn_func(q, k, v, {common}): return q.clone()", module.__dict__)
    return module


def packed(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def truth_of_packed(q, k, lengths, window=10**6):
    """q, k [all positions, heads, size]."""
    of_q, of_k = q.split(lengths), k.split(lengths)
    each = [
        explicit(a[None].transpose(1, 2), b[None].transpose(1, 2), seen=causal(len(a), len(a), 0, window))
        for a, b in zip(of_q, of_k)
    ]
    return torch.stack(each).amax(0).detach().numpy()


class Flash(test_torch.InFolder):
    def setUp(self):
        super().setUp()
        self.q, self.k = torch.randn(2, 30, HEADS, SIZE), torch.randn(2, 40, GROUPS, SIZE)
        self.qkv = torch.randn(2, 30, 3, HEADS, SIZE)

    def found(self, call, module=None, **options):
        """What is recorded of a model that calls."""

        class Model(nn.Module):
            def forward(self, flash):
                return call(flash)

        flash = module or stand_in()
        with mock.patch.dict(sys.modules, {flash.__name__: flash}):
            model = Model()
            return self.logits(model, lambda i: model(flash), **options).values[0, 0]

    def test_keywords_and_places(self):
        truth = explicit(self.q.transpose(1, 2), self.k.transpose(1, 2), 0.4, causal(30, 40, 10, 7)).numpy()
        calls = (
            lambda f: f.flash_attn_func(self.q, self.k, self.k, 0.0, 0.4, True, (6, -1)),
            lambda f: f.flash_attn_func(self.q, self.k, v=self.k, softmax_scale=0.4, causal=True, window_size=(6, 0)),
            lambda f: f.flash_attn_kvpacked_func(self.q, torch.stack((self.k, self.k), 2), 0.1, 0.4, True, (6, 0), 30.0),
        )
        for call in calls:
            self.close(self.found(call), truth)
        self.close(
            self.found(lambda f: f.flash_attn_func(self.q, self.k, self.k, 0.4, True, None), stand_in_3()),
            explicit(self.q.transpose(1, 2), self.k.transpose(1, 2), 0.4, causal(30, 40, 10)).numpy(),
        )

    def test_packed(self):
        q, k = (self.qkv[:, :, i].transpose(1, 2) for i in (0, 1))
        self.close(
            self.found(lambda f: f.flash_attn_qkvpacked_func(self.qkv, causal=True)),
            explicit(q, k, seen=causal(30, 30)).numpy(),
        )
        self.close(self.found(lambda f: f.flash_attn_qkvpacked_func(self.qkv)), explicit(q, k).numpy())

    def test_sequences_of_their_own_length(self):
        lengths_q, lengths_k = (9, 1, 20), (12, 5, 20)
        q, k = self.q[0], self.k[0, :37]
        of_q, of_k = q.split(lengths_q), k.split(lengths_k)

        def truth(window, kind=None):
            each = []
            for a, b in zip(of_q, of_k):
                seen = causal(len(a), len(b), len(b) - len(a), window)
                each.append(explicit(a[None].transpose(1, 2), b[None].transpose(1, 2), seen=seen))
            return torch.stack(each).amax(0).numpy()

        limits = packed(lengths_q), packed(lengths_k), 20, 20
        self.close(self.found(lambda f: f.flash_attn_varlen_func(q, k, k, *limits, 0.0, None, True)), truth(99))
        self.close(
            self.found(lambda f: f.flash_attn_varlen_func(q, k, k, *limits, causal=True, window_size=(3, 0))), truth(4)
        )
        kv = torch.stack((k, k), 1)
        self.close(self.found(lambda f: f.flash_attn_varlen_kvpacked_func(q, kv, *limits, causal=True)), truth(99))
        qkv = self.qkv[0]
        of_q, of_k = (qkv[:, i].split(lengths_q) for i in (0, 1))
        self.close(
            self.found(lambda f: f.flash_attn_varlen_qkvpacked_func(qkv, packed(lengths_q), 20, causal=True)), truth(99)
        )

    def test_compiled(self):
        """Whole, with no graph more: how many sequences there are, and how long, is known when it runs."""
        flash, limits = stand_in(), packed((9, 0, 1, 20))

        class Model(nn.Module):
            def forward(self, q, k, limits):
                return flash.flash_attn_varlen_func(q, k, k, limits, limits, 20, 20, causal=True)

        q, k = self.q[0], self.k[0, :30]
        sys.modules[flash.__name__] = flash
        self.addCleanup(sys.modules.pop, flash.__name__)
        model = Model()
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        found = self.logits(model, lambda i: compiled(q, k, (limits, packed((30,)))[i]), 2)
        self.close(found.values[0, 0], truth_of_packed(q, k, (9, 1, 20)))
        self.close(found.values[1, 0], truth_of_packed(q, k, (30,)))

    def test_what_is_not_known_is_said(self):
        with self.assertRaisesRegex(NotImplementedError, "window_size"):
            self.found(lambda f: f.flash_attn_func(self.q, self.k, self.k, window_size=(3, 3)), on_error="raise")
        limits = packed((30,)), packed((40,)), 30, 40
        with self.assertRaisesRegex(NotImplementedError, "block_table"):
            table = torch.zeros(1, 1, dtype=torch.int32)
            given = (self.q[0], self.k[0], self.k[0], *limits)
            self.found(lambda f: f.flash_attn_varlen_func(*given, block_table=table), on_error="raise")


def keep(calls):
    """In the place of a function of transformers' attention interface that wants a GPU."""

    def attention(module, query, key, value, attention_mask, **kwargs):
        calls.append((query.detach(), key.detach(), attention_mask, kwargs))
        return query.transpose(1, 2).contiguous(), None

    return attention


@unittest.skipIf(transformers is None, "no transformers here")
class Interface(test_torch.InFolder):
    """Packed sequences and padding, by whatever carries them, in each implementation of transformers' interface."""

    LENGTHS = (3, 1, 2, 2, 1, 3)
    IDS = torch.randint(3, VOCAB, (1, 12), generator=torch.Generator().manual_seed(1))

    def recorded(self, implementation, given, steps=1, compiles=False, **options):
        """What is recorded, [layer, head], and what entered."""
        calls = []
        config = transformers.LlamaConfig(**SMALL, **options)
        model = transformers.LlamaForCausalLM(config).train()
        for name, p in model.named_parameters():
            if "q_proj" in name:
                nn.init.normal_(p)
        for part in (config, model.model.config, *(layer.self_attn.config for layer in model.model.layers)):
            part._attn_implementation = implementation
        mapping = type(transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS)._global_mapping
        patch = {} if implementation in ("eager", "sdpa") else {implementation: keep(calls)}
        with mock.patch.dict(mapping, patch):
            forward = torch.compile(model, backend="eager") if compiles else model
            found = self.logits(model, lambda i: forward(use_cache=False, **given)).values[0]
        return found, calls

    def check(self, calls, found, lengths, window=10**6):
        for (q, k, *_), layer in zip(calls, found):
            q, k = (x.transpose(1, 2).flatten(0, 1) for x in (q, k))
            self.close(layer, truth_of_packed(q, k, lengths, window))
            self.assertGreater(abs(layer - truth_of_packed(q, k, (sum(lengths),))).max(), 1e-3)

    def test_packed(self):
        positions = torch.cat([torch.arange(n) for n in self.LENGTHS])[None]
        limits = packed(self.LENGTHS)
        by_limits = {"cu_seq_lens_q": limits, "cu_seq_lens_k": limits, "max_length_q": 3, "max_length_k": 3}
        for given in (
            {"input_ids": self.IDS, "position_ids": positions},
            {"input_ids": self.IDS, "position_ids": positions + 5},  # it is where they are least that they begin
            {"input_ids": self.IDS, **by_limits},
            {"input_ids": self.IDS.view(2, 6), **by_limits},
        ):
            for compiles in (False, True) if len(given["input_ids"]) == 1 else (False,):
                with self.subTest(list(given), compiles=compiles):
                    found, calls = self.recorded("flash_attention_2", given, compiles=compiles)
                    self.check(calls, found, self.LENGTHS)
        given = {"input_ids": self.IDS, "position_ids": positions}
        for implementation in ("sdpa", "eager", "flex_attention"):  # their masks carry them, those of blocks, too
            with self.subTest(implementation):
                torch.manual_seed(0)
                found, calls = self.recorded(implementation, given)
                torch.manual_seed(0)
                flash, calls = self.recorded("flash_attention_2", given)
                self.check(calls, flash, self.LENGTHS)
                self.close(found[0], flash[0], 1e-4)  # the second layer has another input

    def test_one_sequence(self):
        """Position ids of several rows restart nothing, and neither do those that only grow."""
        for given in (
            {"position_ids": torch.arange(12)[None]},
            {"position_ids": torch.arange(12)[None] + 3},
            {},
        ):
            found, calls = self.recorded("flash_attention_2", {"input_ids": self.IDS, **given})
            for (q, k, *_), layer in zip(calls, found):
                self.close(layer, explicit(q, k, seen=causal(12, 12)).numpy())
        twice = torch.cat((torch.arange(5), torch.arange(7)))[None].expand(2, -1)
        found, calls = self.recorded("flash_attention_2", {"input_ids": self.IDS.expand(2, -1), "position_ids": twice})
        for (q, k, *_), layer in zip(calls, found):
            self.close(layer, explicit(q, k, seen=causal(12, 12)).numpy())

    def test_padding(self):
        """It is neither asked nor seen, on either side, whatever position ids and limits say."""
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[0, 3:], mask[1, :8] = 0, 0
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        given = {"input_ids": self.IDS.expand(2, -1), "attention_mask": mask, "position_ids": positions}
        found, calls = self.recorded("flash_attention_2", given)
        for (q, k, *_), layer in zip(calls, found):
            parts = zip((slice(3), slice(8, 12)), q, k)
            truth = [explicit(a[None, :, own], b[None, :, own], seen=causal(12, 12)[own, own]) for own, a, b in parts]
            self.close(layer, torch.stack(truth).amax(0).numpy())

    def test_images_of_one_module(self):
        """Each image is a call of its own where flash attention has limits: one row, of all of them."""
        kind = getattr(transformers, "Qwen2_5_VLForConditionalGeneration", None)
        if kind is None:
            self.skipTest("no Qwen2.5-VL here")
        from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as of

        small = {"depth": 1, "hidden_size": 32, "intermediate_size": 48, "num_heads": HEADS, "out_hidden_size": 32}
        config = of.Qwen2_5_VLVisionConfig(**small, patch_size=2, window_size=8, fullatt_block_indexes=[0])
        config._attn_implementation = "sdpa"
        model = of.Qwen2_5_VisionTransformerPretrainedModel(config).train()
        for p in model.parameters():
            nn.init.normal_(p, std=0.3)
        grid = torch.tensor([[1, 4, 4], [1, 6, 4], [1, 2, 2]])
        x, entered = torch.randn(int(grid.prod(1).sum()), 3 * 2 * 2 * 2), []
        original = torch.nn.functional.scaled_dot_product_attention

        def spy(q, k, *args, **kwargs):
            entered.append(explicit(q.detach(), k.detach(), kwargs.get("scale")))
            return original(q, k, *args, **kwargs)

        found = self.logits(model, lambda i: model(x, grid_thw=grid))
        with mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", spy), torch.no_grad():
            model.eval()(x, grid_thw=grid)
        self.assertEqual((found.places["layer"], len(entered)), (["blocks.0.attn"], 3))
        self.close(found.values[0, 0], torch.stack(entered).amax(0).numpy())
        tau = float(torch.stack(entered).amax(0).median())
        clip = mt.QKClip(model.train(), tau=tau)
        for _ in range(2):
            model(x, grid_thw=grid)
            clip.step()
        self.close(clip.max_logit[0], np.minimum(found.values[0, 0], tau), 1e-4)


if __name__ == "__main__":
    unittest.main()
