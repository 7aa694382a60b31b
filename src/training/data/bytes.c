/* bytes.c - any file or files as text: bytes, words or subwords; windows are drawn at random (UTF-8 is bytes) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "training/bpe.h"
#include "training/data.h"

struct text {
  uint16_t *token;      /* [length] */
  unsigned char *ends;  /* [length]: 1 where a document ends; NULL without packing */
  size_t length, train; /* validation is [train, length) */
};

/* As it is read. */
struct bytes {
  unsigned char *byte; /* [length] */
  unsigned char *ends; /* as in struct text */
  size_t length;
};

/* --- reading ------------------------------------------------------------------------------------------ */
struct text_reading {
  struct bytes *bytes;
  struct error *error;
};

static int read_part(void *context, const char *path)
{
  struct text_reading *r = context;
  char *part;
  size_t length;
  if (file_read(path, &part, &length, r->error)) {
    struct error why = *r->error;
    char here[4096];
    *r->error = (struct error){0};
    if (*path == '/' || !getcwd(here, sizeof here))
      return error_set(r->error, STATUS_USAGE, "data.path: %s", why.text);
    return error_set(r->error, STATUS_USAGE, "data.path: %s (seen from %s; data.path=FILE names it anew)",
                     why.text, here);
  }
  struct bytes *all = r->bytes;
  all->byte = memory_grow(all->byte, all->length, all->length + length, 1);
  memcpy(all->byte + all->length, part, length);
  all->length += length;
  memory_free(part);
  return STATUS_OK;
}

