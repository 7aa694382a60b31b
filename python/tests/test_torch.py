"""A model's attention, watched and clipped, against explicit softmaxes."""

import copy
import math
import os
import subprocess
import types
import unittest
from unittest import mock

import numpy as np

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

try:
    import transformers
except ImportError:
    transformers = None

import in_folder
import maxlogit
import maxlogit.torch as mt
from maxlogit.torch import _attention, _layout, _logits
from maxlogit.torch._probe import Part, Source
from ranks import run_as_ranks

torch.set_num_threads(2)
VOCAB, WIDTH, HEADS, T = 50, 32, 4, 24


def explicit(q, k, scale=None, seen=None, bias=None):
    """The definition, in double: [heads]."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    s = q.double() @ k.double().transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s if bias is None else s + bias
    return (s if seen is None else s.masked_fill(~seen, -math.inf)).amax((0, 2, 3))


def causal(queries, keys, offset=0, window=10**6):
    own = torch.arange(queries)[:, None] + offset
    key = torch.arange(keys)
    return (key <= own) & (key > own - window)


class Logits(unittest.TestCase):
    def test_masks(self):
        torch.manual_seed(1)
        for chunk in (1 << 19, 300):
            q, k = torch.randn(3, 6, 40, 8), torch.randn(3, 2, 50, 8)
            bias, keep = torch.randn(3, 6, 40, 50), torch.rand(3, 1, 40, 50) > 0.5
            infinite = torch.zeros(1, 1, 40, 50).masked_fill(torch.rand(40, 50) > 0.5, torch.finfo(torch.float32).min)
            padding = torch.rand(3, 1, 1, 50) > 0.3
            cases = [
                (mt.Mask(), {}),
                (mt.Mask(0), {"seen": causal(40, 50)}),
                (mt.Mask(10), {"seen": causal(40, 50, 10)}),
                (mt.Mask(10, 7), {"seen": causal(40, 50, 10, 7)}),
                (mt.Mask(tensor=keep), {"seen": keep}),
                (mt.Mask(tensor=padding), {"seen": padding}),
                (mt.Mask(tensor=bias), {"bias": bias}),
                (mt.Mask(tensor=infinite), {"seen": infinite == 0}),
                (mt.Mask(10, 7, padding), {"seen": causal(40, 50, 10, 7) & padding}),
            ]
            with mock.patch.dict(_logits.CHUNK, cpu=chunk):
                for mask, truth in cases:
                    found = mt.max_logits(q, k, scale=0.3, mask=mask)
                    torch.testing.assert_close(found.double(), explicit(q, k, 0.3, **truth), rtol=1e-5, atol=1e-5)
                    both = mt.max_logits(q, k, scale=0.3, mask=mask, absolute=True)
                    torch.testing.assert_close(both[0], found)
                    lowest = -explicit(-q, k, 0.3, truth.get("seen"), None if "bias" not in truth else -bias)
                    torch.testing.assert_close(both[1].double(), torch.maximum(found, -lowest), rtol=1e-5, atol=1e-5)

    def test_nan_is_above_all(self):
        q = torch.randn(2, 3, 5, 4)
        q[1, 2, 3, 0] = math.nan
        self.assertEqual(mt.max_logits(q, q).isnan().tolist(), [False, False, True])

    def test_narrow_numbers_as_they_enter(self):
        q, k = torch.randn(2, 4, 30, 16).bfloat16(), torch.randn(2, 4, 30, 16).bfloat16()
        torch.testing.assert_close(mt.max_logits(q, k).double(), explicit(q, k), rtol=1e-6, atol=1e-6)


# --- models -------------------------------------------------------------------------------------------------


class NanoAttention(nn.Module):
    """As nanoGPT writes it."""

    def __init__(self, by_hand=False):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.by_hand = by_hand

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, -1))
        if self.by_hand:
            mt.see(q, k, causal=True)
            s = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~causal(x.shape[1], x.shape[1]), -math.inf)
            y = F.softmax(s, -1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Nano(nn.Module):
    def __init__(self, checkpoint=None, by_hand=False):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList([NanoAttention(by_hand) for _ in range(2)])
        self.head = nn.Linear(WIDTH, VOCAB)
        self.checkpoint = checkpoint
        with torch.no_grad():
            for block in self.blocks:
                block.c_attn.weight.mul_(6)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            if self.checkpoint is None:
                x = x + block(x)
            else:
                x = x + torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.checkpoint)
        return self.head(x)


def batch(seed=0, rows=3):
    return torch.randint(VOCAB, (rows, T), generator=torch.Generator().manual_seed(seed))


def truth_of_nano(model, ids):
    """[layer, head], from the definition."""
    found = []
    with torch.no_grad():
        x = model.embed(ids)
        for block in model.blocks:
            q, k, _ = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in block.c_attn(x).split(WIDTH, -1))
            found.append(explicit(q, k, seen=causal(T, T)))
            x = x + block(x)
    return torch.stack(found).numpy()


class InFolder(in_folder.InFolder):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def logits(self, model, step, steps=1, **options):
        """What is recorded of `steps` rows, `step(i)` before each; the run."""
        with maxlogit.Recorder(self.path, mode="replace") as recorder:
            watched = mt.watch(model, recorder, **{"spectra_every": 0, **options})
            for i in range(steps):
                step(i)
                recorder.log(i, loss=1.0)
            watched.close()
        return maxlogit.open(self.path)["attn/max_logit"]

    def close(self, found, truth, tolerance=1e-5):
        np.testing.assert_allclose(found, truth, rtol=tolerance, atol=tolerance)


class Watched(InFolder):
    def test_nanogpt(self):
        for by_hand in (False, True):
            model, ids = Nano(by_hand=by_hand), batch()
            series = self.logits(model, lambda i, m=model, x=ids: m(x).sum().backward())
            self.close(series.values[0], truth_of_nano(model, ids))
            self.assertEqual(series.places["layer"], ["blocks.0", "blocks.1"])

    def test_accumulation_and_validation(self):
        model = Nano()

        def step(i):
            model(batch(1)).sum().backward()
            model(batch(2)).sum().backward()
            model.eval()
            with torch.no_grad():
                model.embed.weight.mul_(10)
                model(batch(3))
                model.embed.weight.div_(10)
            model.train()

        found = self.logits(model, step).values[0]
        self.close(found, np.maximum(truth_of_nano(model, batch(1)), truth_of_nano(model, batch(2))))

    def test_every(self):
        model = Nano()
        with mock.patch.object(_attention, "max_logits", wraps=_logits.max_logits) as counted:
            values = self.logits(model, lambda i: model(batch(i)), steps=7, every=3).values
            self.assertEqual(counted.call_count, 4 * 2)  # at step 1, too: how far apart rows are is not known before
        self.assertEqual(np.isnan(values).all((1, 2)).tolist(), [False, True, True, False, True, True, False])
        self.close(values[3], truth_of_nano(model, batch(3)))

    def test_seldom_rows_have_their_maxima(self):
        model = Nano()
        with maxlogit.Recorder(self.path) as recorder:
            mt.watch(model, recorder, every=3)
            for step in (0, 7, 14, 21, 28):
                model(batch(step))
                recorder.log(step, loss=1)
        missing = np.isnan(maxlogit.open(self.path)["attn/max_logit"].values).all((1, 2))
        self.assertFalse(missing.any())

    def test_checkpointing_counts_once(self):
        for reentrant in (False, True):
            model = Nano(checkpoint=reentrant)
            with mock.patch.object(_attention, "max_logits", wraps=_logits.max_logits) as counted:
                values = self.logits(model, lambda i, m=model: m(batch(4)).sum().backward()).values
            self.assertEqual(counted.call_count, 2)
            self.close(values[0], truth_of_nano(model, batch(4)))

    def test_autocast(self):
        model, ids, seen = Nano(), batch(), []
        original = F.scaled_dot_product_attention

        def keep(q, k, *args, **kwargs):
            seen.append(explicit(q.detach(), k.detach(), seen=causal(T, T)))
            return original(q, k, *args, **kwargs)

        def step(i):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                model(ids)

        values = self.logits(model, step).values[0]
        with mock.patch.object(F, "scaled_dot_product_attention", keep):
            model.eval()
            step(0)
        self.close(values, torch.stack(seen).numpy())
        self.assertGreater(np.abs(values - truth_of_nano(model.train(), ids)).max(), 1e-4)

    def test_compiled(self):
        for fullgraph in (False, True):
            torch._dynamo.reset()
            model = Nano()
            compiled = torch.compile(model, backend="aot_eager", fullgraph=fullgraph)
            series = self.logits(compiled, lambda i, m=compiled: m(batch(i)).sum().backward(), steps=4, every=2)
            for i in (0, 2):
                self.close(series.values[i], truth_of_nano(model, batch(i)))
            self.assertTrue(np.isnan(series.values[[1, 3]]).all())
            self.assertEqual(series.places["layer"], ["blocks.0", "blocks.1"])

    def test_multihead_attention(self):
        for need_weights in (True, False):
            for first in (True, False):
                module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=first)
                x = torch.randn(3, T, WIDTH)
                hidden = torch.zeros(3, T, dtype=torch.bool)
                hidden[:, 20:] = True
                hides = ~causal(T, T)

                def step(i, module=module, x=x, first=first, need_weights=need_weights, hidden=hidden, hides=hides):
                    y = x if first else x.transpose(0, 1)
                    module(y, y, y, need_weights=need_weights, attn_mask=hides, key_padding_mask=hidden)

                model = nn.Sequential(module)
                found = self.logits(model, lambda i, s=step: s(i)).values[0, 0]
                q, k = (
                    F.linear(x, module.in_proj_weight[n : n + WIDTH]).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                    for n in (0, WIDTH)
                )
                self.close(found, explicit(q, k, seen=causal(T, T) & ~hidden[:, None, None]).detach().numpy())

    def test_flex_attention(self):
        from torch.nn.attention import flex_attention as flex

        def see(b, h, q, k):
            return (q >= k) & (k > q - 9)

        def mod(score, b, h, q, k):
            return torch.where((q - k) % 3 == 0, 20 * torch.tanh(score / 20), -math.inf)

        class Model(nn.Module):
            def forward(self, q, k):
                return flex.flex_attention(q, k, k, score_mod=self.mod, block_mask=self.mask, enable_gqa=True)

        q, k = torch.randn(2, HEADS, 128, 16), torch.randn(2, 2, 128, 16)
        model, thirds = Model(), (torch.arange(128)[:, None] - torch.arange(128)) % 3 == 0
        for mask, score_mod, seen in (
            (None, None, None),
            (flex.create_block_mask(see, None, None, 128, 128, device="cpu"), None, causal(128, 128, 0, 9)),
            (flex.create_block_mask(see, None, None, 128, 128, device="cpu"), mod, causal(128, 128, 0, 9) & thirds),
        ):
            model.mask, model.mod = mask, score_mod
            with mock.patch.object(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, create=True), torch.no_grad():
                found = self.logits(model, lambda i: model(q, k)).values[0, 0]
            self.close(found, explicit(q, k, seen=seen).numpy())

    def test_maxima_of_flex_attention_itself(self):
        """By a stand-in: PyTorch refuses them on a processor."""
        from torch.nn.attention import flex_attention as flex

        if not hasattr(flex, "AuxRequest"):
            self.skipTest("this PyTorch has no auxiliary outputs of flex_attention")
        q, k = torch.randn(2, HEADS, 128, 16), torch.randn(2, 2, 128, 16)
        asked, seen = [], causal(128, 128, 0, 9)

        def flex_attention(
            query,
            key,
            value,
            score_mod=None,
            block_mask=None,
            scale=None,
            enable_gqa=False,
            return_lse=False,
            kernel_options=None,
            *,
            return_aux=None,
        ):
            asked.append(return_aux)
            s = query @ key.repeat_interleave(2, 1).transpose(-1, -2) * (16**-0.5 if scale is None else scale)
            s = s.masked_fill(~seen, -math.inf)
            out, lse = query + 1, s.logsumexp(-1)
            largest = s.masked_fill(s.isnan(), -math.inf).amax(-1)  # as a kernel's comparison does
            if return_aux is not None:
                return out, flex.AuxOutput(lse if return_aux.lse else None, largest if return_aux.max_scores else None)
            return (out, lse) if return_lse else out

        class Model(nn.Module):
            def forward(self, q, k, **more):
                self.said = flex.flex_attention(q, k, k, None, block_mask, 0.3, True, **more)

        block_mask = flex.create_block_mask(lambda b, h, i, j: (i >= j) & (j > i - 9), None, None, 128, 128, device="cpu")
        both = flex.AuxRequest(lse=True, max_scores=True)
        own = mock.patch.object(flex, "flex_attention", flex_attention)
        with own, mock.patch.object(_attention, "max_logits", side_effect=AssertionError("computed again")):
            for more in ({}, {"return_lse": True}, {"return_aux": flex.AuxRequest(max_scores=True)}, {"return_aux": both}):
                model = Model()
                _attention.attention_of(model)  # replaces the function
                with mock.patch.object(_attention, "_gives_maxima", return_value=True):
                    found = self.logits(model, lambda i, m=model, more=more: m(q, k, **more)).values[0, 0]
                self.close(found, explicit(q, k, 0.3, seen).numpy())
                self.assertEqual(asked[-1], both)
                true = flex_attention(q, k, k, None, None, 0.3, **more)
                said, true = (torch.utils._pytree.tree_flatten(x) for x in (model.said, true))
                self.assertEqual(said[1], true[1])
                torch.testing.assert_close(said[0], true[0])
            broken = q.clone()
            broken[1, 2, 5] = math.nan
            with mock.patch.object(_attention, "_gives_maxima", return_value=True):
                found = self.logits(model, lambda i: model(broken, k)).values[0, 0]
            self.assertEqual(np.isnan(found).tolist(), [False, False, True, False])
        for device, wanted in (("cpu", False), ("meta", True)):
            attention = _attention.attention_of(model)
            attention.readers[:] = [_attention.Reader()]
            at = _attention.Running(model._maxlogit_place, None, 0)
            self.assertEqual(_attention._gives_maxima(torch.empty(1, device=device), at), wanted)
            attention.readers[:] = [_attention.Reader(absolute=True)]
            self.assertFalse(_attention._gives_maxima(torch.empty(1, device=device), at))

    def test_flex_attention_that_was_compiled_before(self):
        """As most write it: flex_attention = torch.compile(flex_attention), where a module is imported."""
        from torch.nn.attention import flex_attention as flex

        raw = getattr(flex.flex_attention, "__wrapped__", flex.flex_attention)
        q = torch.randn(1, HEADS, 128, 16)

        class Model(nn.Module):
            def forward(self, q):
                return compiled_flex(q, q, q)

        model = Model()
        with mock.patch.dict(globals(), compiled_flex=torch.compile(raw, backend="eager")), torch.no_grad():
            found = self.logits(model, lambda i: model(q)).values[0, 0]
        self.close(found, explicit(q, q).numpy())

    def test_copies_are_not_the_model(self):
        """A teacher, a moving average, a reference; also one that is read from a file."""
        model, copied = Nano(), []

        def step(i):
            if not copied:
                torch.save(model, self.path.with_suffix(".pt"))
                copied.extend((copy.deepcopy(model), torch.load(self.path.with_suffix(".pt"), weights_only=False)))
            for other in copied:
                with torch.no_grad():
                    other.embed.weight.mul_(100)
                other(batch(1))
            model(batch(1))

        self.close(self.logits(model, step).values[0], truth_of_nano(model, batch(1)))

    def test_one_for_what_wraps_a_model(self):
        model = Nano()
        with mock.patch.object(nn.parallel, "DistributedDataParallel", nn.DataParallel):
            found = {id(_attention.attention_of(m)) for m in (nn.DataParallel(model), torch.compile(model), model)}
        self.assertEqual(len(found), 1)

    def test_nothing_found_is_said(self):
        with maxlogit.Recorder(self.path) as recorder:
            model = nn.Sequential(nn.Linear(3, 3))
            with mt.watch(model, recorder), self.assertWarnsRegex(UserWarning, "no attention was seen"):
                recorder.log(0, loss=1)
            mt.watch(model, recorder, on_error="raise")
            with self.assertRaisesRegex(RuntimeError, "no attention was seen"):
                recorder.log(1, loss=1)

    def test_spectra(self):
        model = Nano()
        self.logits(model, lambda i: model(batch(i)), steps=5, spectra_every=4)
        run = maxlogit.open(self.path)
        norm = run["head_qk/spectral_norm"]
        self.assertEqual(norm.steps.tolist(), [0, 4])
        for layer, block in enumerate(model.blocks):
            w = block.c_attn.weight.detach().double().numpy()
            for h in range(HEADS):
                q, k = (w[n + 8 * h : n + 8 * h + 8] for n in (0, WIDTH))
                self.close(norm.values[0, layer, h], np.linalg.norm(q.T @ k, 2))
                self.close(run["head_k/frobenius_norm"].values[0, layer, h], np.linalg.norm(k))

    def test_blocks_of_either_dimension(self):
        w = torch.arange(24.0).view(4, 6)
        for dim, outputs in ((0, w), (1, w.T)):
            rows = _layout.Rows("q", nn.Parameter(w), None, dim, [(0, 2), (2, 2)])
            for block, first in zip(_layout.blocks(rows), (0, 2)):
                np.testing.assert_array_equal(block, outputs[first : first + 2].numpy())

    def test_one_key_is_bigcode_s_alone(self):
        """Of queries, keys, values one after the other keys begin behind the queries, whatever a module calls itself."""
        odd = nn.Module()
        odd.c_attn, odd.multi_query = nn.Linear(16, 48), False
        self.assertEqual([r.parts for r in _layout.layout_of("odd", odd, 2, 8)], [[(0, 8), (8, 8)], [(16, 8), (24, 8)]])

    def test_unknown_split_names_the_module(self):
        model = Nano()
        for block in model.blocks:
            block.Wqkv = block.c_attn
            block.__class__ = type("Odd", (NanoAttention,), {})
            block.forward = types.MethodType(
                lambda self, x: (
                    F.scaled_dot_product_attention(
                        *(p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in self.Wqkv(x).split(WIDTH, -1))
                    )
                    .transpose(1, 2)
                    .flatten(2)
                ),
                block,
            )
            del block.c_attn
        with self.assertRaisesRegex(mt.UnknownLayout, r"blocks\.0 \(Odd\).*Wqkv.*layouts="):
            self.logits(model, lambda i: model(batch()), spectra_every=1, on_error="raise")
        with self.assertWarnsRegex(UserWarning, "no spectra of blocks.0.*spectra_every=0"):
            found = self.logits(model, lambda i: model(batch()), steps=2, spectra_every=1)
        self.assertEqual(found.values.shape, (2, 2, HEADS))
        self.logits(model, lambda i: model(batch()), spectra_every=1, layouts={"blocks.*": mt.Fused("Wqkv")})
        self.assertIn("head_q/spectral_norm", maxlogit.open(self.path))


# --- transformers -------------------------------------------------------------------------------------------

SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


BIGCODE = {
    "vocab_size": VOCAB,
    "n_embd": WIDTH,
    "n_layer": 2,
    "n_head": HEADS,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def hugging_face(name, implementation):
    t = transformers
    kinds = {
        "llama": lambda: (t.LlamaForCausalLM, t.LlamaConfig(**SMALL)),
        "qwen3": lambda: (t.Qwen3ForCausalLM, t.Qwen3Config(**SMALL, head_dim=8)),
        "gemma2": lambda: (
            t.Gemma2ForCausalLM,
            t.Gemma2Config(**SMALL, head_dim=8, sliding_window=7, query_pre_attn_scalar=5, attn_logit_softcapping=50.0),
        ),
        "gpt2": lambda: (
            t.GPT2LMHeadModel,
            t.GPT2Config(
                vocab_size=VOCAB,
                n_embd=WIDTH,
                n_layer=2,
                n_head=HEADS,
                n_positions=64,
                bos_token_id=1,
                eos_token_id=2,
                scale_attn_by_inverse_layer_idx=True,
            ),
        ),
        "bigcode": lambda: (t.GPTBigCodeForCausalLM, t.GPTBigCodeConfig(**BIGCODE, multi_query=True)),
        "bigcode_heads": lambda: (t.GPTBigCodeForCausalLM, t.GPTBigCodeConfig(**BIGCODE, multi_query=False)),
        "llama4": lambda: (
            t.Llama4ForCausalLM,
            t.Llama4TextConfig(**SMALL, head_dim=8, num_local_experts=2, intermediate_size_mlp=16, use_qk_norm=True),
        ),
        "deepseek_v3": lambda: (
            t.DeepseekV3ForCausalLM,
            t.DeepseekV3Config(
                **{**SMALL, "num_key_value_heads": HEADS},
                q_lora_rank=12,
                kv_lora_rank=10,
                qk_nope_head_dim=8,
                qk_rope_head_dim=4,
                v_head_dim=6,
                n_routed_experts=4,
                num_experts_per_tok=2,
                n_group=1,
                topk_group=1,
                moe_intermediate_size=16,
                first_k_dense_replace=1,
                n_shared_experts=1,
            ),
        ),
    }
    kind, config = kinds[name]()
    config._attn_implementation = implementation
    torch.manual_seed(5)
    model = kind(config).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    with torch.no_grad():  # large enough that something is to be clipped
        for key, p in model.named_parameters():
            if any(part in key for part in ("q_proj", "k_proj", "c_attn", "q_b_proj", "kv_b_proj", "kv_a_proj")):
                p.normal_(std=0.5)
    return model


NAMES = ("llama", "qwen3", "gemma2", "gpt2", "deepseek_v3")
IMPLEMENTATIONS = {name: ("eager", "sdpa") for name in (*NAMES, "bigcode", "bigcode_heads")} | {"gemma2": ("eager",)}


@unittest.skipIf(transformers is None, "no transformers here")
class HuggingFace(InFolder):
    def test_against_softmax(self):
        for name in NAMES:
            found = {}
            for implementation in IMPLEMENTATIONS[name]:
                model, ids, entered = hugging_face(name, implementation), batch(6), []
                attention_mask = torch.ones_like(ids)
                attention_mask[1, 17:] = 0
                original = F.softmax

                def keep(s, *args, entered=entered, original=original, **kwargs):
                    if s.dim() == 4:
                        entered.append(s.detach().double().amax((0, 2, 3)))
                    with torch._C.DisableTorchFunction():  # softmax asks a mode, which would call this once more
                        return original(s, *args, **kwargs)

                def step(i, model=model, ids=ids, attention_mask=attention_mask):
                    model(input_ids=ids, attention_mask=attention_mask, use_cache=False)

                with mock.patch.object(nn.functional, "softmax", keep):
                    series = self.logits(model, step, spectra_every=1)
                found[implementation] = series.values[0]
                if implementation == "eager":
                    truth = torch.stack(entered).numpy()
                    cap = getattr(model.config, "attn_logit_softcapping", None)
                    truth = cap * np.arctanh(truth / cap) if cap else truth
                    self.close(series.values[0], truth, 1e-4)
                    self.assertEqual(len(series.places["layer"]), 2)
                    self.assertRegex(series.places["layer"][1], r"\.1\.(self_)?attn$")
            self.close(found[IMPLEMENTATIONS[name][-1]], found["eager"], 1e-4)

    def test_clip_scales_logits(self):
        """Layer 0 sees the same input again: logits above tau are at tau, others as they were."""
        rules = [("llama", {"gqa": "q_only"}), ("llama", {"gqa": "compensated"}), ("gemma2", {}), ("gpt2", {})]
        rules += [("deepseek_v3", {}), ("bigcode", {}), ("bigcode_heads", {})]
        for name, options in rules:
            model, ids = hugging_face(name, IMPLEMENTATIONS[name][-1]), batch(7)
            reader = _attention.Reader()
            attention = _attention.attention_of(model)
            attention.readers.append(reader)
            model(input_ids=ids, use_cache=False)
            before = next(iter(reader.take().values())).double()
            tau = float(before.sort().values[1:3].mean())
            clip = mt.QKClip(model, tau=tau, alpha=0.3, **options)
            model(input_ids=ids, use_cache=False)
            reader.take()
            self.assertGreater(clip.step(), 0)
            gamma = clip.gamma[0]
            self.assertTrue((gamma == 1).any() and (gamma < 1).any())
            model(input_ids=ids, use_cache=False)
            after = next(iter(reader.take().values())).double()
            torch.testing.assert_close(after, before.clamp(max=tau), rtol=1e-4, atol=1e-4)

    def test_norms_behind_projections_are_said(self):
        for name in ("qwen3", "llama4"):
            model = hugging_face(name, "sdpa")
            clip = mt.QKClip(model, tau=1)
            model(input_ids=batch(), use_cache=False)
            with self.assertRaisesRegex(ValueError, r"model\.layers\.0\.self_attn .*not in proportion"):
                clip.step()


compiled_flex = None  # of a test


class Clip(InFolder):
    def test_records_and_state(self):
        model = Nano()
        with maxlogit.Recorder(self.path) as recorder:
            clip = mt.QKClip(model, tau=3, recorder=recorder)
            mt.watch(model, recorder)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(4):
                model(batch(step)).sum().backward()
                optimizer.step()
                clip.step()
                recorder.log(step, loss=1)
        run = maxlogit.open(self.path)
        gamma, logits = run["qk_clip/gamma"].values, run["attn/max_logit"].values
        np.testing.assert_allclose(gamma, np.where(logits > 3, 3 / logits, 1), rtol=1e-6)
        self.assertEqual(sum(e.kind == "clip" for e in run.events), (gamma < 1).sum())
        self.assertEqual((clip.steps, clip.clips), (4, (gamma < 1).sum()))
        other = mt.QKClip(model, tau=3)
        other.load_state_dict(clip.state_dict())
        self.assertEqual(other.state_dict(), clip.state_dict())
        with self.assertRaisesRegex(ValueError, "tau"):
            mt.QKClip(model, tau=4).load_state_dict(clip.state_dict())

    def test_a_row_without_a_clip_tells_none(self):
        model = Nano()
        with maxlogit.Recorder(self.path) as recorder:
            clip = mt.QKClip(model, tau=3, recorder=recorder)
            for step in range(4):
                model(batch(step))
                if step % 2 == 0:
                    clip.step()
                recorder.log(step, loss=1)
        run = maxlogit.open(self.path)
        self.assertEqual(np.isnan(run["qk_clip/gamma"].values).all((1, 2)).tolist(), [False, True, False, True])
        self.assertTrue(all(e.step % 2 == 0 for e in run.events if e.kind == "clip"))

    def test_several_clips_in_one_row(self):
        """The row has the least factors, and so have trackers; the clip keeps those of its last step."""
        model = Nano()
        told = []

        class Tracker:
            def log(self, values, step):
                told.append(values)

        with maxlogit.Recorder(self.path, forward=Tracker()) as recorder:
            clip = mt.QKClip(model, tau=3, recorder=recorder)
            least = np.inf
            for step in range(3):
                with torch.no_grad():
                    model(batch(step))
                clip.step()
                least = np.minimum(least, clip.gamma)
            recorder.log(0, loss=1)
            self.assertLess(least.min(), clip.gamma.min())
            self.assertEqual(clip.gamma.shape, least.shape)
            recorder.log(1, loss=1)
        run = maxlogit.open(self.path)
        np.testing.assert_allclose(run["qk_clip/gamma"].values[0], least)
        self.assertEqual(len(run.events), (least < 1).sum())
        self.assertAlmostEqual(told[0]["qk_clip/gamma"], least.min(), 6)
        self.assertNotIn("qk_clip/gamma", told[1])

    def test_bias_momentum_absolute(self):
        model = Nano()
        optimizer = torch.optim.SGD(model.blocks.parameters(), lr=0.0, momentum=0.9)
        other = torch.optim.SGD(model.embed.parameters(), lr=0.0, momentum=0.9)
        clip = mt.QKClip(model, tau=2, maximum="absolute", optimizer=[other, optimizer])
        model(batch(8)).sum().backward()
        optimizer.step()
        part = model.blocks[0].c_attn
        before = [x.detach().clone() for x in (part.weight, part.bias, optimizer.state[part.weight]["momentum_buffer"])]
        clip.step()
        after = [part.weight, part.bias, optimizer.state[part.weight]["momentum_buffer"]]
        for x, y in zip(before, after):
            for h in range(HEADS):
                for first in (8 * h, WIDTH + 8 * h):
                    torch.testing.assert_close(y[first : first + 8], x[first : first + 8] * math.sqrt(clip.gamma[0, h]))
            torch.testing.assert_close(y[2 * WIDTH :], x[2 * WIDTH :])
        self.assertTrue((clip.gamma[0] < 1).any())

    def test_wrong_options(self):
        for message, options in {
            "q_only": {"gqa": "x"},
            "exact": {"mla": "x"},
            "tau": {"tau": 0},
            "signed": {"maximum": "x"},
        }.items():
            with self.assertRaisesRegex(ValueError, message):
                mt.QKClip(Nano(), **options)
        with self.assertRaisesRegex(RuntimeError, "no attention was seen"):
            mt.QKClip(Nano()).step()


@unittest.skipUnless(os.environ.get("MAXLOGIT_PROGRAM"), "MAXLOGIT_PROGRAM says no program")
class OwnRun(InFolder):
    """The weights that `maxlogit run` has after its clip, from those before it and the same max logits."""

    def test_same_weights(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("no h5py here")

        class Attention(nn.Module):
            def __init__(self, tensors):
                super().__init__()
                for name, weight in tensors.items():
                    module = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
                    module.weight = nn.Parameter(torch.from_numpy(weight))
                    self.add_module(name, module)

        for attention, rule in (
            ("mha", "scope=layer"),
            ("gqa", "gqa=q_only"),
            ("gqa", "gqa=group_max"),
            ("gqa", "gqa=own_q_min_k"),
            ("gqa", "gqa=compensated"),
            ("mla", "mla=exact"),
            ("mla", "mla=kr_layer"),
            ("mla", "mla=kr_head"),
        ):
            tau = 3 if attention == "gqa" else 1.9
            settings = [
                "optimizer=none",
                "stabilizers=qk_clip",
                "model.layers=2",
                "model.width=32",
                "model.heads=4",
                "model.head_dim=8",
                "model.context=16",
                "train.batch=2",
                "train.steps=1",
                "train.weight_decay=0",
                "checkpoint.every=1",
                "checkpoint.keep=all",
                "record.overwrite=1",
                f"model.attention={attention}",
                f"qk_clip.{rule}",
                f"qk_clip.tau={tau}",
                "qk_clip.alpha=0.3",
                f"record.path={self.path}",
                *(["model.kv_heads=2"] * (attention == "gqa")),
            ]
            subprocess.run([os.environ["MAXLOGIT_PROGRAM"], "run", "-q", *settings], check=True, capture_output=True)
            run = maxlogit.open(self.path)
            before, after = (h5py.File(self.path.with_suffix(".ckpt") / f"step-{n:08d}.h5") for n in range(2))
            with before, after:
                model = nn.Module()
                model.layers = nn.ModuleList()
                kv = 2 if attention == "gqa" else 4
                names = ("w_qc", "w_qr", "w_kc", "w_kr") if attention == "mla" else ("w_q", "w_k")
                for layer in range(2):
                    model.layers.append(Attention({n: before[f"params/blocks.{layer}.attn.{n}"][:] for n in names}))

                def latent(module, heads, size):
                    rope = module.w_qr.weight.shape[0] // heads
                    parts = {"q": ("w_qc", 8, heads), "q_rope": ("w_qr", rope, heads)}
                    parts |= {"k": ("w_kc", 8, heads), "k_rope": ("w_kr", rope, 1)}
                    return [
                        mt.Rows(role, getattr(module, name).weight, None, 0, [(i * n, n) for i in range(count)])
                        for role, (name, n, count) in parts.items()
                    ]

                key, value = rule.split("=")
                layout = latent if attention == "mla" else mt.Separate("w_q", "w_k")
                clip = mt.QKClip(model, tau=tau, alpha=0.3, **{key: value})
                for layer in range(2):
                    name = f"layers.{layer}"
                    roles = {}
                    for r in layout(model.layers[layer], 4, 8):
                        path = f"{name}.{projection_of(model.layers[layer], r.weight)}.weight"
                        roles[r.role] = [(Part(path, r.dim, (*range(a, a + n),)),) for a, n in r.parts]
                    clip._states[name] = Source(4, kv, roles)
                    clip._attention.shape[name] = (4, kv, 8)
                    clip._reader.merge(name, torch.from_numpy(run["attn/max_logit"].values[0, layer].astype(np.float32)))
                self.assertGreater(clip.step(), 0)
                np.testing.assert_array_equal(clip.gamma, run["qk_clip/gamma"].values[0].astype(np.float32))
                for layer, module in enumerate(model.layers):
                    for name, projection in module.named_children():
                        place = f"params/blocks.{layer}.attn.{name}"
                        np.testing.assert_array_equal(projection.weight.detach().numpy(), after[place][:])


def projection_of(module, weight):
    return next(name for name, projection in module.named_children() if projection.weight is weight)


class Grouped(nn.Module):
    """Projections of their own, two heads a key; as many heads as there are outputs here."""

    def __init__(self):
        super().__init__()
        for name, outputs in (("q_proj", WIDTH), ("k_proj", WIDTH // 2), ("v_proj", WIDTH // 2), ("o_proj", WIDTH)):
            self.add_module(name, nn.Linear(WIDTH, outputs))
        with torch.no_grad():
            self.q_proj.weight.mul_(6)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class GroupedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.blocks = nn.ModuleList([Grouped() for _ in range(2)])

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def of_ranks(path, how, rank=0, ranks=1):
    """Two steps of a model of which each rank has a part of the batch, or two have it and each a part of the heads; the
    rows, and a weight after its clip."""
    torch.manual_seed(0)
    heads = how in ("tp", "tp and fsdp", "one of heads")
    each = 2 if how.startswith("tp") else 1
    model, ids = GroupedModel() if heads else Nano(), batch(9, rows=4).chunk(ranks // each)[rank // each]
    if how.startswith("tp"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("data", "tensor"))
        plan = {f"{name}_proj": RowwiseParallel() if name == "o" else ColwiseParallel() for name in "qkvo"}
        for block in model.blocks:
            parallelize_module(block, mesh["tensor"], plan)
        if how == "tp and fsdp":
            from torch.distributed.fsdp import fully_shard

            for part in (*model.blocks, model):
                fully_shard(part, mesh=mesh["data"])
    if how == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    if how == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        for part in (*model.blocks, model):
            fully_shard(part, mesh=init_device_mesh("cpu", (ranks,)))
    with maxlogit.Recorder(path, rank=rank) as recorder:
        clip = mt.QKClip(model, tau=3, recorder=recorder)
        mt.watch(model, recorder, spectra_every=1)
        for step in range(2):
            model(ids).sum().backward()
            clip.step()
            recorder.log(step, loss=1.0)
    block = getattr(model, "module", model).blocks[0]
    weight = block.q_proj.weight if heads else block.c_attn.weight
    weight = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
    if rank == 0:
        np.save(path + ".npy", weight.detach().numpy())


# torch 2.6's fully_shard asks of a CPU's stream what it has only from 2.7 on
IS_SHARDED = hasattr(torch.cpu.Stream, "record_event")
WAYS = ("ddp", "fsdp", "tp", "tp and fsdp") if IS_SHARDED else ("ddp", "tp")


def in_all_ways(rank, ranks, path):
    for how in WAYS:
        of_ranks(f"{path}{how}.h5", how, rank, ranks)


@unittest.skipUnless(torch.distributed.is_available(), "no torch.distributed here")
class Ranks(InFolder):
    """Four processes have the rows that one has with all of the batch, and its weights after the clip."""

    def test_ddp_and_fsdp_and_tensor_parallel(self):
        run_as_ranks(self, 4, in_all_ways, str(self.path))
        for how in ("one", "one of heads"):
            of_ranks(f"{self.path}{how}.h5", how)
        found = {}
        for how in ("one", "one of heads", *WAYS):
            path = f"{self.path}{how}.h5"
            run = maxlogit.open(path)
            found[how] = {n: run[n].values for n in ("attn/max_logit", "qk_clip/gamma", "head_q/spectral_norm")}
            found[how]["weight"] = np.load(path + ".npy")
            self.assertEqual(run["attn/max_logit"].places["layer"], ["blocks.0", "blocks.1"])
        for one in ("one", "one of heads"):
            self.assertTrue((found[one]["qk_clip/gamma"] < 1).any() and (found[one]["qk_clip/gamma"] == 1).any())
        for how in WAYS:
            for name, values in found["one of heads" if "tp" in how else "one"].items():
                np.testing.assert_allclose(found[how][name], values, rtol=1e-5, err_msg=f"{how} {name}")
        if not IS_SHARDED:
            self.skipTest(f"torch {torch.__version__} has no fully_shard on a CPU (2.7 has): ddp and tp alone were tried")


if __name__ == "__main__":
    unittest.main()
