/* maxlogit eval: a finished run's weights on validation text, at its own context and at longer ones, and
   decoded token by token */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "analysis/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "run/trainer.h"
#include "storage/run_file.h"

enum { MAX_CONTEXTS = 16 };

struct options {
  struct request request;
  const char *context;
  long positions, json, continue_, decode, block; /* decode: enum decode_form, or -1 */
  double multiple[MAX_CONTEXTS];
  int contexts;
};

static const char *const forms[] = {"materialised", "absorbed", NULL}; /* by enum decode_form */

static const struct command_option options[] = {
  TEXT(context, 'c', "LIST", NULL,
       "contexts to evaluate at, as multiples of the trained one (default 1x,2x,4x; with --decode 1x)"),
  WHOLE(continue_, 's', "STEPS", "0", 0, 1e9,
        "train so many steps at each context before evaluating, same optimizer, constant rate, fresh state"),
  CHOICE(decode, 'd', forms, NULL,
         "the same text through a cache, against the training form: materialised (keys and "
         "values by head) or absorbed (mla: latents and the shared rotary key; with qk_norm, which is "
         "QK-normed MLA, one 1/rms by head beside them)"),
  WHOLE(block, 'b', "N", "16", 1, INT_MAX,
        "with --decode, tokens of a sequence that go through the cache at a time; 1: token by token. Results "
        "do not "
        "depend on it"),
  FLAG(positions, 'p', "the loss at every position instead of the summary"),
  FLAG(json, 'j', JSON_HELP),
  NO_OPTION,
};

static int add_context(void *input, const char *part)
{
  struct options *a = input;
  char *end;
  double x = strtod(part, &end);
  if (end == part || (strcmp(end, "x") && *end) || !(x > 0 && x <= 1e6) || a->contexts == MAX_CONTEXTS)
    return 1;
  a->multiple[a->contexts++] = x;
  return 0;
}

/* The run's configuration at another context, starting from its weights; tokens a batch stay the same. */
static int configure(const struct options *a, double multiple, struct config **out, struct error *e)
{
  struct config *c;
  if (trainer_config_of(a->request.words.word[0], &c, NULL, e)) return e->status;
  *out = c;
  const struct model_options *m = config_section(c, "model");
  const struct train_options *t = config_section(c, "train");
  long context = lround((double)m->context * multiple), batch = (long)floor((double)t->batch / multiple);
  char text[6][64];
  snprintf(text[0], 64, "%ld", context < 2 ? 2 : context);
  snprintf(text[1], 64, "%ld", batch < 1 ? 1 : batch);
  snprintf(text[2], 64, "%ld", (long)ceil((double)t->val_batches * (multiple > 1 ? multiple : 1)));
  snprintf(text[3], 64, "%ld", a->continue_ + 1);
  const char *set[][2] = {{"model.context", text[0]},
                          {"train.batch", text[1]},
                          {"train.micro_batches", "1"},
                          {"comm.context", "1"},
                          {"train.val_batches", text[2]},
                          {"train.steps", text[3]},
                          {"train.plant", ""},
                          {"train.schedule", "constant"},
                          {"train.warmup", "0"},
                          {"train.init_from", a->request.words.word[0]}};
  for (size_t i = 0; i < sizeof set / sizeof *set; i++)
    if (config_set(c, set[i][0], set[i][1], "eval", e)) return e->status;
  for (int i = 0; i < a->request.settings; i++)
    if (config_assign(c, a->request.setting[i], e)) return e->status;
  return config_finish(c, e);
}

/* One context: its mean loss, and by position. */
struct eval_result {
  double multiple, loss, tail;
  long context, modules;
  double *position;
  double ahead[MAX_MODULES], agreement[MAX_MODULES]; /* of modules of multi-token prediction */
  struct decode_result decoded;
};

static void evaluate_positions(struct trainer *t, struct eval_result *r)
{
  r->position = memory_new((size_t)r->context, sizeof *r->position);
  r->loss = trainer_evaluate(t, r->position, r->agreement);
  for (long k = 0; k < r->modules; k++) r->ahead[k] = trainer_ahead_loss(t, k);
  double sum = 0;
  long n = 0;
  for (long i = r->context * 3 / 4; i < r->context; i++)
    if (isfinite(r->position[i])) {
      sum += r->position[i];
      n++;
    }
  r->tail = sum / (double)n;
}

/* The run is where its weights come from; that this has a key is not a word of the user's. */
static int without_key(struct error *e)
{
  static const char key[] = "train.init_from: ";
  size_t length = sizeof key - 1;
  if (!strncmp(e->text, key, length)) memmove(e->text, e->text + length, strlen(e->text + length) + 1);
  return e->status;
}

/* Warn if the data differs from the run's, unless it was chosen on the command line. */
static void compare_data(const struct options *a, const struct trainer *t)
{
  struct run_file *run;
  uint64_t then, now, start;
  for (int i = 0; i < a->request.settings; i++)
    if (!strncmp(a->request.setting[i], "data", 4)) return;
  if (run_peek(&run, a->request.words.word[0], NULL)) return;
  trainer_contents(t, &now, &start);
  run_contents(run, &then, &start);
  if (then != now)
    warning("%s: trained on other data than what is there now: %s", a->request.words.word[0],
            trainer_data(t));
  run_close(run);
}