static int read_all(struct bytes *all, const char *path, struct error *e)
{
  if (!*path)
    return error_set(e, STATUS_USAGE,
                     "data.path: no file given; data=bytes reads any file, as in "
                     "data.path=book.txt (data=markov needs none)");
  int status = text_split(path, '+', read_part, &(struct text_reading){all, e});
  if (!status && !all->length) return error_set(e, STATUS_USAGE, "data.path: %s: the text is empty", path);
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

static int find_documents(struct bytes *text, const char *separator, struct error *e)
{
  unsigned char mark[64];
  size_t length = unescape(separator, mark), last = 0;
  if (!length)
    return error_set(e, STATUS_USAGE,
                     "data.separator: empty, but data.packing=documents needs the text that "
                     "ends a document, as in \\n\\n");
  text->ends = memory_new(text->length, 1);
  for (size_t i = length; i <= text->length; i++)
    if (!memcmp(text->byte + i - length, mark, length)) {
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

/* --- tokens ------------------------------------------------------------------------------------------- */
/* The bytes that occur, in order, or all 256. */
static void number_bytes(struct data *data, struct text *text, const struct bytes *from, long vocab)
{
  int occurs[256] = {0};
  uint16_t number[256];
  for (size_t i = 0; i < from->length; i++) occurs[from->byte[i]] = 1;
  for (int b = 0; b < 256; b++)
    if (occurs[b] || vocab == DATA_BYTE) number[b] = (uint16_t)data->vocab++;
  text->length = from->length;
  text->token = memory_new(text->length, sizeof *text->token);
  for (size_t i = 0; i < text->length; i++) text->token[i] = number[from->byte[i]];
  if (!from->ends) return;
  text->ends = memory_new(text->length, 1);
  memcpy(text->ends, from->ends, text->length);
}

/* Bytes that words consist of: with data.vocab=words, and with bpe. */
static int in_word(unsigned char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '\'' || c >= 128;
}

static int not_space(unsigned char c) { return c != ' ' && (c < '\t' || c > '\r'); }

static size_t piece_length(const unsigned char *text, size_t left, int (*inside)(unsigned char))
{
  size_t n = left > 1 && *text == ' ' && inside(text[1]);
  if (!inside(text[n])) return 1;
  while (n < left && inside(text[n])) n++;
  return n;
}

static int compare_pieces(const void *a, const void *b)
{
  const struct piece *x = a, *y = b;
  const int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
  return order ? order : (x->length > y->length) - (x->length < y->length);
}

static int compare_counts(const void *a, const void *b)
{
  const struct piece *const *x = a, *const *y = b;
  return (*x)->count != (*y)->count ? ((*x)->count < (*y)->count ? 1 : -1) : compare_pieces(*x, *y);
}

/* The pieces of a text, equal ones side by side, and the first of each. */
struct cut_text {
  struct piece *piece, **word;
  size_t length, words;
};

static struct cut_text cut(const struct bytes *from, int (*inside)(unsigned char))
{
  struct cut_text p = {0};
  size_t at = 0, n = 0;
  for (; at < from->length; at += piece_length(from->byte + at, from->length - at, inside)) n++;
  p.piece = memory_new(p.length = n, sizeof *p.piece);
  p.word = memory_new(n, sizeof *p.word);
  for (size_t i = at = 0; i < n; at += p.piece[i++].length)
    p.piece[i] =
      (struct piece){from->byte + at, piece_length(from->byte + at, from->length - at, inside), i, 0};
  qsort(p.piece, n, sizeof *p.piece, compare_pieces);
  for (size_t i = 0; i < n; i++) {
    if (!i || compare_pieces(&p.piece[i - 1], &p.piece[i])) p.word[p.words++] = &p.piece[i];
    p.word[p.words - 1]->count++;
  }
  return p;
}

/* Memory for tokens that are numbered next; a token ends a document where one of its bytes does. */
static void new_tokens(struct text *text, const struct bytes *from, size_t length)
{
  text->token = memory_new(text->length = length, sizeof *text->token);
  if (from->ends) text->ends = memory_new(length, 1);
}

static void add_token(struct text *text, const struct bytes *from, size_t i, long token, size_t at,
                      size_t length)
{
  text->token[i] = (uint16_t)token;
  for (size_t k = 0; text->ends && k < length; k++) text->ends[i] |= from->ends[at + k];
}

/* Words by frequency; beyond the `most` - 1 most frequent, one token for all others. */
static void number_words(struct data *data, struct text *text, const struct bytes *from, long most)
{
  struct cut_text p = cut(from, in_word);
  qsort(p.word, p.words, sizeof *p.word, compare_counts);
  data->vocab = p.words > (size_t)most ? most : (long)p.words;
  new_tokens(text, from, p.length);
  for (size_t w = 0; w < p.words; w++)
    for (const struct piece *x = p.word[w]; x < p.word[w] + p.word[w]->count; x++)
      add_token(text, from, x->place, w < (size_t)data->vocab ? (long)w : data->vocab - 1,
                (size_t)(x->text - from->byte), x->length);
  memory_free(p.piece), memory_free(p.word);
}

/* Words as symbols of a byte-pair encoding. */
static void number_subwords(struct data *data, struct text *text, const struct bytes *from, long most)
{
  struct cut_text p = cut(from, not_space);
  struct bpe bpe = bpe_learn(p.word, p.words, most);
  size_t *word = memory_new(p.length, sizeof *word), tokens = 0, at = 0;
  for (size_t w = 0; w < p.words; w++) {
    for (size_t i = 0; i < p.word[w]->count; i++) word[p.word[w][i].place] = w;
    tokens += p.word[w]->count * (bpe.first[w + 1] - bpe.first[w]);
  }
  new_tokens(text, from, tokens);
  for (size_t i = 0, n = 0; i < p.length; i++)
    for (size_t k = bpe.first[word[i]]; k < bpe.first[word[i] + 1]; at += bpe.length[bpe.symbol[k++]])
      add_token(text, from, n++, bpe.symbol[k], at, bpe.length[bpe.symbol[k]]);
  data->vocab = bpe.vocab;
  bpe_free(&bpe);
  memory_free(word), memory_free(p.piece), memory_free(p.word);
}

/* --- the source --------------------------------------------------------------------------------------- */
/* Hash of everything that determines the drawn tokens: the bytes, and how they are cut. */
static uint64_t hash(const struct bytes *text, const struct data_options *o)
{
  const long tokens = o->vocab == DATA_WORDS ? -o->symbols : o->vocab == DATA_BPE ? o->symbols : o->vocab;
  char how[128];
  int n = snprintf(how, sizeof how, "bytes %ld %.17g %ld %.64s", tokens, o->val_fraction, o->packing,
                   o->packing ? o->separator : "");
  return XXH3_64bits_withSeed(text->byte, text->length, XXH3_64bits(how, (size_t)n));
}

static int check_length(const struct text *text, const struct data_options *o, long context, struct error *e)
{
  size_t val = text->length - text->train, least = val < text->train ? val : text->train;
  if (least > (size_t)context) return STATUS_OK;
  return error_set(
    e, STATUS_USAGE,
    "data.path: %s: the text is too short: its %zu tokens leave %zu for training and "
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

static int read_text(struct bytes *from, const struct data_options *o, struct error *e)
{
  if (o->vocab == DATA_BPE && o->symbols <= BPE_BYTES)
    return error_set(e, STATUS_USAGE, "data.symbols: must be 257 to 65536 with data.vocab=bpe, got %ld",
                     o->symbols);
  const int status = read_all(from, o->path, e);
  return status || o->packing != DATA_PACKING_DOCUMENTS ? status : find_documents(from, o->separator, e);
}

static int init(struct data *data, const struct data_options *o, const void *options, long context,
                uint64_t seed, struct error *e)
{
  (void)options, (void)seed;
  struct text *text = data->state = memory_new(1, sizeof *text);
  struct bytes from = {0};
  int status = read_text(&from, o, e);
  if (!status) {
    data->content = hash(&from, o);
    if (o->vocab == DATA_WORDS)
      number_words(data, text, &from, o->symbols);
    else if (o->vocab == DATA_BPE)
      number_subwords(data, text, &from, o->symbols);
    else
      number_bytes(data, text, &from, o->vocab);
    text->train = text->length - (size_t)(o->val_fraction * (double)text->length);
    status = check_length(text, o, context, e);
  }
  memory_free(from.byte), memory_free(from.ends);
  if (status) {
    release(data);
    return status;
  }
  data->loss_floor = NAN;
  data->has_mask = data->has_document = o->packing == DATA_PACKING_DOCUMENTS;
  const char *name = strchr(o->path, '+') ? o->path : text_file_name(o->path);
  snprintf(data->description, sizeof data->description, "%.160s, %zu %s, %ld symbols", name, text->length,
           o->vocab == DATA_WORDS ? "words"
           : o->vocab == DATA_BPE ? "subwords"
                                  : "bytes",
           data->vocab);
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
