/* preset.c - the presets */
#include "storage/preset.h"
#include <stddef.h>

/* H*Dn = 128 rows over latents of rank 32: only in tall matrices does Muon treat heads unevenly. */
#define TALL_MLA \
  "model.attention=mla model.heads=8 model.head_dim=16 model.q_rank=32 model.kv_rank=32 model.rope_dim=8"

const struct preset presets[] = {
  {"adam", "AdamW on every tensor", "optimizer=adam stabilizers=none"},
  {"muon", "Muon on hidden matrices, AdamW on the rest", "optimizer=muon stabilizers=none"},
  {"muonclip", "Muon with QK-Clip per head (Kimi K2)", "optimizer=muon stabilizers=qk_clip"},
  {"adamclip", "AdamW with QK-Clip per head", "optimizer=adam stabilizers=qk_clip"},
  {"muon_qk_slow", "Muon with a tenth of the learning rate on w_q, w_k",
   "optimizer=muon override.lr=w_[qk]*:0.1"},
  {"muon_qk_decay", "Muon with ten times the weight decay on w_q, w_k",
   "optimizer=muon override.weight_decay=w_[qk]*:10"},
  {"muon_qk_adam", "Adam on w_q, w_k, Muon on the other hidden matrices",
   "optimizer=muon override.optimizer=w_[qk]*:adam"},
  {"muon_split", "Muon on every head's block by itself (GLM-5)", "optimizer=muon muon.per_head=qkv"},
  {"muonclip_split", "Muon on every head's block by itself, with QK-Clip (Kimi K3)",
   "optimizer=muon muon.per_head=qkv stabilizers=qk_clip"},
  {"muon_quack", "Muon with adaptive learning rates of queries and keys (QuacK)",
   "optimizer=muon stabilizers=quack"},
  {"muonh", "Muon with weights of one Frobenius norm and steps relative to it (Hyperball)",
   "optimizer=muon stabilizers=hyperball train.weight_decay=0"},
  {"muon_sphere", "Muon with weights of one spectral norm and steps relative to it (MuonSphere)",
   "optimizer=muon stabilizers=spectral_sphere train.weight_decay=0"},
  {"manifold_muon", "momentum steps on matrices all of whose singular values are 1 (Manifold Muon)",
   "optimizer=muon muon.coefficients=none stabilizers=stiefel train.weight_decay=0"},
  {"mla_muon", "Muon on latent attention whose up-projections are taller than the latents are wide",
   "optimizer=muon stabilizers=none " TALL_MLA},
  {"mla_muonclip", "the same with QK-Clip per head (Kimi K2)",
   "optimizer=muon stabilizers=qk_clip " TALL_MLA},
  {NULL, NULL, NULL}};
