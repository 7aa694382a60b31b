/* preset.c - the presets */
#include "config/preset.h"
#include <stddef.h>
#include <string.h>

/* H*Dn = 128 rows over latents of rank 32: only in tall matrices does Muon treat heads unequally. */
#define TALL_MLA \
  "model.attention=mla model.heads=8 model.head_dim=16 model.q_rank=32 model.kv_rank=32 model.rope_dim=8"

/* --- small twins of models ---

   Sizes keep the models' ratios to the width: heads times their size, latent ranks, dense and expert blocks;
   so also how tall the up-projections are. Head sizes are divided by more than their number is, so that a
   latent rank is a smaller multiple of a head's size than it was. Half the experts are active that were, and
   each is so large that the active ones together are as wide as they were. route_scale is Moonlight's formula
   (arXiv 2502.16982 figure 6: the mean of 1 / sqrt(sum p^2), p the largest of sigmoid(N(0,1)) over their sum)
   for the twin's experts; it gives (64, 6) 2.446, (384, 8) and (256, 8) 2.827. Rate, warm-up, steps, batch and
   context are not part of a preset: those of a model of 1e12 parameters say nothing to one of 1e6. */

#define KIMI_K2 \
  "model.attention=mla model.layers=3 model.width=112 model.heads=16 model.head_dim=8 model.value_dim=8 " \
  "model.rope_dim=4 model.q_rank=24 model.kv_rank=8 model.rope_base=50000 model.ffn_width=288 " \
  "model.ffn=moe " \
  "moe.experts=48 moe.active=4 moe.shared=1 moe.hidden=56 moe.dense_layers=1 moe.balance=both " \
  "moe.aux=0.001 " \
  "moe.route_scale=1.998 optimizer=muon muon.nesterov=0 stabilizers=qk_clip qk_clip.tau=100 " \
  "qk_clip.alpha=0.5 " \
  "train.weight_decay=0.1 train.schedule=wsd wsd.decay=0.35 wsd.floor=0.1"

static const struct preset_fact kimi_k2[] = {
  {"model.layers", NULL, "61"},
  {"model.width", NULL, "7168 (64 times)"},
  {"model.heads", NULL, "64 (4 times)"},
  {"model.head_dim", NULL, "128 (16 times), as value_dim"},
  {"model.rope_dim", NULL, "64 (16 times)"},
  {"model.q_rank", NULL, "1536 (64 times)"},
  {"model.kv_rank", NULL, "512 (64 times)"},
  {"model.rope_base", NULL, "50000"},
  {"model.ffn_width", NULL, "18432 (64 times)"},
  {"moe.experts", NULL, "384 (8 times)"},
  {"moe.active", NULL, "8 (2 times): sparsity 48, here 12"},
  {"moe.shared", NULL, "1"},
  {"moe.hidden", NULL, "2048"},
  {"moe.dense_layers", NULL, "1"},
  {"moe.groups", NULL, "1"},
  {"moe.balance", NULL, "a bias, and a loss by sequence of .001 (config.json alone)"},
  {"moe.route_scale", NULL, "2.827"},
  {"optimizer", NULL, "muon, update RMS .2; adam for embedding, head, gains"},
  {"muon.nesterov", NULL, "none in algorithm 1"},
  {"qk_clip.tau", NULL, "100"},
  {"train.weight_decay", NULL, "0.1"},
  {"train.schedule", NULL, "constant for 10T of 15.5T tokens, then a cosine to a tenth (here a line)"},
  {"train.lr", NULL, "2e-4"},
  {"train.warmup", NULL, "500 of some 220000"},
  {"train.grad_clip", NULL, "not found"},
  {"model.context", NULL, "4096"},
  {NULL, NULL, NULL}};

