/* preset.h - presets: a name for a few settings, with their source */
#ifndef MAXLOGIT_CONFIG_PRESET_H
#define MAXLOGIT_CONFIG_PRESET_H

/* A choice of the original model, and its value in a preset that is a small twin of the model. */
struct preset_fact {
  const char *what;     /* a key; or, with `here`, a choice for which no key exists */
  const char *here;     /* NULL: the key's value in the preset */
  const char *original; /* the value of the model */
};

struct preset {
  const char *name, *help;
  const char *settings; /* "optimizer=muon stabilizers=qk_clip" */
  const char *source;
  const struct preset_fact *originals; /* ends with an empty name; NULL: not a twin */
};
extern const struct preset presets[]; /* ends with name NULL */

/* The value of a key in the settings of a preset, its length in *len; NULL: none. */
const char *preset_setting(const struct preset *, const char *key, int *len);
#endif
