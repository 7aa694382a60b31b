/* play.c - applies the list of assignments to the option structs, in order */
#include "base/text.h"
#include "config/config.h"
#include "config/state.h"
#include "model/model.h"
#include "training/data.h"

struct playing {
  struct config *config;
  const char *origin;
};

static int play(void *context, int index, const char *value)
{
  struct playing *p = context;
  struct key *key = &p->config->keys[index];
  struct error e = {0};
  if (config_check_value(key, value, &e) || option_parse(key->row, key->base, value, &e))
    BUG("%s: %s: %s", p->origin, key->name, e.text);
  key->origin = p->origin;
  return 0;
}

static int play_preset_setting(void *context, int index, const char *value)
{
  struct playing *p = context;
  return play(p, index, arena_text(p->config->arena, value));
}

int config_finish(struct config *c, struct error *e)
{
  const struct assignment *axis = config_first_axis(c);
  if (c->arms)
    return error_set(e, STATUS_USAGE, "[arm %s]: arms are for maxlogit sweep; a run is one of them",
                     c->arm[0]);
  if (axis)
    return error_set(e, STATUS_USAGE,
                     "%s: %s: %d values where a run takes one (several: maxlogit sweep; "
                     "a comma in a text: put it in quotes)",
                     axis->origin, c->keys[axis->key].name, axis->count);
  config_set_defaults(c);
  for (int i = 0; i < c->key_count; i++) c->keys[i].origin = NULL;
  for (int i = 0; i < c->count; i++) {
    const struct assignment *a = &c->list[i];
    struct playing p = {c, a->origin};
    play(&p, a->key, a->value[0]);
    if (config_is_preset(c, a->key)) {
      p.origin = arena_format(c->arena, "preset %s", a->value[0]);
      config_preset_settings(c, a->value[0], play_preset_setting, &p);
    }
  }
  const struct data_options *text = config_section(c, "data");
  const int data = config_find_key(c, "data");
  if (!c->keys[data].origin && *text->path) /* a text file with a name must be read */
    play(&(struct playing){c, "data.path"}, data, "bytes");
  struct model_options *model = config_section(c, "model");
  model->ffn_options = config_section(c, model->ffn);
  return STATUS_OK;
}
