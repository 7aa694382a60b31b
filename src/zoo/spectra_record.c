/* spectra_record.c - writes spectra of a checkpoint as a file like a run's, with one row per series */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "zoo/spectra.h"
#include "base/memory.h"
#include "storage/recorder.h"

struct spectra_writing {
  struct recorder *recorder;
  const struct checkpoint_spectra *spectra;
  float *values; /* room for the widest series */
};

static void put(struct spectra_writing *w, const char *name, enum series_shape shape, const char *long_name,
                const char *definition)
{
  struct series s = {name, shape, AXIS_SPECTRA, "1", long_name, definition, EVENT_NONE};
  recorder_put(w->recorder, recorder_series(w->recorder, &s), w->values);
}

/* --- matrices ------------------------------------------------------------------------------------------ */

/* Some names are longer than their place in the file: keep their ends, which are more specific. */
enum { NAME_WIDTH = 63 };

static const char *end_of(const char *name)
{
  size_t length = strlen(name);
  return length > NAME_WIDTH ? name + length - NAME_WIDTH : name;
}

static void put_matrices(struct spectra_writing *w)
{
  static const struct {
    const char *group, *what;
    int quantile, experts; /* experts: only for them, NaN elsewhere */
  } groups[] = {{"weight", "the weight; of experts the median", QUANTILE_MEDIAN, 0},
                {"experts_q00", "an expert, the least", QUANTILE_LEAST, 1},
                {"experts_q25", "an expert, first quartile", 1, 1},
                {"experts_q75", "an expert, third quartile", 3, 1},
                {"experts_q100", "an expert, the most", QUANTILE_MOST, 1}};
  const struct checkpoint_spectra *s = w->spectra;
  int experts = 0;
  for (long i = 0; i < s->matrices; i++) experts |= s->matrix[i].count > 1;
  for (size_t g = 0; g < sizeof groups / sizeof *groups && s->matrices; g++)
    for (int f = 0; f < SPECTRUM_FIELDS && (experts || !groups[g].experts); f++) {
      char name[96], long_name[128], definition[256];
      for (long i = 0; i < s->matrices; i++)
        w->values[i] = groups[g].experts && s->matrix[i].count == 1
                         ? NAN
                         : (float)spectrum_number(&s->matrix[i].quantile[groups[g].quantile], f);
      snprintf(name, sizeof name, "%s/%s", groups[g].group, spectrum_fields[f].name);
      snprintf(long_name, sizeof long_name, "%s of %s", spectrum_fields[f].long_name, groups[g].what);
      snprintf(definition, sizeof definition, "%s; n = min(rows, columns)", spectrum_fields[f].definition);
      put(w, name, PER_TENSOR, long_name, definition);
    }
}

/* --- heads --------------------------------------------------------------------------------------------- */

static const struct spectrum *object_of(const struct head_spectrum *h, int part, int object)
{
  if (part >= h->parts) return NULL;
  return object == 0 ? &h->part[part].q : object == 1 ? &h->part[part].k : &h->part[part].form;
}

static void put_heads(struct spectra_writing *w)
{
  static const struct {
    const char *group, *what;
    int part, object;
  } groups[] = {
    {"head_q", "the head's rows of w_q (w_qc for mla)", 0, 0},
    {"head_k", "the rows of w_k (w_kc for mla) that serve the head", 0, 1},
    {"head_qk", "the head's bilinear form w_q^T w_k, n = head size", 0, 2},
    {"head_qr", "the head's rows of w_qr", 1, 0},
    {"head_kr", "w_kr", 1, 1},
    {"head_qkr", "the head's rotary form w_qr^T w_kr, n = rotary size", 1, 2},
  };
  const struct checkpoint_spectra *s = w->spectra;
  long heads = s->layers * s->heads;
  int parts = 0;
  for (long i = 0; i < heads; i++) parts = s->head[i].parts > parts ? s->head[i].parts : parts;
  for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
    for (int f = 0; f < SPECTRUM_FIELDS && groups[g].part < parts; f++) {
      char name[96], long_name[128];
      for (long i = 0; i < heads; i++) {
        const struct spectrum *x = object_of(&s->head[i], groups[g].part, groups[g].object);
        w->values[i] = x ? (float)spectrum_number(x, f) : NAN;
      }
      snprintf(name, sizeof name, "%s/%s", groups[g].group, spectrum_fields[f].name);
      snprintf(long_name, sizeof long_name, "%s of %s", spectrum_fields[f].long_name, groups[g].what);
      put(w, name, PER_HEAD, long_name, spectrum_fields[f].definition);
    }
}

