/* preset.h - presets are rows: a name for a few settings */
#ifndef MAXLOGIT_PRESET_H
#define MAXLOGIT_PRESET_H
struct preset {
  const char *name, *help, *settings;
};                                    /* "optimizer=muon stabilizers=qk_clip" */
extern const struct preset presets[]; /* ends with name NULL */
#endif
