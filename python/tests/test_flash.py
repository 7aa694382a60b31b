"""flash-attn, which wants a GPU, by a stand-in: its functions with the arguments of its versions 2 and 3, in their order."""

import sys
import types
import unittest
from unittest import mock

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

import test_torch
from test_torch import causal, explicit

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

    def test_what_is_not_known_is_said(self):
        with self.assertRaisesRegex(NotImplementedError, "window_size"):
            self.found(lambda f: f.flash_attn_func(self.q, self.k, self.k, window_size=(3, 3)), on_error="raise")
        limits = packed((30,)), packed((40,)), 30, 40
        with self.assertRaisesRegex(NotImplementedError, "block_table"):
            table = torch.zeros(1, 1, dtype=torch.int32)
            given = (self.q[0], self.k[0], self.k[0], *limits)
            self.found(lambda f: f.flash_attn_varlen_func(*given, block_table=table), on_error="raise")


if __name__ == "__main__":
    unittest.main()
