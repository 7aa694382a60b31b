/* bytes.c - any file or files as text: symbols are bytes, windows are drawn at random (UTF-8 is bytes) */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "training/data.h"

struct text {
  unsigned char *token; /* [length] */
  unsigned char *ends;  /* [length]: 1 where a document ends; NULL without packing */
  size_t length, train; /* validation is [train, length) */
};

/* --- reading ------------------------------------------------------------------------------------------ */
struct text_reading {
  struct text *text;
  struct error *error;
};

static int read_part(void *context, const char *path)
{
  struct text_reading *r = context;
  char *bytes;
  size_t length;
  if (file_read(path, &bytes, &length, r->error)) {
    struct error why = *r->error;
    char here[4096];
    *r->error = (struct error){0};
    if (*path == '/' || !getcwd(here, sizeof here))
      return error_set(r->error, STATUS_USAGE, "data.path: %s", why.text);
    return error_set(r->error, STATUS_USAGE, "data.path: %s (seen from %s; data.path=FILE names it anew)",
                     why.text, here);
  }
  struct text *t = r->text;
  t->token = memory_grow(t->token, t->length, t->length + length, 1);
  memcpy(t->token + t->length, bytes, length);
  t->length += length;
  memory_free(bytes);
  return STATUS_OK;
}

static int read_all(struct text *text, const char *path, struct error *e)
{
  if (!*path)
    return error_set(e, STATUS_USAGE,
                     "data.path: no file given; data=bytes reads any file, as in "
                     "data.path=book.txt (data=markov needs none)");
  int status = text_split(path, '+', read_part, &(struct text_reading){text, e});
  if (!status && !text->length) return error_set(e, STATUS_USAGE, "data.path: %s: the text is empty", path);
  return status;
}

/* --- documents ---------------------------------------------------------------------------------------- */
/* \n, \t and \\ as in C; returns the length of `out`. */
static size_t unescape(const char *text, unsigned char out[static 64])
{
  size_t n = 0;
  for (; *text && n < 64; text++)
    if (*text == '\\' && text[1])
      out[n++] = *++text == 'n' ? '\n' : *text == 't' ? '\t' : *text;
    else
      out[n++] = *text;
  return n;
}

static int find_documents(struct text *text, const char *separator, struct error *e)
{
  unsigned char mark[64];
  size_t length = unescape(separator, mark), last = 0;
  if (!length)
    return error_set(e, STATUS_USAGE,
                     "data.separator: empty, but data.packing=documents needs the text that "
                     "ends a document, as in \\n\\n");
  text->ends = memory_new(text->length, 1);
  for (size_t i = length; i <= text->length; i++)
    if (!memcmp(text->token + i - length, mark, length)) {
      if (last && i - last <= length) /* separators in a row end one document */
        text->ends[last - 1] = 0;
      text->ends[i - 1] = 1;
      last = i;
    }
  if (!last)
    return error_set(e, STATUS_USAGE,
                     "data.separator: \"%s\" does not occur in the text, so there are no "
                     "documents to pack",
                     separator);
  return STATUS_OK;
}

/* --- symbols ------------------------------------------------------------------------------------------ */
static void name_symbol(char out[8], int byte)
{
  if (byte == '\n')
    snprintf(out, 8, "\\n");
  else if (byte == '\t')
    snprintf(out, 8, "\\t");
  else if (byte >= 32 && byte < 127)
    out[0] = (char)byte;
  else
    snprintf(out, 8, "\\x%02x", byte);
}

/* Bytes to tokens: the symbols that occur, sorted, or all 256. */
static void number_symbols(struct data *data, struct text *text, long vocab)
{
  int occurs[256] = {0}, number[256];
  for (size_t i = 0; i < text->length; i++) occurs[text->token[i]] = 1;
  for (int b = 0; b < 256; b++)
    if (occurs[b] || vocab == DATA_BYTE) {
      number[b] = (int)data->vocab;
      name_symbol(data->symbols[data->vocab++], b);
    }
  for (size_t i = 0; i < text->length; i++) text->token[i] = (unsigned char)number[text->token[i]];
}

/* --- the source --------------------------------------------------------------------------------------- */
/* Hash of everything that determines the drawn tokens: the bytes, and how they are cut. */
static uint64_t hash(const struct text *text, const struct data_options *o)
{
  char cut[128];
  int n = snprintf(cut, sizeof cut, "bytes %ld %.17g %ld %.64s", o->vocab, o->val_fraction, o->packing,
                   o->packing ? o->separator : "");
  return XXH3_64bits_withSeed(text->token, text->length, XXH3_64bits(cut, (size_t)n));
}

static int check_length(const struct text *text, const struct data_options *o, long context, struct error *e)
{
  size_t val = text->length - text->train, least = val < text->train ? val : text->train;
  if (least > (size_t)context) return STATUS_OK;
  return error_set(
    e, STATUS_USAGE,
    "data.path: %s: the text is too short: its %zu bytes leave %zu for training and "
    "%zu for validation (data.val_fraction = %g), and a context of %ld needs at least %ld of each",
    o->path, text->length, text->train, val, o->val_fraction, context, context + 1);
}

static void release(struct data *data)
{
  struct text *text = data->state;
  memory_free(text->token);
  memory_free(text->ends);
  memory_free(text);
}

static int init(struct data *data, const struct data_options *o, const void *options, long context,
                uint64_t seed, struct error *e)
{
  (void)options, (void)seed;
  struct text *text = data->state = memory_new(1, sizeof *text);
  int status = read_all(text, o->path, e);
  text->train = text->length - (size_t)(o->val_fraction * (double)text->length);
  if (!status) status = check_length(text, o, context, e);
  if (!status && o->packing == DATA_PACKING_DOCUMENTS) status = find_documents(text, o->separator, e);
  if (status) {
    release(data);
    return status;
  }
  data->content = hash(text, o);
  number_symbols(data, text, o->vocab);
  data->loss_floor = NAN;
  data->has_mask = data->has_document = o->packing == DATA_PACKING_DOCUMENTS;
  snprintf(data->description, sizeof data->description, "%.160s, %zu bytes, %ld symbols",
           strchr(o->path, '+') ? o->path : text_file_name(o->path), text->length, data->vocab);
  return STATUS_OK;
}

static void fill(const struct data *data, enum data_split split, uint64_t seed, uint64_t index,
                 struct batch *out)
{
  const struct text *text = data->state;
  size_t from = split == DATA_TRAIN ? 0 : text->train;
  size_t length = split == DATA_TRAIN ? text->train : text->length - text->train;
  long T = out->context;
  struct draw draw = data_draw(split, seed, index);
  for (long b = 0; b < out->batch; b++) {
    size_t at = from + draw_below(draw, (uint64_t)b, length - (size_t)T);
    int document = 0;
    for (long t = 0; t <= T; t++) out->tokens[b * (T + 1) + t] = text->token[at + (size_t)t];
    for (long t = 0; text->ends && t < T; t++) {
      out->document[b * T + t] = document;
      if (text->ends[at + (size_t)t]) out->mask[b * T + t] = 0, document++;
    }
  }
}

const struct data_source data_source_bytes = {
  .name = "bytes",
  .help = "any text: data.path names a file, or files joined by +",
  .init = init,
  .fill = fill,
  .free = release,
};