#define DEEPSEEK_V3 \
  "model.attention=mla model.layers=3 model.width=112 model.heads=32 model.head_dim=8 model.value_dim=8 " \
  "model.rope_dim=4 model.q_rank=24 model.kv_rank=8 model.rope_base=10000 model.ffn_width=288 " \
  "model.ffn=moe " \
  "moe.experts=32 moe.active=4 moe.shared=1 moe.hidden=56 moe.dense_layers=1 moe.groups=4 " \
  "moe.groups_kept=2 " \
  "moe.balance=both moe.aux=0.0001 moe.bias_rate=0.001 moe.route_scale=1.996 optimizer=adam adam.beta1=0.9 " \
  "adam.beta2=0.95 stabilizers=none train.weight_decay=0.1 train.grad_clip=1 train.schedule=wsd " \
  "wsd.decay=0.32 " \
  "wsd.floor=0.1 model.mtp=1 " \
  "model.mtp_weight=0.3"

static const struct preset_fact deepseek_v3[] = {
  {"model.layers", NULL, "61"},
  {"model.width", NULL, "7168 (64 times)"},
  {"model.heads", NULL, "128 (4 times)"},
  {"model.head_dim", NULL, "128 (16 times), as value_dim"},
  {"model.rope_dim", NULL, "64 (16 times)"},
  {"model.q_rank", NULL, "1536 (64 times)"},
  {"model.kv_rank", NULL, "512 (64 times)"},
  {"model.rope_base", NULL, "10000"},
  {"model.ffn_width", NULL, "18432 (64 times)"},
  {"moe.experts", NULL, "256 (8 times)"},
  {"moe.active", NULL, "8 (2 times)"},
  {"moe.shared", NULL, "1"},
  {"moe.hidden", NULL, "2048"},
  {"moe.dense_layers", NULL, "3"},
  {"moe.groups", NULL, "8"},
  {"moe.groups_kept", NULL, "4; in both, a group counts by its best two"},
  {"moe.bias_rate", NULL, "0.001, for the last 500B tokens 0"},
  {"moe.aux", NULL, "0.0001"},
  {"moe.route_scale", NULL, "2.5: not by the formula, which gives 2.827"},
  {"optimizer", NULL, "adam"},
  {"train.weight_decay", NULL, "0.1"},
  {"train.grad_clip", NULL, "1"},
  {"train.schedule", NULL,
   "constant for 10T of 14.8T tokens, a cosine to a tenth, constant again (here a line)"},
  {"train.lr", NULL, "2.2e-4"},
  {"train.warmup", NULL, "2000"},
  {"model.context", NULL, "4096"},
  {"initial matrices", "N(0, 1/fan_in)", "N(0, .006^2)"},
  {"model.mtp", NULL, "1"},
  {"model.mtp_weight", NULL, "0.3, for the last third 0.1"},
  {NULL, NULL, NULL}};

#define MOONLIGHT \
  "model.attention=mla model.layers=3 model.width=64 model.heads=8 model.head_dim=8 model.value_dim=8 " \
  "model.rope_dim=4 model.q_rank=0 model.kv_rank=16 model.rope_base=50000 model.norm_eps=1e-05 " \
  "model.ffn_width=352 model.ffn=moe moe.experts=32 moe.active=3 moe.shared=1 moe.hidden=88 " \
  "moe.dense_layers=1 " \
  "moe.balance=bias moe.bias_rule=centred moe.bias_rate=0.001 moe.route_scale=1.73 optimizer=muon " \
  "muon.nesterov=1 stabilizers=none train.weight_decay=0.1 train.decay_gains=1"

