"""Models of transformers, timm, diffusers and peft as they are: README's two lines record them, and a clip gives S gamma or
a reason."""

import copy
import importlib.util
import unittest
import warnings

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.overrides import TorchFunctionMode
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

import maxlogit
import maxlogit.torch as mt
from in_folder import InFolder
from maxlogit.torch import _attention
from maxlogit.torch._clip import FROZEN

VOCAB, WIDTH, HEADS, T = 50, 32, 4, 12


def has(name):
    return importlib.util.find_spec(name) is not None


SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
GPT2 = {
    "vocab_size": VOCAB,
    "n_embd": WIDTH,
    "n_layer": 1,
    "n_head": HEADS,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BY_HEADS = {**GROUPED, "head_dim": 8}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {
    **{**SMALL, "num_key_value_heads": HEADS},
    **EXPERTS,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8, "mamba_chunk_size": 8}
DELTA = {
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "full_attention"],
}
SHARED = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_kv_shared_layers": 2,
    "sliding_window": 5,
    "vocab_size_per_layer_input": VOCAB,
    "hidden_size_per_layer_input": 8,
}
EYES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28}
EARS = {"hidden_size": 16, "intermediate_size": 16, "num_blocks": 1, "num_attention_heads": 2, "ext_pw_out_channel": 16}
# class, configuration, its arguments, why it is refused (empty: clipped)
LANGUAGE = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED, ""),
    "Mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 5}, ""),
    "Qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED, ""),
    "Qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 8}, "proportion"),
    "Gemma": ("GemmaForCausalLM", "GemmaConfig", {**GROUPED, "head_dim": 8}, ""),
    "Gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "head_dim": 8}, ""),
    "Gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**GROUPED, "head_dim": 8}, "q_norm.weight changes"),
    "Phi": ("PhiForCausalLM", "PhiConfig", SMALL, ""),
    "Phi3": ("Phi3ForCausalLM", "Phi3Config", GROUPED, ""),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", GPT2, ""),
    "BigCode": ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", GPT2, ""),
    "GPT-NeoX": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL, ""),
    "GPT-Neo": (
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        {
            **{k: SMALL[k] for k in ("vocab_size", "hidden_size", "max_position_embeddings")},
            "num_layers": 1,
            "num_heads": HEADS,
            "attention_types": [[["global"], 1]],
        },
        "none",
    ),
    "Falcon": ("FalconForCausalLM", "FalconConfig", SMALL, ""),
    "OPT": ("OPTForCausalLM", "OPTConfig", {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": WIDTH}, ""),
    "BLOOM": (
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": VOCAB, "hidden_size": WIDTH, "n_layer": 1, "n_head": HEADS},
        "none",
    ),
    "Cohere": ("CohereForCausalLM", "CohereConfig", GROUPED, ""),
    "StableLM": ("StableLmForCausalLM", "StableLmConfig", GROUPED, ""),
    "Olmo2": ("Olmo2ForCausalLM", "Olmo2Config", GROUPED, "proportion"),
    "Mixtral": ("MixtralForCausalLM", "MixtralConfig", {**GROUPED, "num_local_experts": 2}, ""),
    "BERT": ("BertForMaskedLM", "BertConfig", SMALL, ""),
    "RoBERTa": ("RobertaForMaskedLM", "RobertaConfig", SMALL, ""),
    "DistilBERT": (
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        {"vocab_size": VOCAB, "dim": WIDTH, "hidden_dim": 48, "n_layers": 1, "n_heads": HEADS},
        "",
    ),
    "ALBERT": ("AlbertForMaskedLM", "AlbertConfig", {**SMALL, "embedding_size": 16}, ""),
    "ELECTRA": ("ElectraForMaskedLM", "ElectraConfig", {**SMALL, "embedding_size": 16}, ""),
    "ModernBERT": ("ModernBertForMaskedLM", "ModernBertConfig", {**SMALL, "cls_token_id": 1, "sep_token_id": 2}, ""),
    "GPT-OSS": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {**BY_HEADS, "num_experts_per_tok": 2, "num_local_experts": 4, "sliding_window": 5},
        "",
    ),
    "Qwen3-MoE": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**BY_HEADS, **EXPERTS, "num_experts": 4}, "proportion"),
    "Qwen3-Next": (
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        {**BY_HEADS, **EXPERTS, **DELTA, "num_experts": 4, "shared_expert_intermediate_size": 16},
        "q_norm.weight changes",
    ),
    "Gemma3n": (
        "Gemma3nForCausalLM",
        "Gemma3nTextConfig",
        {
            **BY_HEADS,
            **SHARED,
            "laurel_rank": 4,
            "altup_num_inputs": 2,
            "intermediate_size": [48] * 4,
            "activation_sparsity_pattern": [0.0] * 4,
        },
        "proportion",
    ),
    "Gemma4": ("Gemma4ForCausalLM", "Gemma4TextConfig", {**BY_HEADS, **SHARED}, "proportion"),
    "GLM-4": ("Glm4ForCausalLM", "Glm4Config", BY_HEADS, ""),
    "GLM-4-MoE": ("Glm4MoeForCausalLM", "Glm4MoeConfig", {**BY_HEADS, **EXPERTS, "n_routed_experts": 4}, ""),
    "SmolLM3": ("SmolLM3ForCausalLM", "SmolLM3Config", {**GROUPED, "num_hidden_layers": 2, "no_rope_layer_interval": 2}, ""),
    "DeepSeek-V2": ("DeepseekV2ForCausalLM", "DeepseekV2Config", {**LATENT, "q_lora_rank": None}, ""),
    "DeepSeek-V3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", LATENT, ""),
    "Olmo3": ("Olmo3ForCausalLM", "Olmo3Config", {**GROUPED, "sliding_window": 5}, "proportion"),
    "Granite": ("GraniteForCausalLM", "GraniteConfig", GROUPED, ""),
    "Nemotron": ("NemotronForCausalLM", "NemotronConfig", GROUPED, ""),
    "Phi-4-multimodal": (
        "Phi4MultimodalForCausalLM",
        "Phi4MultimodalConfig",
        {
            **GROUPED,
            "vision_config": {**EYES, "crop_size": 28},
            "audio_config": {**EARS, "nemo_conv_channels": 16, "depthwise_separable_out_channel": 16},
        },
        "",
    ),
    "MPT": (
        "MptForCausalLM",
        "MptConfig",
        {"vocab_size": VOCAB, "d_model": WIDTH, "n_heads": HEADS, "n_layers": 1, "max_seq_len": 64},
        "none",
    ),
    "Jamba": (
        "JambaForCausalLM",
        "JambaConfig",
        {
            **GROUPED,
            "num_hidden_layers": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "use_mamba_kernels": False,
            "mamba_d_state": 8,
        },
        "",
    ),
    "Bamba": ("BambaForCausalLM", "BambaConfig", {**GROUPED, **MAMBA, "num_hidden_layers": 2, "attn_layer_indices": [1]}, ""),
    "Falcon-H1": ("FalconH1ForCausalLM", "FalconH1Config", {**BY_HEADS, **MAMBA, "mamba_d_ssm": 64}, ""),
    "Differential": ("DiffLlamaForCausalLM", "DiffLlamaConfig", GROUPED, ""),
}


