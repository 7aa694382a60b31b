/* preset.h - presets are rows: a name for a few settings, with where they come from */
#ifndef MAXLOGIT_CONFIG_PRESET_H
#define MAXLOGIT_CONFIG_PRESET_H

/* What a preset that is a small twin of a model made of one of its choices. */
struct preset_fact {
  const char *what;     /* a key; or, with `here`, what no key can say */
  const char *here;     /* NULL: the key's value under the preset */
  const char *original; /* the model's own */
};

struct preset {
  const char *name, *help;
  const char *settings; /* "optimizer=muon stabilizers=qk_clip" */
  const char *source;
  const struct preset_fact *originals; /* ends with what NULL; NULL: no twin */
};
extern const struct preset presets[]; /* ends with name NULL */

/* The value that settings of a preset give a key, len its length; NULL: none. */
const char *preset_setting(const struct preset *, const char *key, int *len);
#endif