static const struct preset_fact moonlight[] = {
  {"model.layers", NULL, "27"},
  {"model.width", NULL, "2048 (32 times)"},
  {"model.heads", NULL, "16 (2 times)"},
  {"model.head_dim", NULL, "128 (16 times), as value_dim"},
  {"model.rope_dim", NULL, "64 (16 times)"},
  {"model.q_rank", NULL, "none"},
  {"model.kv_rank", NULL, "512 (32 times)"},
  {"model.rope_base", NULL, "50000"},
  {"model.norm_eps", NULL, "1e-5"},
  {"model.ffn_width", NULL, "11264 (32 times)"},
  {"moe.experts", NULL, "64 (2 times)"},
  {"moe.active", NULL, "6 (2 times)"},
  {"moe.shared", NULL, "2 (2 times)"},
  {"moe.hidden", NULL, "1408"},
  {"moe.dense_layers", NULL, "1"},
  {"moe.bias_rule", NULL, "centred, rate .001, at the end 0"},
  {"moe.route_scale", NULL, "2.446"},
  {"optimizer", NULL, "muon, update RMS .2; adam for embedding, head, gains"},
  {"train.weight_decay", NULL, "0.1"},
  {"train.decay_gains", NULL, "1: \"crucial\""},
  {"train.schedule", NULL, "not found"},
  {"train.lr", NULL, "4.2e-4"},
  {"train.warmup", NULL, "2000"},
  {"model.context", NULL, "8192"},
  {NULL, NULL, NULL}};

#define GEMMA2 \
  "model.attention=gqa model.layers=3 model.width=112 model.heads=8 model.kv_heads=4 model.head_dim=16 " \
  "model.rope_base=10000 model.ffn=swiglu model.ffn_width=448 model.tied=1 model.norm_eps=1e-06 " \
  "model.mask=window model.window_every=2 optimizer=adam " \
  "stabilizers=soft_cap soft_cap.cap=50"

static const struct preset_fact gemma2[] = {
  {"model.layers", NULL, "42"},
  {"model.width", NULL, "3584 (32 times)"},
  {"model.heads", NULL, "16 (2 times)"},
  {"model.kv_heads", NULL, "8 (2 times)"},
  {"model.head_dim", NULL, "256 (16 times)"},
  {"model.rope_base", NULL, "10000"},
  {"model.ffn_width", NULL, "14336 (32 times)"},
  {"model.ffn", NULL, "GeGLU"},
  {"model.tied", NULL, "1, the embedding times sqrt(width)"},
  {"soft_cap.cap", NULL, "50"},
  {"cap of the final logits", "none", "30"},
  {"norms", "before a block, gain w", "before and after a block, gain 1 + w"},
  {"model.mask", NULL, "window"},
  {"model.window", NULL, "4096: half the context"},
  {"model.window_every", NULL, "2: every other layer has one, the first to begin with"},
  {"targets", "the next token", "a larger model's probabilities (2B and 9B)"},
  {"optimizer", NULL, "not found"},
  {"train.weight_decay", NULL, "not found"},
  {"train.schedule", NULL, "not found"},
  {"model.context", NULL, "8192"},
  {NULL, NULL, NULL}};

#define QWEN3 \
  "model.attention=gqa model.layers=3 model.width=128 model.heads=16 model.kv_heads=4 model.head_dim=8 " \
  "model.rope_base=1e+06 model.ffn=swiglu model.ffn_width=384 model.tied=0 model.bias=0 " \
  "model.norm_eps=1e-06 " \
  "optimizer=adam stabilizers=qk_norm qk_norm.kind=rms"

static const struct preset_fact qwen3[] = {{"model.layers", NULL, "36"},
                                           {"model.width", NULL, "4096 (32 times)"},
                                           {"model.heads", NULL, "32 (2 times)"},
                                           {"model.kv_heads", NULL, "8 (2 times)"},
                                           {"model.head_dim", NULL, "128 (16 times)"},
                                           {"model.rope_base", NULL, "1e6"},
                                           {"model.ffn_width", NULL, "12288 (32 times)"},
                                           {"model.tied", NULL, "0"},
                                           {"model.bias", NULL, "0"},
                                           {"qk_norm.kind", NULL, "RMSNorm of every head, before RoPE"},
                                           {"optimizer", NULL, "not found"},
                                           {"train.weight_decay", NULL, "not found"},
                                           {"train.schedule", NULL, "not found"},
                                           {"model.context", NULL, "32768 in the last stage"},
                                           {NULL, NULL, NULL}};