EAGER = ("Llama", "Gemma2", "GPT-NeoX", "BERT", "GPT-Neo", "BLOOM")
ONLY_EAGER = ("GPT-OSS", "MPT")


def language(kind, config, arguments, implementation):
    import transformers as t

    config = getattr(t, config)(**arguments)
    config._attn_implementation = implementation
    torch.manual_seed(5)
    model = getattr(t, kind)(config).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    ids = torch.randint(3, VOCAB, (2, T))
    return model, {"input_ids": ids}


def grow(model):
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2 and min(p.shape) > 1 and p.is_floating_point():
                p.normal_(std=0.3)


class OfAModel(InFolder):
    def setUp(self):
        super().setUp()
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # the models are small

    def two_lines(self, model, run):
        """README's, unchanged; how many rows have maxima."""
        with maxlogit.Recorder(self.path, mode="replace") as recorder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            watched = mt.watch(model, recorder)
            for step in range(2):
                run(model)
                recorder.log(step, loss=1.0)
            watched.close()
        run_file = maxlogit.open(self.path)
        return run_file["attn/max_logit"].values if "attn/max_logit" in run_file else None

    def clips(self, model, run):
        """Row by row, so that the input of each stays what it was: whether it gives S gamma; why not."""
        found, reasons, row = {}, {}, 0
        while True:
            one = copy.deepcopy(model)
            clip = mt.QKClip(one, tau=1e9, on_unknown="skip", maximum="signed")
            reader = _attention.Reader(bias=False)
            clip._attention.readers.append(reader)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(one)
                if not clip._states or "*" in clip._states:
                    with self.assertRaisesRegex((RuntimeError, ValueError), "no attention"):
                        clip.step()
                    return {}, {}
                before = {name: x.double() for name, x in reader.take().items()}
                clip.step()
                reasons = dict(clip.refused)
                clipped = [name for name, state in clip._states.items() if not isinstance(state, str)]
                if row >= len(clipped):
                    clip.close()
                    clip._attention.release(reader)
                    return found, reasons
                name = clipped[row]
                tau = float(before[name].sort().values[-2:].mean())
                clip._rule.tau = tau
                clip._states = {n: state if n == name else FROZEN for n, state in clip._states.items()}
                run(one)
                reader.take()
                self.assertGreater(clip.step(), 0, name)
                run(one)
                found[name] = bool(
                    torch.allclose(reader.take()[name].double(), before[name].clamp(max=tau), rtol=1e-4, atol=1e-4)
                )
                clip.close()
                clip._attention.release(reader)
            row += 1

    def check(self, model, forward, reason, name):
        def run(m):
            torch.manual_seed(1)  # dropout that is not a module
            return forward(m)

        grow(model)
        values = self.two_lines(copy.deepcopy(model), run)
        found, reasons = self.clips(model, run)
        if reason == "none":  # its attention is not of a known kind
            self.assertEqual((values, found), (None, {}), name)
            return
        self.assertTrue((values == values).any(), name)
        self.assertTrue(all(found.values()), f"{name}: {found}")
        if reason:
            self.assertTrue(reasons and not found, f"{name}: {found}, {reasons}")
            for text in reasons.values():
                self.assertRegex(text, reason, name)
        else:
            self.assertTrue(found and not reasons, f"{name}: {found}, {reasons}")