static void put_bounds(struct spectra_writing *w)
{
  const struct checkpoint_spectra *s = w->spectra;
  long heads = s->layers * s->heads;
  for (long i = 0; i < heads; i++) w->values[i] = (float)s->head[i].bound;
  put(w, "attn/bound", PER_HEAD, "bound on |logit|",
      "largest |logit| that any input and any two positions could have, before any cap: scale (sqrt(D)|A| + "
      "|c_q|) "
      "(sqrt(D)|B| + |c_k|), A and B the head's rows with the gain of the norm before, c the biases; mla: "
      "the largest sum of content and rotary part over one query, the latent and the rotary key being any of "
      "their length; "
      "under norms of queries and keys from their gains alone (kexue.fm/archives/11126); "
      "where no head turns as attn/bound_still");
  for (long i = 0; i < heads; i++) w->values[i] = (float)s->head[i].still;
  put(w, "attn/bound_still", PER_HEAD, "bound on |logit| without a turn",
      "as attn/bound, between positions that rotation does not turn against each other: norms of products "
      "instead of products of norms; mla: at most attn/bound");
  for (long i = 0; i < heads; i++) {
    const struct head_spectrum *h = &s->head[i];
    w->values[i] = h->terms ? (float)(h->term[h->largest].value / h->bound) : NAN;
  }
  put(w, "attn/bound_share", PER_HEAD, "share of the largest part in the bound",
      "of the terms that attn/bound is the sum of, the largest over the sum");
}

/* --- the file ------------------------------------------------------------------------------------------ */

static void put_parameter(struct recorder *r, const char *key, const char *value, const char *help)
{
  recorder_parameter(r, key, value, help, "checkpoint");
}

static void put_parameters(struct recorder *r, const struct checkpoint_spectra *s, const char *family,
                           const char *source)
{
  char text[32];
  put_parameter(r, "checkpoint.family", family, "whose naming it has: see maxlogit spectra --help");
  put_parameter(r, "checkpoint.source", source, "what the numbers are of");
  snprintf(text, sizeof text, "%ld", s->layers);
  put_parameter(r, "model.layers", text, "layers");
  snprintf(text, sizeof text, "%ld", s->heads);
  put_parameter(r, "model.heads", text, "heads of a layer");
}

int checkpoint_spectra_record(const struct checkpoint_spectra *s, const char *path, const char *family,
                              const char *source, long step, struct error *e)
{
  const char **names = memory_new((size_t)s->matrices + 1, sizeof *names);
  size_t heads = (size_t)(s->layers * s->heads),
         widest = (size_t)s->matrices > heads ? (size_t)s->matrices : heads;
  char id[16];
  XXH64_hash_t hash = XXH3_64bits(source, strlen(source));
  for (long i = 0; i < s->matrices; i++) {
    names[i] = end_of(s->matrix[i].name);
    hash = XXH3_64bits_withSeed(s->matrix[i].quantile, sizeof s->matrix[i].quantile, hash);
  }
  for (size_t i = 0; i < heads; i++) hash = XXH3_64bits_withSeed(&s->head[i].bound, sizeof(double), hash);
  snprintf(id, sizeof id, "%012" PRIx64, (uint64_t)hash & 0xffffffffffff);
  struct run_facts facts = {.id = id,
                            .device = "cpu",
                            .data = "checkpoint",
                            .data_text = source,
                            .layers = s->layers,
                            .heads = s->heads,
                            .tensors = (int)s->matrices,
                            .tensor_names = names,
                            .loss_floor = NAN,
                            .data_content = hash};
  struct spectra_writing w = {.spectra = s};
  int status = recorder_refuse_rest(path, "--output takes another name", e);
  if (!status) status = recorder_create(&w.recorder, path, 0, NULL, &facts, e);
  if (!status) {
    w.values = memory_new(widest + 1, sizeof *w.values);
    put_parameters(w.recorder, s, family, source);
    put_matrices(&w);
    if (s->head) put_heads(&w);
    if (s->head) put_bounds(&w);
    recorder_row(w.recorder, AXIS_SPECTRA, step);
    status = recorder_snapshot(w.recorder, "finished", step, 0, 1, e);
    recorder_free(w.recorder);
    memory_free(w.values);
  }
  memory_free(names);
  return status;
}
