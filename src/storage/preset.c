/* preset.c - the presets */
#include "storage/preset.h"
#include <stddef.h>

const struct preset presets[] = {
  {"adam", "AdamW on every tensor", "optimizer=adam stabilizers=none"},
  {"muon", "Muon on hidden matrices, AdamW on the rest", "optimizer=muon stabilizers=none"},
  {"muonclip", "Muon with QK-Clip per head (Kimi K2)", "optimizer=muon stabilizers=qk_clip"},
  {"adamclip", "AdamW with QK-Clip per head", "optimizer=adam stabilizers=qk_clip"},
  {NULL, NULL, NULL}
};