static int evaluate(const struct options *a, struct eval_result *r, struct error *e)
{
  struct config *c = NULL;
  struct trainer *t = NULL;
  const unsigned flags = TRAINER_NO_RECORD | (a->continue_ ? 0 : TRAINER_NO_STEPS);
  int status = configure(a, r->multiple, &c, e);
  if (!status && trainer_init(&t, c, flags, e)) {
    status = without_key(e);
    if (!strncmp(e->text, "data", 4))
      error_prefix(e, "%s", a->request.words.word[0]); /* its text was given from another folder */
  }
  if (!status && r->multiple == a->multiple[0]) compare_data(a, t);
  for (long s = 0; !status && s < a->continue_; s++) status = trainer_step(t, e);
  if (!status) {
    const struct model_options *m = config_section(c, "model");
    r->context = m->context;
    r->modules = m->mtp;
    if (a->decode >= 0)
      status = trainer_decode(t, (enum decode_form)a->decode, a->block, &r->decoded, e);
    else
      evaluate_positions(t, r);
  }
  if (t) trainer_abandon(t);
  if (c) config_free(c);
  return status;
}

static json_t *json_result(const struct eval_result *r)
{
  json_t *positions = json_array(), *modules = json_array();
  for (long i = 0; i < r->context; i++) json_array_append_new(positions, json_number(r->position[i]));
  for (long k = 0; k < r->modules; k++)
    json_array_append_new(modules, json_pack("{s:o, s:o}", "loss", json_number(r->ahead[k]), "agreement",
                                             json_number(r->agreement[k])));
  return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "context", (json_int_t)r->context, "multiple",
                   json_number(r->multiple), "loss", json_number(r->loss), "loss_last_quarter",
                   json_number(r->tail), "loss_by_position", positions, "modules", modules);
}

static json_t *json_decoded(const struct options *a, const struct eval_result *r)
{
  const struct decode_result *d = &r->decoded;
  return json_pack("{s:I, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "context", (json_int_t)r->context, "decode",
                   forms[a->decode], "tokens", (json_int_t)d->tokens, "cached_per_token",
                   (json_int_t)d->cached, "loss", json_number(d->training_loss), "decoded_loss",
                   json_number(d->decoded_loss), "largest_difference", json_number(d->difference), "rounding",
                   json_number(d->rounding));
}

static void print_decoded(const struct options *a, const struct eval_result *r, int first)
{
  const struct decode_result *d = &r->decoded;
  if (first)
    printf("# %s: %ld numbers cached a token; a rounding: what one of every weight does to a token's loss\n"
           "%8s %10s %12s %12s %12s %12s\n",
           forms[a->decode], d->cached, "context", "tokens", "loss", "decoded", "largest diff",
           "in roundings");
  printf("%8ld %10ld %12.6f %12.6f %12.2e %12.2f\n", r->context, d->tokens,
         without_nan_sign(d->training_loss), without_nan_sign(d->decoded_loss), d->difference,
         d->difference / d->rounding);
}

static void print(const struct options *a, const struct eval_result *r, int first)
{
  if (a->decode >= 0) {
    print_decoded(a, r, first);
    return;
  }
  if (!a->positions) {
    if (first) {
      printf("%8s %10s %12s %20s", "context", "tokens", "loss", "loss, last quarter");
      for (long k = 1; k <= r->modules; k++) printf("  loss +%ld agree +%ld", k, k);
      printf("\n");
    }
    printf("%7gx %10ld %12.4f %20.4f", r->multiple, r->context, without_nan_sign(r->loss),
           without_nan_sign(r->tail));
    for (long k = 0; k < r->modules; k++)
      printf(" %8.4f %7.2f%%", without_nan_sign(r->ahead[k]), 100 * r->agreement[k]);
    printf("\n");
    return;
  }
  if (first)
    printf("# loss by position, nat/token; one block a context\n# position loss\n");
  else
    printf("\n\n");
  printf("# context %gx = %ld\n", r->multiple, r->context);
  for (long i = 0; i < r->context; i++) printf("%ld %.6g\n", i, without_nan_sign(r->position[i]));
}

static int eval(void *request, struct error *e)
{
  struct options *a = request;
  const int decode = a->decode >= 0;
  if (decode && a->positions)
    return error_set(e, STATUS_USAGE, "eval: --decode and --positions do not go together");
  if (text_split(a->context ? a->context : decode ? "1" : "1,2,4", ',', add_context, a))
    return error_set(e, STATUS_USAGE, "eval --context: '%s': wanted a list like 1x,2x,4x", a->context);
  int status = STATUS_OK;
  json_t *all = json_array();
  for (int i = 0; !status && i < a->contexts; i++) {
    struct eval_result r = {.multiple = a->multiple[i]};
    status = evaluate(a, &r, e);
    if (!status && a->json)
      json_array_append_new(all, decode ? json_decoded(a, &r) : json_result(&r));
    else if (!status)
      print(a, &r, i == 0);
    memory_free(r.position);
  }
  if (a->json && !status)
    json_print(all);
  else
    json_decref(all);
  return status;
}

const struct command command_eval = {
  .name = "eval",
  .arguments = "RUN.h5 [key=value ...]",
  .help = "evaluate a run: loss at longer contexts, by position, and while decoding",
  .about = "Evaluate a run's latest checkpoint on validation batches, at its context and at longer ones.",
  .more = "key=value changes what cannot change the weights' shapes: model.rope_base, model.rope_scale, "
          "train.val_batches, data.path.\n\n"
          "With model.mtp = K, module k's loss (loss +k) is of the token k further on than the main head's; "
          "it agrees "
          "where both predict the same token, as a draft that the main head would accept.\n\n"
          "maxlogit eval a.h5 --context=1x,2x\nmaxlogit eval a.h5 --positions",
  OPTIONS,
  ONE_RUN,
  .settings = 1,
  .run = eval,
};