@unittest.skipUnless(has("transformers"), "no transformers here")
class Transformers(OfAModel):
    def test_encoder_decoder(self):
        import transformers as t

        t5 = {"vocab_size": VOCAB, "d_model": WIDTH, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": HEADS}
        t5 |= {"dropout_rate": 0.0, "decoder_start_token_id": 0}
        both = {k: SMALL[k] for k in SMALL if k.endswith("token_id")}
        both |= {"vocab_size": VOCAB, "d_model": WIDTH, "dropout": 0.0}
        both |= {f"{part}_layers": 1 for part in ("encoder", "decoder")}
        both |= {f"{part}_attention_heads": HEADS for part in ("encoder", "decoder")}
        both |= {f"{part}_ffn_dim": 48 for part in ("encoder", "decoder")} | {"decoder_start_token_id": 1}
        hears = {"num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 32}
        ids, sound = torch.randint(3, VOCAB, (2, T)), torch.randn(2, 8, 40)
        for name, options, given in (
            ("T5", t5, {"input_ids": ids, "labels": ids}),
            ("MT5", t5, {"input_ids": ids, "labels": ids}),
            ("Bart", {**both, "max_position_embeddings": 32}, {"input_ids": ids, "decoder_input_ids": ids}),
            ("Whisper", {**both, **hears}, {"input_features": sound, "decoder_input_ids": ids}),
        ):
            with self.subTest(name):
                torch.manual_seed(5)
                model = getattr(t, f"{name}ForConditionalGeneration")(getattr(t, f"{name}Config")(**options)).train()
                self.check(model, lambda m, given=given: m(**given), "", name)

    def test_text_that_is_generated_in_training_mode(self):
        """The pass that finds the parameters adds nothing to the cache of keys."""
        model, batch = language("LlamaForCausalLM", "LlamaConfig", GROUPED, "sdpa")
        grow(model)
        start = batch["input_ids"][:, :4]
        options = {"max_new_tokens": 12, "do_sample": False, "attention_mask": torch.ones_like(start)}
        texts = []
        for clips in (False, True):
            clip = mt.QKClip(model.train(), tau=1e6) if clips else None
            texts.append(model.generate(start, **options).tolist())
        self.assertEqual(texts[0], texts[1])
        clip.step()
        self.assertEqual(clip.refused, {})
        clip.close()

    def test_images(self):
        import transformers as t

        small = {"hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": HEADS}
        images, ids = {"image_size": 16, "patch_size": 4}, torch.randint(3, VOCAB, (2, T))
        tokens = {k: SMALL[k] for k in SMALL if k.endswith("token_id")}
        text = {**small, **tokens, "vocab_size": VOCAB, "max_position_embeddings": 16}
        towers = {"text_config": text, "vision_config": {**small, **images}}
        x = {"pixel_values": torch.randn(2, 3, 16, 16)}
        no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        for name, options, given in (
            ("ViT", {**small, **images, **no_dropout}, x),
            ("Dinov2", {**small, **images}, x),
            ("CLIP", {**towers, "projection_dim": 16}, {**x, "input_ids": ids}),
            ("Siglip", {**towers, "text_config": {**text, "projection_size": WIDTH}}, {**x, "input_ids": ids}),
        ):
            with self.subTest(name):
                torch.manual_seed(5)
                model = getattr(t, f"{name}Model")(getattr(t, f"{name}Config")(**options)).train()
                self.check(model, lambda m, given=given: m(**given), "", name)

    @unittest.skipUnless(has("peft"), "no peft here")
    def test_adapters(self):
        import peft

        for targets, trains in ((["q_proj", "k_proj"], True), (["v_proj", "o_proj"], False)):
            model, batch = language("LlamaForCausalLM", "LlamaConfig", GROUPED, "sdpa")
            grow(model)
            model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=targets, init_lora_weights=False)).train()
            clip = mt.QKClip(model, tau=1e-3)
            before = {name: p.detach().clone() for name, p in model.named_parameters()}
            model(**batch)
            if trains:
                with self.assertRaisesRegex(mt.CannotClip, "self_attn.*frozen.*Merge the adapter"):
                    clip.step()
            else:
                with self.assertWarnsRegex(UserWarning, "1 of the modules"):
                    self.assertEqual(clip.step(), 0)
            for name, p in model.named_parameters():
                self.assertTrue(torch.equal(p, before[name]), name)
            merged = model.merge_and_unload()
            merged.requires_grad_(True)
            self.assertGreater(sum(self.clips(merged.train(), lambda m, batch=batch: m(**batch))[0].values()), 0)

    def test_language_models(self):
        for name, (kind, config, arguments, reason) in LANGUAGE.items():
            for implementation in ("sdpa", "eager") if name in EAGER else ("eager" if name in ONLY_EAGER else "sdpa",):
                with self.subTest(name, implementation=implementation):
                    try:
                        model, batch = language(kind, config, arguments, implementation)
                    except (AttributeError, ImportError, ValueError) as problem:
                        print(f"{name}, {implementation}: not in this transformers ({problem})")
                        continue
                    self.check(model, lambda m, batch=batch: m(**batch), reason, name)


