/* clip.c - maxlogit/clip.h: the program of training/stabilizers/qk_clip.c, for one layer, on the reference device */
#include "maxlogit/clip.h"
#include <math.h>
#include <string.h>
#include "base/c_locale.h"
#include "base/error_export.h"
#include "training/stabilizers/qk_clip.h"

enum { MOST_HEADS = 4096 }; /* of a layer; the layer scope needs memory for its square */

static int check(const struct maxlogit_clip *c, long heads, long kv_heads, struct error *e)
{
  if (!(c->tau > 0) || !isfinite(c->tau)) return error_set(e, STATUS_USAGE, "tau is %g; more than 0", c->tau);
  if (!(c->alpha >= 0 && c->alpha <= 1)) return error_set(e, STATUS_USAGE, "alpha is %g; 0 to 1", c->alpha);
  if (heads < 1 || heads > MOST_HEADS || kv_heads < 1 || heads % kv_heads)
    return error_set(e, STATUS_USAGE, "%ld heads with %ld keys: heads is a multiple of keys, at most %d",
                     heads, kv_heads, MOST_HEADS);
  if ((int)c->scope < 0 || c->scope > MAXLOGIT_SCOPE_LAYER || (int)c->gqa < 0 ||
      c->gqa > MAXLOGIT_GQA_COMPENSATED || (int)c->mla < 0 || c->mla > MAXLOGIT_MLA_KR_HEAD)
    return error_set(e, STATUS_USAGE, "no such scope or rule");
  return STATUS_OK;
}

/* The output arrays for the factors of rows, by role; each factor is that of the first head with the rows. */
enum { ROLES = ROLE_K_ROPE_SHARED + 1 };
struct factors {
  struct {
    float *to;
    long count;
  } role[ROLES];
  float *gamma;
};

static int compute(const struct maxlogit_clip *c, const float *max_logit, long heads, long kv_heads,
                   const struct factors *out, struct maxlogit_error *error)
{
  /* scopes and MLA rules have the order of qk_clip.h */
  static const long gqa[] = {QK_CLIP_Q_ONLY, QK_CLIP_GROUP_MAX, QK_CLIP_OWN_Q_MIN_K, QK_CLIP_COMPENSATED};
  IN_C_LOCALE;
  struct error e = {0};
  int status = check(c, heads, kv_heads, &e);
  if (status) return error_export(error, status, &e);
  const struct qk_clip options = {
    .tau = c->tau, .alpha = c->alpha, .scope = c->scope, .gqa = gqa[c->gqa], .mla = c->mla};
  struct device *device = device_reference(); /* its memory is host memory */
  struct numbers *numbers = numbers_new(device, 3);
  struct program *p = program_new(device);
  struct tensor *logit = program_input(p, TENSOR_REAL, heads, 1, "max logit"), *by_head[ROLES] = {NULL},
                *gamma = program_temporary(p, 1, heads, "gamma");
  int *group = kv_heads < heads ? program_memory(p, (size_t)heads, sizeof *group) : NULL;
  for (long h = 0; group && h < heads; h++) group[h] = (int)(h * kv_heads / heads);
  struct qk_clip_factors f = qk_clip_factors(p, numbers, &options, logit, (int)heads, group);
  for (int i = 0; i < ROLES; i++)
    if (out->role[i].to && (by_head[i] = qk_clip_factor(p, &f, (enum role)i))) program_keep(p, by_head[i]);
  qk_clip_logit_scale(p, &f, gamma);
  program_keep(p, gamma);
  program_plan(p);
  memcpy(REALS(logit), max_logit, (size_t)heads * sizeof *max_logit);
  program_run(p);
  for (int i = 0; i < ROLES; i++)
    for (long j = 0, n = out->role[i].count; j < n; j++)
      out->role[i].to[j] = by_head[i] ? REALS(by_head[i])[j * heads / n] : 1;
  if (out->gamma) memcpy(out->gamma, REALS(gamma), (size_t)heads * sizeof *out->gamma);
  program_free(p);
  numbers_free(numbers);
  device_close(device);
  return error_export(error, STATUS_OK, &e);
}

int maxlogit_clip_factors(const struct maxlogit_clip *c, const float *max_logit, long heads, long kv_heads,
                          float *q, float *k, float *gamma, struct maxlogit_error *error)
{
  struct factors out = {.gamma = gamma, .role[ROLE_Q_HEAD] = {q, heads}};
  const enum role key = kv_heads < heads ? ROLE_K_GROUP : ROLE_K_HEAD;
  out.role[key].to = k, out.role[key].count = kv_heads;
  return compute(c, max_logit, heads, kv_heads, &out, error);
}

int maxlogit_clip_factors_mla(const struct maxlogit_clip *c, const float *max_logit, long heads, float *q,
                              float *k, float *q_rope, float *k_rope, float *gamma,
                              struct maxlogit_error *error)
{
  const struct factors out = {.role = {[ROLE_Q_HEAD] = {q, heads},
                                       [ROLE_K_HEAD] = {k, heads},
                                       [ROLE_Q_ROPE] = {q_rope, heads},
                                       [ROLE_K_ROPE_SHARED] = {k_rope, 1}},
                              .gamma = gamma};
  return compute(c, max_logit, heads, heads, &out, error);
}
