/* axes.c - keys with several values: a sweep's axes and points */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "config/state.h"

static int is_key(void *context, int key, const char *value)
{
  (void)value;
  return *(int *)context == key;
}

/* Does assignment `later` set `key` for every choice of its value? */
static int overrides(const struct config *c, const struct assignment *later, int key)
{
  if (later->key == key) return 1;
  if (!config_is_preset(c, later->key)) return 0;
  for (int i = 0; i < later->count; i++)
    if (!config_preset_settings(c, later->value[i], is_key, &key)) return 0;
  return 1;
}

static int counts_in(const struct assignment *a, int arm) { return !a->arm || a->arm == arm; }

static int is_axis(const struct config *c, int index, int arm)
{
  if (c->list[index].count < 2 || !counts_in(&c->list[index], arm)) return 0;
  for (int i = index + 1; i < c->count; i++)
    if (counts_in(&c->list[i], arm) && overrides(c, &c->list[i], c->list[index].key)) return 0;
  return 1;
}

const struct assignment *config_first_axis(const struct config *c)
{
  for (int i = 0; i < c->count; i++)
    if (is_axis(c, i, 0)) return &c->list[i];
  return NULL;
}

/* The number of points of an arm; arm 0: of a configuration without arms. */
static long points_of(const struct config *c, int arm)
{
  long points = 1;
  for (int i = 0; i < c->count; i++)
    if (is_axis(c, i, arm) && __builtin_mul_overflow(points, (long)c->list[i].count, &points))
      return LONG_MAX;
  return points;
}

long config_points(const struct config *c)
{
  long points = c->arms ? 0 : points_of(c, 0);
  for (int arm = 1; arm <= c->arms; arm++)
    if (__builtin_add_overflow(points, points_of(c, arm), &points)) return LONG_MAX;
  return points;
}

/* The arm of a point; *index becomes the index within the arm. */
static int arm_of(const struct config *c, long *index)
{
  for (int arm = 1; arm <= c->arms; arm++) {
    long points = points_of(c, arm);
    if (*index < points) return arm;
    *index -= points;
  }
  return 0;
}

/* Choose the value of each axis for point `index`, and call visit(context, assignment, value, is_axis). Returns the
   name of its arm, NULL without arms. */
static const char *visit_point(const struct config *c, long index,
                               void (*visit)(void *, const struct assignment *, const char *, int),
                               void *context)
{
  long all = config_points(c);
  REQUIRE(index >= 0 && index < all && all < LONG_MAX);
  int arm = arm_of(c, &index);
  long block = points_of(c, arm);
  for (int i = 0; i < c->count; i++) {
    const struct assignment *a = &c->list[i];
    if (!counts_in(a, arm)) continue;
    int axis = is_axis(c, i, arm);
    if (axis) block /= a->count;
    visit(context, a, a->value[axis ? index / block % a->count : 0], axis);
  }
  return arm ? c->arm[arm - 1] : NULL;
}

static void copy_assignment(void *context, const struct assignment *a, const char *value, int axis)
{
  struct config *copy = context;
  (void)axis;
  struct assignment one = {a->key, arena_text(copy->arena, a->origin), 1, config_values_new(copy, 1), 0};
  one.value[0] = arena_text(copy->arena, value);
  config_add(copy, one);
}

struct config *config_point(const struct config *c, long index)
{
  struct config *copy = config_new();
  const char *arm = visit_point(c, index, copy_assignment, copy);
  if (arm) config_set(copy, "arm", arm, "[arm]", NULL);
  return copy;
}

struct label {
  const struct config *config;
  char *out;
  size_t room;
};

static void add_label(void *context, const struct assignment *a, const char *value, int axis)
{
  struct label *l = context;
  if (!axis) return;
  size_t used = strlen(l->out);
  snprintf(l->out + used, l->room - used, "%s%s=%s", used ? " " : "", l->config->keys[a->key].name, value);
}

void config_point_label(const struct config *c, long index, char *out, size_t room)
{
  struct label l = {c, out, room};
  long within = index;
  int arm = arm_of(c, &within);
  *out = 0;
  if (arm) snprintf(out, room, "arm=%s", c->arm[arm - 1]);
  visit_point(c, index, add_label, &l);
}