class Entered(TorchFunctionMode):
    """The maxima of all calls of scaled_dot_product_attention in their order, in double, by the definition."""

    def __init__(self):
        super().__init__()
        self.maxima = []

    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is _attention._sdpa:
            given = {**dict(zip(("query", "key", "value", "attn_mask"), args)), **kwargs}
            q, k, mask = given["query"].detach().double(), given["key"].detach().double(), given.get("attn_mask")
            s = q @ k.transpose(-1, -2) * (given.get("scale") or q.shape[-1] ** -0.5)
            if mask is not None:
                s = s.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else s + mask.double()
            self.maxima.append(s.amax((0, 2, 3)))
        return func(*args, **kwargs)


class TwoStreams(nn.Module):
    """Shaped as the attention of diffusers is: an image and a text with projections of their own meet in one attention, and
    the text alone is attended to in another. `rms` puts a norm with a gain behind the projections, as Flux has it."""

    def __init__(self, rms=False):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.add_q, self.add_k, self.add_v = (nn.Linear(16, WIDTH) for _ in range(3))
        self.norm_q = nn.RMSNorm(WIDTH // HEADS) if rms else nn.Identity()
        self.cross_q, self.cross_k, self.cross_v = nn.Linear(WIDTH, WIDTH), nn.Linear(16, WIDTH), nn.Linear(16, WIDTH)

    def forward(self, image, text):
        def split(y):
            return y.unflatten(-1, (HEADS, -1)).transpose(1, 2)

        q, k, v = (
            torch.cat((split(a(text)), split(b(image))), 2)
            for a, b in ((self.add_q, self.to_q), (self.add_k, self.to_k), (self.add_v, self.to_v))
        )
        y = F.scaled_dot_product_attention(self.norm_q(q), k, v)[:, :, text.shape[1] :].transpose(1, 2).flatten(2)
        q, k, v = self.norm_q(split(self.cross_q(y))), split(self.cross_k(text)), split(self.cross_v(text))
        return F.scaled_dot_product_attention(q, k, v)


class Denoising(OfAModel):
    """Denoising models: the record is the definition, and a clip as above."""

    def check_exactly(self, model, forward, reason, name):
        grow(model)
        with maxlogit.Recorder(self.path, mode="replace") as recorder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            watched = mt.watch(model.train(), recorder, spectra_every=0)
            with Entered() as entered:
                forward(model)
            rows = list(watched.reader.found)
            recorder.log(0, loss=1.0)
            order = list(watched.order)
            watched.close()
        values = torch.from_numpy(maxlogit.open(self.path)["attn/max_logit"].values[0])
        self.assertEqual(len(rows), len(entered.maxima), name)
        for row, wanted in zip(rows, entered.maxima):
            torch.testing.assert_close(values[order.index(row)][: len(wanted)], wanted, rtol=1e-5, atol=1e-5)
        self.check(model, forward, reason, name)

    def test_of_this_shape(self):
        for rms, reason in ((False, ""), (True, "in proportion")):
            torch.manual_seed(0)
            given = torch.randn(2, 9, WIDTH), torch.randn(2, 5, 16)
            self.check_exactly(TwoStreams(rms), lambda m, given=given: m(*given), reason, f"two streams, {rms}")

    @unittest.skipUnless(has("diffusers"), "no diffusers here")
    def test_diffusers(self):
        import diffusers as d

        blocks = {"block_out_channels": (32, 32), "layers_per_block": 1, "norm_num_groups": 8, "attention_head_dim": 8}
        crosses = {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D")}
        crosses["up_block_types"] = "CrossAttnUpBlock2D", "UpBlock2D"
        heads = {"num_layers": 2, "num_attention_heads": HEADS, "attention_head_dim": 8, "in_channels": 4}
        joint = {"joint_attention_dim": 16, "pooled_projection_dim": 16}
        sd3 = {"sample_size": 8, "patch_size": 2, "caption_projection_dim": 32, "pos_embed_max_size": 8, "out_channels": 4}
        x, tokens, text, pooled = (torch.randn(2, *n) for n in ((4, 8, 8), (9, 4), (5, 16), (16,)))
        time = torch.tensor([3, 7])
        more = {"encoder_hidden_states": text, "pooled_projections": pooled, "timestep": time}
        places = {"img_ids": torch.zeros(9, 3), "txt_ids": torch.zeros(5, 3)}
        for kind, options, forward, reason in (
            (
                "UNet2DConditionModel",
                {"sample_size": 8, "cross_attention_dim": 16, **blocks, **crosses},
                lambda m: m(x, timestep=time, encoder_hidden_states=text),
                "",
            ),
            (
                "DiTTransformer2DModel",
                {"sample_size": 8, "num_embeds_ada_norm": 10, **heads},
                lambda m: m(x, timestep=time, class_labels=torch.tensor([1, 2])),
                "",
            ),
            ("SD3Transformer2DModel", {**heads, **sd3, **joint}, lambda m: m(x, **more), ""),
            (
                "FluxTransformer2DModel",
                {**heads, **joint, "num_single_layers": 1, "axes_dims_rope": (2, 2, 4)},
                lambda m: m(tokens, **more, **places),
                "norm_q.weight changes|in proportion",
            ),
        ):
            with self.subTest(kind):
                torch.manual_seed(0)
                self.check_exactly(getattr(d, kind)(**options), forward, reason, kind)


@unittest.skipUnless(has("timm"), "no timm here")
class Timm(OfAModel):
    def test_images(self):
        import timm

        small = {"img_size": 16, "patch_size": 4, "embed_dim": WIDTH, "depth": 2, "num_heads": HEADS, "num_classes": 5}
        for more, reason in (({}, ""), ({"qk_norm": True}, "behind the projections|in proportion")):
            torch.manual_seed(0)
            model, x = timm.models.vision_transformer.VisionTransformer(**small, **more).train(), torch.randn(2, 3, 16, 16)
            self.check(model, lambda m, x=x: m(x), reason, f"timm ViT {more}")


if __name__ == "__main__":
    unittest.main()