#define GLM5 \
  "model.attention=mla model.layers=3 model.width=96 model.heads=16 model.head_dim=12 model.value_dim=16 " \
  "model.rope_dim=4 model.q_rank=32 model.kv_rank=8 model.rope_base=1e+06 model.norm_eps=1e-05 " \
  "model.ffn_width=192 model.ffn=moe moe.experts=32 moe.active=4 moe.shared=1 moe.hidden=56 " \
  "moe.dense_layers=1 " \
  "moe.balance=bias moe.route_scale=1.996 optimizer=muon muon.per_head=qkv stabilizers=none"

static const struct preset_fact glm5[] = {
  {"model.layers", NULL, "78"},
  {"model.width", NULL, "6144 (64 times)"},
  {"model.heads", NULL, "64 (4 times)"},
  {"model.head_dim", NULL, "192 (16 times)"},
  {"model.value_dim", NULL, "256 (16 times)"},
  {"model.rope_dim", NULL, "64 (16 times)"},
  {"model.q_rank", NULL, "2048 (64 times)"},
  {"model.kv_rank", NULL, "512 (64 times)"},
  {"model.rope_base", NULL, "1e6"},
  {"model.norm_eps", NULL, "1e-5"},
  {"model.ffn_width", NULL, "12288 (64 times)"},
  {"moe.experts", NULL, "256 (8 times)"},
  {"moe.active", NULL, "8 (2 times)"},
  {"moe.shared", NULL, "1"},
  {"moe.hidden", NULL, "2048"},
  {"moe.dense_layers", NULL, "3"},
  {"moe.groups", NULL, "1"},
  {"moe.balance", NULL, "a bias (topk_method noaux_tc)"},
  {"moe.route_scale", NULL, "2.5: not by the formula, which gives 2.827"},
  {"muon.per_head", NULL, "w_uq, w_uk, w_uv by heads (Muon Split); no clip"},
  {"sparse attention (DSA)", "none", "added after the pre-training"},
  {"multi-token prediction", "none", "3 modules that share their parameters"},
  {"train.weight_decay", NULL, "not found"},
  {"train.schedule", NULL, "not found"},
  {"train.lr", NULL, "not found"},
  {"model.context", NULL, "4096 at first, 202752 at the end"},
  {NULL, NULL, NULL}};

