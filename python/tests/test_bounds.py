"""`maxlogit spectra` against models of transformers: gradient ascent over the inputs of the real attention modules finds
logits up to the bound, none above it."""

import json
import os
import subprocess
import unittest
import warnings

try:
    import torch
    import transformers
    from transformers import AutoConfig, AutoModel
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if int(transformers.__version__.split(".")[0]) < 5:
        raise ImportError
except ImportError:
    raise unittest.SkipTest("no PyTorch with transformers 5 here") from None

from in_folder import InFolder

WIDTH, HEADS, GROUPS, SIZE, LAYERS, CONTEXT = 32, 4, 2, 8, 2, 64
KEYS = 16  # one query, at the last of their positions
YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 64}
WEAK = dict(YARN, attention_factor=0.6)
LONG = {"rope_type": "longrope", "factor": 8.0, "original_max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
MSCALES = [dict(YARN, mscale=2.0, mscale_all_dim=0.5), dict(YARN, mscale=1.0, mscale_all_dim=1.0), YARN]
LATENT = {
    "num_key_value_heads": HEADS,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
    "kv_lora_rank": 16,
    "head_dim": 4,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": LAYERS,
    "attention_bias": True,
}
FULL, SLIDING = "full_attention", "sliding_attention"
BOTH = {"layer_types": [SLIDING, FULL]}


def long_rope(pairs, **more):
    return dict(LONG, short_factor=[1.0] * pairs, long_factor=[2.0] * pairs, **more)


def with_ropes(family, config, ropes):
    return [(family, dict(config, rope_parameters=dict(rope, rope_theta=100.0) if rope else None)) for rope in ropes]


# (model_type, what its configuration has beside the sizes)
MODELS = [
    *with_ropes(
        "llama",
        {},
        [
            None,
            YARN,
            WEAK,
            long_rope(SIZE // 2),
            long_rope(SIZE // 2, attention_factor=1.5),
            {"rope_type": "linear", "factor": 4.0},
            {"rope_type": "dynamic", "factor": 4.0},
            dict(LLAMA3, original_max_position_embeddings=64),
        ],
    ),
    ("llama", {"attention_bias": True}),
    ("mistral", {}),
    *with_ropes("qwen2", {}, [None, YARN, long_rope(SIZE // 2)]),
    *with_ropes("qwen3", {"attention_bias": True}, [None, YARN, long_rope(SIZE // 2)]),
    *with_ropes(
        "qwen3_next",
        {"layer_types": [FULL, FULL], "partial_rotary_factor": 0.5, "num_experts": 0, "mlp_only_layers": [0, 1]},
        [None, YARN],
    ),
    *with_ropes("gemma", {}, [None, YARN]),
    ("gemma2", {"query_pre_attn_scalar": 5, "attn_logit_softcapping": 3.0}),
    ("gemma3_text", {"query_pre_attn_scalar": 5, **BOTH}),
    ("gemma3_text", {"rope_parameters": {FULL: dict(YARN, rope_theta=100.0), SLIDING: {"rope_theta": 10.0}}, **BOTH}),
    *with_ropes("granite", {"attention_multiplier": 0.8, "logits_scaling": 3.0}, [None, YARN]),
    ("granitemoe", {"attention_multiplier": 0.8, "num_local_experts": 2, "num_experts_per_tok": 1}),
    *with_ropes("nemotron", {"attention_bias": True}, [None, YARN]),
    *with_ropes("cohere", {}, [None, YARN]),
    ("cohere", {"use_qk_norm": True}),
    *with_ropes("cohere2", BOTH, [None, YARN]),
    ("gpt_oss", {"num_local_experts": 2, "num_experts_per_tok": 1}),
    *with_ropes("gpt_oss", {"num_local_experts": 2, "num_experts_per_tok": 1}, [WEAK]),
    ("phi3", {}),
    *with_ropes("phi3", {"original_max_position_embeddings": 8}, [long_rope(SIZE // 2)]),
    *with_ropes("phi3", {"partial_rotary_factor": 0.5}, [long_rope(SIZE // 4)]),
    ("olmo", {}),
    *with_ropes("olmo", {"clip_qkv": 1.5, "attention_bias": True}, [None, YARN]),
    *with_ropes("olmo2", {}, [None, YARN]),
    *with_ropes("smollm3", {"no_rope_layers": [1, 0]}, [None, YARN]),
    ("smollm3", {"no_rope_layer_interval": 2}),
    *with_ropes("glm4", {}, [None, YARN]),
    *with_ropes("gpt_neox", {"rotary_pct": 0.25}, [None]),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    ("gpt2", {"scale_attn_weights": False}),
    ("bert", {"num_key_value_heads": HEADS}),
    *with_ropes("deepseek_v3", dict(LATENT, q_lora_rank=12), [None, *MSCALES]),
    *with_ropes("deepseek_v3", dict(LATENT, q_lora_rank=None), MSCALES[:1]),
]


def config_of(family, more):
    sizes = {
        "vocab_size": 11,
        "hidden_size": WIDTH,
        "intermediate_size": 16,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS,
        "head_dim": SIZE,
        "max_position_embeddings": CONTEXT,
        "sliding_window": CONTEXT,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    more = {key: value for key, value in more.items() if key != "rope_parameters" or value}
    return AutoConfig.for_model(family, **dict(sizes, **more))


def randomize(model):
    """Weights of which no factor is 1 and no bias 0."""
    for name, p in model.named_parameters():
        noise = torch.randn_like(p)
        norm = any(part in name.lower() for part in ("norm", "ln_1", "ln_2"))
        p.data = p.data + 0.4 * noise if norm else noise * (0.5 if p.dim() < 2 else 0.3)


seen = []


def probe(module, query, key, value, attention_mask, scaling=None, **more):
    seen.append(query @ key.repeat_interleave(query.shape[1] // key.shape[1], 1).mT * scaling)
    return torch.zeros(query.shape[0], query.shape[2], query.shape[1], value.shape[3]), None


def entrances(model):
    """The modules before which the residual stream is any vector: layers, for BERT the norms before them."""
    if hasattr(model, "encoder"):
        return [model.embeddings.LayerNorm, *(layer.output.LayerNorm for layer in model.encoder.layer[:-1])]
    return model.h if hasattr(model, "h") else model.layers


def reached(model, restarts=3, steps=60):
    """[layer, head]: the largest |logit| that ascent over the inputs of each layer finds."""
    batch = HEADS * restarts
    x = torch.nn.Parameter(3 * torch.randn(LAYERS, batch, 2, WIDTH))
    kinds, positions = [0] + [1] * KEYS, torch.tensor([[KEYS - 1, *range(KEYS)]])
    for layer, module in enumerate(entrances(model)):
        module.register_forward_pre_hook(lambda _, args, layer=layer: (x[layer][:, kinds], *args[1:]))
    heads = torch.arange(batch) % HEADS
    best = torch.zeros(LAYERS, batch)
    for p in model.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.Adam([x], lr=0.3)
    for _ in range(steps):
        seen.clear()
        model(inputs_embeds=torch.zeros(batch, 1 + KEYS, WIDTH), position_ids=positions.expand(batch, -1))
        logits = torch.stack([own[torch.arange(batch), heads, 0, 1:].abs().amax(-1) for own in seen])
        best = torch.maximum(best, logits.detach())
        optimizer.zero_grad()
        (-logits.log().sum()).backward()
        optimizer.step()
    return best.view(LAYERS, restarts, HEADS).amax(1)


def spectra(folder):
    done = subprocess.run(
        [os.environ["MAXLOGIT_PROGRAM"], "spectra", "--json", "--only=heads", folder], capture_output=True, text=True
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    file = json.loads(done.stdout)[0]
    bounds = [[head["bound"] for head in file["heads"] if head["layer"] == layer] for layer in range(LAYERS)]
    return file["family"], bounds, done.stderr


class Bounds(InFolder):
    def saved(self, family, more):
        torch.manual_seed(len(family))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = config_of(family, more)
            config._attn_implementation = "probe"
            model = AutoModel.from_config(config).float().eval()
            randomize(model)
            model.save_pretrained(self.folder)
        return model

    def rewritten(self, change):
        path = self.folder / "config.json"
        config = json.loads(path.read_text())
        change(config)
        path.write_text(json.dumps(config))

    def test_no_logit_is_above(self):
        ALL_ATTENTION_FUNCTIONS.register("probe", probe)
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        torch.set_num_threads(1)  # for what is so small
        for family, more in MODELS:
            with self.subTest(family=family, config=more):
                model = self.saved(family, more)
                read_as, bounds, errors = spectra(self.folder)
                self.assertEqual(errors, "")
                ratio = reached(model) / torch.tensor(bounds)
                if "BOUNDS_SHOW" in os.environ:
                    rope = (more.get("rope_parameters") or {}).get("rope_type", "")
                    print(f"{read_as:12} {rope:9} reached/bound {ratio.min():.3f} to {ratio.max():.3f}")
                self.assertLessEqual(ratio.max(), 1 + 1e-4)
                self.assertGreaterEqual(ratio.min(), 0.5)

    def test_what_is_not_known_has_no_bound(self):
        self.saved("llama", {"rope_parameters": dict(YARN, rope_theta=100.0)})
        bounds = spectra(self.folder)[1]

        def older(config):  # transformers 4 and the files of most models
            config["rope_scaling"] = config.pop("rope_parameters")
            config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")

        self.rewritten(older)
        self.assertEqual(spectra(self.folder)[1], bounds)
        for change in ({"query_scaling": 3}, {"model_type": "of_tomorrow"}):
            self.rewritten(lambda config, change=change: config.update(change))
            _, bounds, errors = spectra(self.folder)
            self.assertEqual({bound for layer in bounds for bound in layer}, {"NaN"})
            self.assertEqual(errors.count("\n"), 1)
            self.assertIn("query_scaling" if "query_scaling" in change else "by the tensors' names", errors)