const struct preset presets[] = {
  {"adam", "AdamW on every tensor", "optimizer=adam stabilizers=none", "arXiv 1711.05101", NULL},
  {"muon", "Muon on hidden matrices, AdamW on the rest", "optimizer=muon stabilizers=none",
   "arXiv 2502.16982", NULL},
  {"muonclip", "Muon with QK-Clip per head (Kimi K2)", "optimizer=muon stabilizers=qk_clip",
   "arXiv 2507.20534", NULL},
  {"adamclip", "AdamW with QK-Clip per head", "optimizer=adam stabilizers=qk_clip", "kexue.fm/archives/11126",
   NULL},
  {"lion", "Lion on every tensor", "optimizer=lion stabilizers=none", "arXiv 2302.06675", NULL},
  {"lionclip", "Lion with QK-Clip per head", "optimizer=lion stabilizers=qk_clip",
   "arXiv 2302.06675, 2507.20534", NULL},
  {"signum", "the sign of the momentum on every tensor", "optimizer=signum stabilizers=none",
   "arXiv 1802.04434", NULL},
  {"signumclip", "Signum with QK-Clip per head", "optimizer=signum stabilizers=qk_clip",
   "arXiv 1802.04434, 2507.20534", NULL},
  {"normuon", "NorMuon: Muon with rows of equal size", "optimizer=normuon stabilizers=none",
   "arXiv 2510.05491", NULL},
  {"normuonclip", "NorMuon with QK-Clip per head", "optimizer=normuon stabilizers=qk_clip",
   "arXiv 2510.05491, 2507.20534", NULL},
  {"adamuon", "AdaMuon: Muon of signs with a second moment of each number",
   "optimizer=adamuon stabilizers=none", "arXiv 2507.11005", NULL},
  {"adamuonclip", "AdaMuon with QK-Clip per head", "optimizer=adamuon stabilizers=qk_clip",
   "arXiv 2507.11005, 2507.20534", NULL},
  {"namo", "NAMO: Muon with Adam's step size of each matrix", "optimizer=namo stabilizers=none",
   "arXiv 2602.17080", NULL},
  {"namoclip", "NAMO with QK-Clip per head", "optimizer=namo stabilizers=qk_clip",
   "arXiv 2602.17080, 2507.20534", NULL},
  {"polargrad", "PolarGrad: Muon times the nuclear norm of the momentum",
   "optimizer=polargrad stabilizers=none", "arXiv 2505.21799", NULL},
  {"polargradclip", "PolarGrad with QK-Clip per head", "optimizer=polargrad stabilizers=qk_clip",
   "arXiv 2505.21799, 2507.20534", NULL},
  {"soap", "SOAP: Adam in the eigenbases of Shampoo's preconditioners", "optimizer=soap stabilizers=none",
   "arXiv 2409.11321", NULL},
  {"soapclip", "SOAP with QK-Clip per head", "optimizer=soap stabilizers=qk_clip",
   "arXiv 2409.11321, 2507.20534", NULL},
  {"klshampoo", "KL-Shampoo: Shampoo with preconditioners that minimize a KL divergence",
   "optimizer=klshampoo stabilizers=none", "arXiv 2509.03378", NULL},
  {"klshampooclip", "KL-Shampoo with QK-Clip per head", "optimizer=klshampoo stabilizers=qk_clip",
   "arXiv 2509.03378, 2507.20534", NULL},
  {"compositional", "Muon, with the steepest step of the product of queries and keys",
   "optimizer=compositional stabilizers=none", "Compositional Muon, Tilde Research 2026", NULL},
  {"compositionalclip", "Compositional Muon with QK-Clip per head",
   "optimizer=compositional stabilizers=qk_clip", "Tilde Research 2026, arXiv 2507.20534", NULL},
  {"scion", "Scion: steps of one size in a norm of each kind of tensor, weights in balls of that norm",
   "optimizer=scion stabilizers=none train.weight_decay=0.02", "arXiv 2502.07529", NULL},
  {"scionclip", "Scion with QK-Clip per head", "optimizer=scion stabilizers=qk_clip train.weight_decay=0.02",
   "arXiv 2502.07529, 2507.20534", NULL},
  {"dion", "Dion: orthonormal updates of low rank with error feedback", "optimizer=dion stabilizers=none",
   "arXiv 2504.05295", NULL},
  {"dionclip", "Dion with QK-Clip per head", "optimizer=dion stabilizers=qk_clip",
   "arXiv 2504.05295, 2507.20534", NULL},
  {"muon_qk_slow", "Muon with a tenth of the learning rate on w_q, w_k",
   "optimizer=muon override.lr=w_[qk]*:0.1", "kexue.fm/archives/11126, arXiv 2511.21377", NULL},
  {"muon_qk_decay", "Muon with ten times the weight decay on w_q, w_k",
   "optimizer=muon override.weight_decay=w_[qk]*:10", "kexue.fm/archives/11126", NULL},
  {"muon_qk_adam", "Adam on w_q, w_k, Muon on the other hidden matrices",
   "optimizer=muon override.optimizer=w_[qk]*:adam", "arXiv 2509.26030", NULL},
  {"muon_split", "Muon on the rows of each head separately (GLM-5)", "optimizer=muon muon.per_head=qkv",
   "arXiv 2602.15763", NULL},
  {"muonclip_split", "Muon on the rows of each head separately, with QK-Clip (Kimi K3)",
   "optimizer=muon muon.per_head=qkv stabilizers=qk_clip", "arXiv 2607.24653", NULL},
  {"muon_quack", "Muon with adaptive learning rates of queries and keys (QuacK)",
   "optimizer=muon stabilizers=quack", "arXiv 2511.21377", NULL},
  {"muon_bound_clip", "Muon with a clip per head by the bound of its logits",
   "optimizer=muon stabilizers=bound_clip", "arXiv 2507.20534, kexue.fm/archives/11126", NULL},
  {"muonh", "Muon with weights of fixed Frobenius norm and relative steps (Hyperball)",
   "optimizer=muon stabilizers=hyperball train.weight_decay=0", "arXiv 2606.16899", NULL},
  {"muon_sphere", "Muon with weights of fixed spectral norm and relative steps (MuonSphere)",
   "optimizer=muon stabilizers=spectral_sphere train.weight_decay=0", "arXiv 2601.08393", NULL},
  {"sso", "MuonSphere with steps tangential to the sphere, per head (SSO)",
   "optimizer=muon muon.coefficients=none stabilizers=spectral_tangent+spectral_sphere train.weight_decay=0",
   "arXiv 2601.08393", NULL},
  {"manifold_muon", "momentum steps on matrices whose singular values are all 1 (Manifold Muon)",
   "optimizer=muon muon.coefficients=none stabilizers=stiefel train.weight_decay=0",
   "J. Bernstein, \"Modular manifolds\", 2025; arXiv 2601.21487", NULL},
  {"mla_muon", "Muon on latent attention with up-projections that have more rows than columns",
   "optimizer=muon stabilizers=none " TALL_MLA, "shapes after arXiv 2412.19437", NULL},
  {"mla_muonclip", "mla_muon with QK-Clip per head (Kimi K2)", "optimizer=muon stabilizers=qk_clip " TALL_MLA,
   "arXiv 2507.20534", NULL},
  {"kimi_k2", "a small twin of Kimi K2: latent attention, sparse experts, MuonClip", KIMI_K2,
   "arXiv 2507.20534 (table 2, algorithm 1); experts' balance, RoPE: config.json of moonshotai/Kimi-K2-Base",
   kimi_k2},
  {"deepseek_v3", "a small twin of DeepSeek-V3: latent attention, grouped experts, AdamW", DEEPSEEK_V3,
   "arXiv 2412.19437; inference/configs of github.com/deepseek-ai/DeepSeek-V3", deepseek_v3},
  {"moonlight", "a small twin of Moonlight 16B-A3B: latent attention, experts, Muon without a clip",
   MOONLIGHT, "arXiv 2502.16982; config.json of moonshotai/Moonlight-16B-A3B", moonlight},
  {"gemma2", "a small twin of Gemma 2 9B: grouped queries, a soft cap on the scores", GEMMA2,
   "arXiv 2408.00118; config.json of google/gemma-2-9b", gemma2},
  {"qwen3", "a small twin of Qwen3 8B: grouped queries, QK-Norm", QWEN3,
   "arXiv 2505.09388; config.json of Qwen/Qwen3-8B", qwen3},
  {"glm5", "a small twin of GLM-5: latent attention, experts, Muon per head", GLM5,
   "arXiv 2602.15763 (section 2.1, table of sizes); config.json of zai-org/GLM-5", glm5},
  {NULL, NULL, NULL, NULL, NULL}};

const char *preset_setting(const struct preset *p, const char *key, int *len)
{
  size_t n = strlen(key);
  for (const char *s = p->settings; s; s = strchr(s, ' ')) {
    s += *s == ' ';
    if (strncmp(s, key, n) || s[n] != '=') continue;
    *len = (int)strcspn(s + n + 1, " ");
    return s + n + 1;
  }
  return NULL;
}
