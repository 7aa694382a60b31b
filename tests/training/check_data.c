/* check_data.c - every data source in one loop, then what is special to each */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "run/batches.h"
#include "training/bpe.h"
#include "training/data.h"

enum { BATCH = 16, CONTEXT = 48, SEED = 7 };

static char folder[] = "/tmp/check_data.XXXXXX";
static char path[64];

static void write_text(const char *text, size_t length)
{
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(text, 1, length, file), length);
  ck_assert_int_eq(fclose(file), 0);
}

/* Paragraphs whose bytes tell their place: the text to test with. */
static void write_paragraphs(void)
{
  char text[20000];
  size_t n = 0;
  for (int p = 0; n < 15000; p++) {
    for (int w = 0; w <= p % 9; w++) n += (size_t)sprintf(text + n, "word%d-%d ", p, w * p % 31);
    n += (size_t)sprintf(text + n, "end.\n\n");
  }
  write_text(text, n);
}

static void make_folder(void)
{
  strcpy(folder + sizeof folder - 7, "XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/text", folder);
  write_paragraphs();
}

static void remove_folder(void)
{
  unlink(path);
  rmdir(folder);
}

/* A source with default options, but for `settings`: "data.vocab=byte markov.lag=2". */
struct opened {
  struct data data;
  struct data_options shared;
  void *options;
  char *settings;
};

static int set(const struct option_row *rows, void *base, const char *name, const char *value)
{
  for (; rows && rows->name; rows++)
    if (!strcmp(rows->name, name)) {
      ck_assert_int_eq(option_parse(rows, base, value, NULL), STATUS_OK);
      return 1;
    }
  return 0;
}

static int open_source(struct opened *s, const char *name, const char *settings, uint64_t seed,
                       struct error *e)
{
  memset(s, 0, sizeof *s);
  memset(e, 0, sizeof *e);
  s->data.source = data_source_find(name);
  ck_assert_ptr_nonnull(s->data.source);
  option_defaults(data_rows, &s->shared);
  s->shared.path = path;
  s->options = memory_new(1, s->data.source->options_size + 1);
  if (s->data.source->options) option_defaults(s->data.source->options, s->options);
  s->settings = memory_text(settings);
  for (char *save, *word = strtok_r(s->settings, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *dot = strchr(word, '.'), *is = strchr(word, '=');
    *is = 0;
    int found = !strncmp(word, "data.", 5) ? set(data_rows, &s->shared, dot + 1, is + 1)
                                           : set(s->data.source->options, s->options, dot + 1, is + 1);
    ck_assert_msg(found, "no option %s", word);
  }
  return s->data.source->init(&s->data, &s->shared, s->options, CONTEXT, seed, e);
}

static void close_source(struct opened *s)
{
  s->data.source->free(&s->data);
  memory_free(s->options);
  memory_free(s->settings);
}

static struct opened *must_open(struct opened *s, const char *name, const char *settings)
{
  struct error e;
  ck_assert_msg(open_source(s, name, settings, SEED, &e) == STATUS_OK, "%s %s: %s", name, settings, e.text);
  return s;
}

struct filled {
  int tokens[BATCH][CONTEXT + 1];
  float mask[BATCH][CONTEXT];
  int document[BATCH][CONTEXT];
};

static void fill(struct filled *f, const struct opened *s, enum data_split split, uint64_t seed,
                 uint64_t index)
{
  memset(f, 0, sizeof *f);
  for (int b = 0; b < BATCH; b++)
    for (int t = 0; t < CONTEXT; t++) f->mask[b][t] = 1;
  struct batch batch = {BATCH, CONTEXT, f->tokens[0], f->mask[0], f->document[0]};
  s->data.source->fill(&s->data, split, seed, index, &batch);
}

static int same(const struct filled *a, const struct filled *b) { return !memcmp(a, b, sizeof *a); }

/* One batch obeys the contract. */
static void check_batch(const struct opened *s, const struct filled *f)
{
  int masked = 0, documents = 0;
  for (int b = 0; b < BATCH; b++) {
    double counted = 0;
    for (int t = 0; t <= CONTEXT; t++) ck_assert(f->tokens[b][t] >= 0 && f->tokens[b][t] < s->data.vocab);
    ck_assert_int_eq(f->document[b][0], 0);
    for (int t = 0; t < CONTEXT; t++) {
      ck_assert(f->mask[b][t] == 0 || f->mask[b][t] == 1);
      counted += f->mask[b][t];
      masked |= f->mask[b][t] == 0;
      documents |= f->document[b][t] != 0;
      int next = t + 1 < CONTEXT ? f->document[b][t + 1] - f->document[b][t] : 0;
      ck_assert(next == 0 || next == 1);
      ck_assert_msg(next == 0 || f->mask[b][t] == 0, "%s: a target in another document counts",
                    s->data.source->name);
    }
    ck_assert_double_gt(counted, 0);
  }
  ck_assert_int_le(masked, s->data.has_mask);
  ck_assert_int_le(documents, s->data.has_document);
}

START_TEST(every_source)
{
  const char *const settings[] = {"", "data.packing=documents"};
  int count = 0;
  for (const struct data_source *const *p = data_sources; *p; p++, count++)
    for (int i = 0; i < 2; i++) {
      struct opened one, two;
      struct filled a, b;
      must_open(&one, (*p)->name, settings[i]);
      must_open(&two, (*p)->name, settings[i]);
      ck_assert_uint_eq(one.data.content, two.data.content);
      ck_assert(*one.data.description && one.data.vocab > 1 && one.data.vocab <= 256);
      for (enum data_split split = DATA_TRAIN; split <= DATA_PROBE; split++)
        for (uint64_t index = 0; index < 20; index++) {
          fill(&a, &one, split, SEED, index);
          check_batch(&one, &a);
          fill(&b, &two, split, SEED, index);
          ck_assert(same(&a, &b));
          fill(&b, &one, split, SEED + 1, index);
          ck_assert(!same(&a, &b));
          fill(&b, &one, split, SEED, index + 1);
          ck_assert(!same(&a, &b));
          fill(&b, &one, (split + 1) % 3, SEED, index);
          ck_assert(!same(&a, &b));
        }
      close_source(&one);
      close_source(&two);
    }
  ck_assert_int_ge(count, 4);
}
END_TEST

/* A batch is written in full, whatever the one before has left, also where the context is odd. */
START_TEST(nothing_stays_of_the_batch_before)
{
  const char *const settings[] = {"", "data.packing=documents"};
  for (const struct data_source *const *p = data_sources; *p; p++)
    for (int i = 0; i < 2; i++)
      for (long context = CONTEXT - 1; context <= CONTEXT; context++) {
        struct opened s;
        struct filled f[2];
        must_open(&s, (*p)->name, settings[i]);
        for (int k = 0; k < 2; k++) {
          struct batch batch = {BATCH, context, f[k].tokens[0], f[k].mask[0], f[k].document[0]};
          fill(&f[k], &s, DATA_TRAIN, SEED, 0);
          for (long n = 0; n < BATCH * (context + 1); n++) batch.tokens[n] = -1 - k;
          for (long n = 0; n < BATCH * context; n++) batch.mask[n] = 1, batch.document[n] = 0;
          s.data.source->fill(&s.data, DATA_TRAIN, SEED, 1, &batch);
        }
        ck_assert_msg(same(&f[0], &f[1]), "%s, context %ld", s.data.source->name, context);
        close_source(&s);
      }
}
END_TEST

/* --- bytes -------------------------------------------------------------------------------------------- */
START_TEST(bytes_windows)
{
  struct opened s;
  struct filled f;
  char text[10000];
  for (int i = 0; i < 10000; i++) /* every window of 3 bytes says where it stands */
    text[i] = (char)(i % 3 == 0 ? i / 3 % 61 : i % 3 == 1 ? i / 183 % 61 + 61 : 122 + i % 2);
  write_text(text, sizeof text);
  must_open(&s, "bytes", "data.vocab=byte");
  ck_assert_int_eq(s.data.vocab, 256);
  for (int split = DATA_TRAIN; split <= DATA_PROBE; split++)
    for (uint64_t index = 0; index < 50; index++) {
      fill(&f, &s, split, SEED, index);
      for (int b = 0; b < BATCH; b++) {
        char window[CONTEXT + 1];
        for (int t = 0; t <= CONTEXT; t++) window[t] = (char)f.tokens[b][t];
        const char *at = memmem(text, sizeof text, window, sizeof window);
        ck_assert_ptr_nonnull(at);
        long from = at - text;
        ck_assert(split == DATA_TRAIN ? from + CONTEXT < 9000 : from >= 9000);
      }
    }
  close_source(&s);
}
END_TEST

/* Every window of either part is drawn, and none that reaches out of it: in 60 bytes each, whose values tell their
   places, 12 may begin. */
START_TEST(bytes_first_and_last_window)
{
  struct opened s;
  struct filled f;
  char text[120];
  int seen[2][120] = {{0}};
  for (int i = 0; i < 120; i++) text[i] = (char)i;
  write_text(text, sizeof text);
  must_open(&s, "bytes", "data.vocab=byte data.val_fraction=0.5");
  for (uint64_t index = 0; index < 40; index++)
    for (int split = DATA_TRAIN; split <= DATA_VAL; split++) {
      fill(&f, &s, (enum data_split)split, SEED, index);
      for (int b = 0; b < BATCH; b++) seen[split == DATA_VAL][f.tokens[b][0]]++;
    }
  for (int i = 0; i < 120; i++) {
    ck_assert_int_eq(seen[0][i] > 0, i < 60 - CONTEXT);
    ck_assert_int_eq(seen[1][i] > 0, i >= 60 && i < 120 - CONTEXT);
  }
  close_source(&s);
}
END_TEST

/* What decides which tokens are drawn is in the data's hash: bytes, their cut, their documents. */
START_TEST(bytes_content)
{
  static const char *const settings[] = {"", "data.vocab=byte", "data.val_fraction=0.2",
                                         "data.packing=documents", "data.packing=documents data.separator=."};
  uint64_t content[6];
  struct opened s;
  for (int i = 0; i < 5; i++) {
    must_open(&s, "bytes", settings[i]);
    content[i] = s.data.content;
    close_source(&s);
  }
  must_open(&s, "bytes", "data.separator=."); /* not used without packing */
  ck_assert_uint_eq(s.data.content, content[0]);
  close_source(&s);
  char text[15000];
  memset(text, 'a', sizeof text);
  write_text(text, sizeof text);
  must_open(&s, "bytes", "");
  content[5] = s.data.content;
  close_source(&s);
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < i; j++) ck_assert_msg(content[i] != content[j], "%d and %d", i, j);
}
END_TEST

START_TEST(bytes_symbols)
{
  struct opened s, byte, joined;
  struct error e;
  write_text("banana\n", 7);
  char list[256];
  snprintf(list, sizeof list, "data.path=%s+%s+%s data.val_fraction=0.5", path, path, path);
  ck_assert_int_eq(open_source(&s, "bytes", list, SEED, &e), STATUS_USAGE); /* 21 bytes: too short */
  memory_free(s.options), memory_free(s.settings);

  char text[700];
  for (int i = 0; i < 700; i++) text[i] = "banana\n"[i % 7];
  write_text(text, 700);
  must_open(&s, "bytes", "");
  must_open(&byte, "bytes", "data.vocab=byte");
  ck_assert_int_eq(s.data.vocab, 4);
  struct filled f, of_byte;
  fill(&f, &s, DATA_TRAIN, SEED, 0), fill(&of_byte, &byte, DATA_TRAIN, SEED, 0);
  for (int i = 0; i < CONTEXT; i++) ck_assert_int_eq("\nabn"[f.tokens[0][i]], of_byte.tokens[0][i]);
  ck_assert(s.data.content != byte.data.content);
  ck_assert(isnan(s.data.loss_floor));
  snprintf(list, sizeof list, "data.path=%s+%s", path, path);
  must_open(&joined, "bytes", list);
  ck_assert(joined.data.content != s.data.content);
  ck_assert_ptr_nonnull(strstr(joined.data.description, "1400 bytes"));
  close_source(&s), close_source(&byte), close_source(&joined);
}
END_TEST

/* Words by frequency, equal ones by their bytes; beyond the most frequent one token; a document ends with a word. */
START_TEST(words)
{
  static const char line[] = "the cat  the dog, the cat\n"; /* the| cat| | the| dog|,| the| cat|\n */
  static const struct {
    const char *settings;
    int vocab, tokens[9];
  } cases[] = {{"data.vocab=words data.packing=documents data.separator=\\n", 7, {6, 0, 3, 1, 4, 5, 1, 0, 2}},
               {"data.vocab=words data.packing=documents data.separator=\\n data.symbols=4",
                4,
                {3, 0, 3, 1, 3, 3, 1, 0, 2}}};
  char text[100 * (sizeof line - 1)];
  uint64_t content[2];
  for (size_t i = 0; i < sizeof text; i++) text[i] = line[i % (sizeof line - 1)];
  write_text(text, sizeof text);
  for (int c = 0; c < 2; c++) {
    struct opened s;
    struct filled f;
    must_open(&s, "bytes", cases[c].settings);
    ck_assert_int_eq(s.data.vocab, cases[c].vocab);
    ck_assert_ptr_nonnull(strstr(s.data.description, "900 words"));
    fill(&f, &s, DATA_TRAIN, SEED, 0);
    int at = 0;
    while (f.tokens[0][at] != 2) at++; /* the end of a line */
    for (int t = 0; at + 1 + t < CONTEXT; t++) {
      ck_assert_int_eq(f.tokens[0][at + 1 + t], cases[c].tokens[t % 9]);
      ck_assert_int_eq(f.mask[0][at + 1 + t] == 0, t % 9 == 8);
    }
    content[c] = s.data.content;
    close_source(&s);
  }
  ck_assert(content[0] != content[1]);
}
END_TEST

/* --- byte-pair encoding ----------------------------------------------------------------------------------- */
/* Merges in order: the most frequent pair, ties by smaller symbols, runs from the left; symbols stand for the bytes. */
START_TEST(bpe_merges)
{
  static const struct {
    const char *word[5];
    size_t count[5];
    long most, vocab;
    int merge[5][2], symbols, symbol[14];
  } cases[] = {
    /* arXiv 1508.07909, algorithm 1, without its symbol for the end of a word */
    {{"low", "lower", "newest", "widest"},
     {5, 2, 6, 3},
     260,
     260,
     {{'e', 's'}, {256, 't'}, {'l', 'o'}, {258, 'w'}},
     12,
     {259, 259, 'e', 'r', 'n', 'e', 'w', 257, 'w', 'i', 'd', 257}},
    {{"aaaa"}, {1}, 300, 257, {{'a', 'a'}}, 2, {256, 256}},
    {{"aaaaa", "baaa"}, {1, 1}, 257, 257, {{'a', 'a'}}, 6, {256, 256, 'a', 'b', 256, 'a'}},
    {{"aaaaaaaa"}, {1}, 300, 258, {{'a', 'a'}, {256, 256}}, 2, {257, 257}},
    {{"cd", "ab", "ac"}, {2, 2, 2}, 65536, 259, {{'a', 'b'}, {'a', 'c'}, {'c', 'd'}}, 3, {258, 256, 257}},
    {{"ab", "b", "a"}, {1, 9, 9}, 300, 256, {{0}}, 4, {'a', 'b', 'b', 'a'}},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    struct piece piece[5], *word[5];
    size_t all = 0, n = 0;
    for (; all < 5 && cases[c].word[all]; all++) {
      const char *text = cases[c].word[all];
      piece[all] = (struct piece){(const unsigned char *)text, strlen(text), 0, cases[c].count[all]};
      word[all] = &piece[all];
    }
    struct bpe b = bpe_learn(word, all, cases[c].most);
    ck_assert_int_eq(b.vocab, cases[c].vocab);
    for (long z = BPE_BYTES; z < b.vocab; z++) {
      ck_assert_int_eq(b.of[z].left, cases[c].merge[z - BPE_BYTES][0]);
      ck_assert_int_eq(b.of[z].right, cases[c].merge[z - BPE_BYTES][1]);
    }
    ck_assert_uint_eq(b.first[all], (size_t)cases[c].symbols);
    for (int i = 0; i < cases[c].symbols; i++) ck_assert_int_eq(b.symbol[i], cases[c].symbol[i]);
    for (size_t w = 0; w < all; w++) {
      size_t length = 0;
      for (; n < b.first[w + 1]; n++) length += b.length[b.symbol[n]];
      ck_assert_uint_eq(length, piece[w].length);
    }
    bpe_free(&b);
  }
}
END_TEST

/* The bytes of a symbol, at `text`; returns how many. */
static size_t spell(const struct bpe *b, int symbol, unsigned char *text)
{
  if (symbol < BPE_BYTES) {
    *text = (unsigned char)symbol;
    return 1;
  }
  const size_t length = spell(b, b->of[symbol].left, text);
  return length + spell(b, b->of[symbol].right, text + length);
}

/* A word of noise has more pairs than there are of bytes, for which there is room at first: its symbols spell it. */
START_TEST(bpe_of_more_pairs_than_of_bytes)
{
  enum { LENGTH = 100000 };
  unsigned char *text = memory_new(2 * LENGTH, 1), *spelled = text + LENGTH;
  const struct draw draw = {SEED, STREAM_TEST, 0};
  for (uint64_t i = 0; i < LENGTH; i++) text[i] = (unsigned char)draw_below(draw, i, BPE_BYTES);
  struct piece piece = {text, LENGTH, 0, 1}, *word = &piece;
  struct bpe b = bpe_learn(&word, 1, BPE_MOST);
  size_t length = 0;
  for (size_t i = 0; i < b.first[1]; i++) {
    const size_t own = spell(&b, b.symbol[i], spelled + length);
    ck_assert_uint_eq(own, b.length[b.symbol[i]]);
    length += own;
    ck_assert_uint_le(length, LENGTH);
  }
  ck_assert_uint_eq(length, LENGTH);
  ck_assert_mem_eq(spelled, text, LENGTH);
  ck_assert_int_gt(b.vocab, 10000);
  bpe_free(&b);
  memory_free(text);
}
END_TEST

/* All tokens of texts, drawn as tests/golden/make_bpe.py draws them, which printed these rows. */
START_TEST(subwords_of_texts)
{
  static const struct {
    const char *alphabet;
    size_t length;
    long most, vocab, tokens;
    uint64_t hash;
  } cases[] = {
    {"a", 301, 65536, 263, 6, 0xf38836ab7ee4196d},
    {"aab ", 602, 65536, 295, 204, 0xab27a05782bb1d2a},
    {"ab ", 500, 300, 280, 204, 0x942e82b6394eff09},
    {"abcd", 1000, 280, 280, 468, 0xb0268630be68de65},
    {"ab'.\n\r\t ", 901, 65536, 295, 652, 0x0d3d94a47fdd9f2e},
    {"\377\200 ", 700, 270, 270, 326, 0x8af224234e35447c},
    {" eeetaoinshrdlu,.\n", 100001, 600, 600, 56424, 0x1f94aa7b9f17b464},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    char *text = memory_new(cases[c].length, 1);
    for (uint64_t i = 0, x = 0; i < cases[c].length; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      text[i] = cases[c].alphabet[(x >> 33) % strlen(cases[c].alphabet)];
    }
    write_text(text, cases[c].length);
    memory_free(text);
    const long half = cases[c].tokens / 2, T = half - 1;
    struct data data = {.source = data_source_find("bytes")};
    const struct data_options o = {
      .path = path, .vocab = DATA_BPE, .symbols = cases[c].most, .val_fraction = 0.5, .separator = ""};
    struct error e = {0};
    ck_assert_msg(!data.source->init(&data, &o, NULL, T, SEED, &e), "%zu: %s", c, e.text);
    ck_assert_int_eq(data.vocab, cases[c].vocab);
    char written[64];
    snprintf(written, sizeof written, "text, %ld subwords, %ld symbols", cases[c].tokens, cases[c].vocab);
    ck_assert_str_eq(data.description, written);
    int *tokens = memory_new((size_t)half, sizeof *tokens);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int split = DATA_TRAIN; split <= DATA_VAL; split++) {
      struct batch batch = {1, T, tokens, NULL, NULL};
      data.source->fill(&data, (enum data_split)split, SEED, 0, &batch);
      for (long t = 0; t < half; t++) hash = (hash ^ (uint64_t)tokens[t]) * 0x100000001b3u;
    }
    ck_assert_uint_eq(hash, cases[c].hash);
    memory_free(tokens);
    data.source->free(&data);
  }
}
END_TEST

/* A token ends a document where one of its bytes does, and the number of symbols is in the data's hash. */
START_TEST(subwords_end_documents)
{
  char text[3000];
  struct opened s;
  struct filled f;
  uint64_t content[2];
  int ends = 0;
  for (int i = 0; i < 3000; i++) text[i] = "abc def\n"[i % 8]; /* 260, 259 for " def", and a new line */
  write_text(text, sizeof text);
  for (int i = 0; i < 2; i++) {
    must_open(&s, "bytes",
              i ? "data.vocab=bpe data.packing=documents data.separator=e data.symbols=300"
                : "data.vocab=bpe data.packing=documents data.separator=e");
    ck_assert_int_eq(s.data.vocab, 261);
    fill(&f, &s, DATA_TRAIN, SEED, 0);
    for (int t = 0; t < CONTEXT; t++) {
      ck_assert_int_eq(f.mask[0][t] == 0, f.tokens[0][t] == 259);
      ck_assert(f.tokens[0][t] != 259 || f.tokens[0][t + 1] == '\n');
      ends += f.mask[0][t] == 0;
    }
    content[i] = s.data.content;
    close_source(&s);
  }
  ck_assert_int_eq(ends, 2 * CONTEXT / 3);
  ck_assert(content[0] != content[1]);
}
END_TEST

START_TEST(bytes_documents)
{
  struct opened s;
  struct filled f;
  must_open(&s, "bytes", "data.packing=documents data.vocab=byte");
  int boundaries = 0;
  for (uint64_t index = 0; index < 20; index++) {
    fill(&f, &s, DATA_TRAIN, SEED, index);
    for (int b = 0; b < BATCH; b++)
      for (int t = 1; t + 1 < CONTEXT; t++) {
        int ends = f.tokens[b][t - 1] == '\n' && f.tokens[b][t] == '\n';
        ck_assert_int_eq(f.document[b][t + 1] - f.document[b][t], ends);
        ck_assert_int_eq(f.mask[b][t] == 0, ends);
        boundaries += ends;
      }
  }
  ck_assert_int_gt(boundaries, 100);
  close_source(&s);
}
END_TEST

/* A document ends where its separator does, which is written as in C. */
START_TEST(bytes_separators)
{
  static const struct {
    const char *settings, *end;
  } cases[] = {{"data.separator=\\t", "\t"}, {"data.separator=\\\\", "\\"}, {"data.separator=;\\n", ";\n"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[3000], line[64], settings[128];
    struct opened s;
    struct filled f;
    int ends = 0, last = cases[i].end[strlen(cases[i].end) - 1];
    snprintf(line, sizeof line, "one two%s", cases[i].end);
    for (size_t k = 0; k < sizeof text; k++) text[k] = line[k % strlen(line)];
    write_text(text, sizeof text);
    snprintf(settings, sizeof settings, "data.packing=documents data.vocab=byte %s", cases[i].settings);
    must_open(&s, "bytes", settings);
    fill(&f, &s, DATA_TRAIN, SEED, 0);
    for (int b = 0; b < BATCH; b++)
      for (int t = 0; t + 1 < CONTEXT; ends += f.tokens[b][t++] == last)
        ck_assert_int_eq(f.document[b][t + 1] > f.document[b][t], f.tokens[b][t] == last);
    ck_assert_int_gt(ends, 0);
    close_source(&s);
  }
}
END_TEST

/* Separators in a row end one document: no document is made of separators alone. */
START_TEST(bytes_blank_lines)
{
  struct opened s;
  struct filled f;
  char text[3000];
  for (int i = 0; i < 3000; i++) text[i] = "one two\n\n\n\n\n"[i % 12];
  write_text(text, sizeof text);
  must_open(&s, "bytes", "data.packing=documents data.vocab=byte");
  fill(&f, &s, DATA_TRAIN, SEED, 0);
  for (int b = 0; b < BATCH; b++)
    for (int t = 0; t + 1 < CONTEXT; t++)
      ck_assert_int_eq(f.document[b][t + 1] > f.document[b][t],
                       f.tokens[b][t] == '\n' && f.tokens[b][t + 1] == 'o');
  close_source(&s);
  /* nor where separators do not overlap */
  for (int i = 0; i < 3000; i++) text[i] = "one two;.;.;."[i % 13];
  write_text(text, sizeof text);
  must_open(&s, "bytes", "data.packing=documents data.vocab=byte data.separator=;.");
  fill(&f, &s, DATA_TRAIN, SEED, 0);
  for (int b = 0; b < BATCH; b++)
    for (int t = 0; t + 1 < CONTEXT; t++)
      ck_assert_int_eq(f.document[b][t + 1] > f.document[b][t],
                       f.tokens[b][t] == '.' && f.tokens[b][t + 1] == 'o');
  close_source(&s);
}
END_TEST

/* One message with the key, what is wrong and what is allowed. */
START_TEST(bytes_errors)
{
  static const struct {
    const char *text;
    size_t length;
    const char *settings, *says;
  } bad[] = {
    {"", 0, "", "empty"},
    {"short", 5, "", "too short"},
    {"as many bytes of each half as the context has: none is left to be told after it, not one of "
     "them\n.....",
     2 * CONTEXT, "data.val_fraction=0.5", "needs at least 49 of each"},
    {"one line, no blank one, but long enough .................................................."
     "..........................................................................................."
     "..........................................................................................."
     "..........................................................................................."
     "...........................................................................................",
     450, "data.packing=documents data.val_fraction=0.5", "data.separator"},
    {"x", 1, "data.path=", "no file given"},
    {"x", 1, "data.path=/nowhere/at/all", "/nowhere/at/all"},
    {"", 0, "data.vocab=bpe", "empty"},
    {"x", 1, "data.vocab=bpe", "too short: its 1 tokens"},
    {"\0\0\0\0", 4, "data.vocab=bpe data.symbols=257", "too short: its 2 tokens"},
    {"x", 1, "data.vocab=bpe data.symbols=256", "must be 257 to 65536 with data.vocab=bpe, got 256"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct opened s;
    struct error e;
    write_text(bad[i].text, bad[i].length);
    ck_assert_int_eq(open_source(&s, "bytes", bad[i].settings, SEED, &e), STATUS_USAGE);
    ck_assert_int_eq(e.status, STATUS_USAGE);
    ck_assert_msg(strstr(e.text, bad[i].says) != NULL, "message: %s", e.text);
    ck_assert_msg(!strncmp(e.text, "data.", 5), "no key: %s", e.text);
    memory_free(s.options), memory_free(s.settings);
  }
}
END_TEST

/* --- markov ------------------------------------------------------------------------------------------- */
/* Documents have from 1 to 2 document - 1 tokens, all lengths alike; the last of a row is cut by it. */
START_TEST(markov_documents)
{
  enum { DOCUMENT = 3 };
  long count[CONTEXT + 1] = {0}, all = 0;
  struct opened s;
  struct filled f;
  must_open(&s, "markov", "data.packing=documents markov.document=3");
  for (uint64_t index = 0; index < 200; index++) {
    fill(&f, &s, DATA_TRAIN, SEED, index);
    for (int b = 0; b < BATCH; b++)
      for (int t = 1, start = 0; t < CONTEXT; t++) {
        ck_assert_int_eq(f.mask[b][t - 1] == 0, f.document[b][t] > f.document[b][t - 1]);
        if (f.document[b][t] == f.document[b][t - 1]) continue;
        count[t - start]++, all++;
        start = t;
      }
  }
  for (int n = 0; n <= CONTEXT; n++)
    if (n >= 1 && n <= 2 * DOCUMENT - 1)
      ck_assert_msg(count[n] * (2 * DOCUMENT - 1) > 0.9 * (double)all, "length %d: %ld of %ld", n, count[n],
                    all);
    else
      ck_assert_msg(!count[n], "length %d: %ld of %ld", n, count[n], all);
  close_source(&s);
}
END_TEST

/* A document's first symbol is drawn by frequency, 1/s of the s-th, whatever the one before ended with. */
START_TEST(markov_documents_begin_anew)
{
  double count[2][4] = {{0}}, all[2] = {0}, sum = 0;
  struct opened s;
  struct filled f;
  must_open(&s, "markov", "data.packing=documents markov.document=4");
  for (uint64_t index = 0; index < 600; index++) {
    fill(&f, &s, DATA_TRAIN, SEED, index);
    for (int b = 0; b < BATCH; b++)
      for (int t = 1; t < CONTEXT; t++) {
        if (f.document[b][t] == f.document[b][t - 1]) continue;
        int behind = f.tokens[b][t - 1] == 0, first = f.tokens[b][t];
        all[behind]++;
        if (first < 4) count[behind][first]++;
      }
  }
  for (int i = 1; i <= 64; i++) sum += 1.0 / i;
  for (int behind = 0; behind < 2; behind++)
    for (int i = 0; i < 4; i++) {
      double p = 1 / ((i + 1) * sum), seen = count[behind][i] / all[behind];
      ck_assert_msg(fabs(seen - p) < 5 * sqrt(p / all[behind]), "symbol %d begins %g of documents, not %g", i,
                    seen, p);
    }
  close_source(&s);
}
END_TEST

/* Empirical -log frequency of each symbol given (x[t-1], class of x[t-lag]), or given x[t-1] alone. The
   probabilities are estimated from the draws themselves, N >> contexts * branches, so the plug-in estimate is
   within (contexts * branches) / 2N below the truth, and sampling adds sd(-ln p) / sqrt(N). */
static double empirical_entropy(const char *settings, int lag, int classes)
{
  enum { SYMBOLS = 64, MAX_CLASSES = 4, BATCHES = 1500 };
  static double count[SYMBOLS * MAX_CLASSES][SYMBOLS + 1];
  memset(count, 0, sizeof count);
  struct opened s;
  struct filled f;
  double total = 0, sum = 0;
  must_open(&s, "markov", settings);
  for (int pass = 0; pass < 2; pass++)
    for (uint64_t index = 0; index < BATCHES; index++) {
      fill(&f, &s, DATA_TRAIN, SEED, index);
      for (int b = 0; b < BATCH; b++)
        for (int t = 1, start = 0; t <= CONTEXT; t++) {
          const int *x = f.tokens[b];
          if (t < CONTEXT && f.document[b][t] > f.document[b][t - 1]) start = t;
          if (f.mask[b][t - 1] == 0) continue;
          int class = t - lag >= start ? x[t - lag] % classes : 0;
          double *row = count[x[t - 1] * MAX_CLASSES + class];
          if (pass)
            sum -= log(row[x[t]] / row[SYMBOLS]);
          else
            row[x[t]]++, row[SYMBOLS]++, total++;
        }
    }
  close_source(&s);
  return sum / total;
}

START_TEST(markov_entropy)
{
  const char *const settings[] = {"", "data.packing=documents markov.document=20"};
  for (int i = 0; i < 2; i++) {
    struct opened s;
    must_open(&s, "markov", settings[i]);
    double floor = s.data.loss_floor;
    close_source(&s);
    double p[8], sum = 0, entropy = 0; /* H of r^-1.5, r = 1..8, and of the mean of its four turns by 2 */
    for (int r = 0; r < 8; r++) sum += p[r] = pow(r + 1, -1.5);
    for (int r = 0; r < 8; r++) entropy -= p[r] / sum * log(p[r] / sum);
    ck_assert_double_eq_tol(floor, entropy, 1e-12);
    double seen = empirical_entropy(settings[i], 4, 4); /* N = 1.1e6, 2048 cells: bias < 1e-3, noise 1e-3 */
    ck_assert_msg(fabs(seen - floor) < 5e-3, "entropy %.4f, floor %.4f", seen, floor);
    double blind = empirical_entropy(settings[i], 4, 1); /* who does not look back pays */
    ck_assert_msg(blind > floor + 0.2, "without looking back %.4f, floor %.4f", blind, floor);
  }
}
END_TEST

/* What the model is given: a query sees its own document alone, and nothing counts that begins another. */
START_TEST(attention_begins_with_the_document)
{
  struct opened s;
  struct host_batch h;
  struct arena *arena = arena_new();
  must_open(&s, "markov", "data.packing=documents markov.document=7");
  host_batch_init(&h, arena, &(struct model_options){.context = CONTEXT}, BATCH);
  double counted = host_batch_draw(&h, &s.data, DATA_TRAIN, SEED, 0);
  long begins = 0;
  for (long i = 0, first = 0; i < BATCH * CONTEXT; i++) {
    const int *document = h.batch.document + i, t = (int)(i % CONTEXT);
    if (!t || document[0] != document[-1]) first = t, begins++;
    ck_assert_int_eq(h.start[i], first);
    ck_assert_int_eq(h.position[i], t);
  }
  ck_assert_int_gt(begins, 2 * BATCH);
  ck_assert(counted < BATCH * CONTEXT);
  close_source(&s);
  arena_free(arena);
}
END_TEST

/* The order of the successors turns by branches / classes = 2 with each class: what is likeliest after class c is
   what has rank 8 - 2 c after class 0. Of the most frequent symbol there are about 1e5 draws, and neighbouring
   ranks down to 6 (counted from 0) differ by a fifth. */
START_TEST(markov_turns)
{
  enum { CLASSES = 4, SUCCESSORS = 8, LAG = 4 };
  static double count[64][CLASSES][64];
  double total[64] = {0};
  struct opened s;
  struct filled f;
  int top = 0;
  memset(count, 0, sizeof count);
  must_open(&s, "markov", "");
  for (uint64_t index = 0; index < 1500; index++) {
    fill(&f, &s, DATA_TRAIN, SEED, index);
    for (int b = 0; b < BATCH; b++)
      for (int t = LAG; t <= CONTEXT; t++) {
        const int *x = f.tokens[b];
        count[x[t - 1]][x[t - LAG] % CLASSES][x[t]]++;
        total[x[t - 1]]++;
      }
  }
  for (int i = 0; i < 64; i++) top = total[i] > total[top] ? i : top;
  for (int c = 1; c < CLASSES; c++) {
    int likeliest = 0, rank = 0;
    for (int i = 0; i < 64; i++) likeliest = count[top][c][i] > count[top][c][likeliest] ? i : likeliest;
    for (int i = 0; i < 64; i++) rank += count[top][0][i] > count[top][0][likeliest];
    ck_assert_int_eq(rank, SUCCESSORS - 2 * c);
  }
  close_source(&s);
}
END_TEST

/* Of more symbols than have tables in the hash: frequencies fall like 1/r, all successors differ, nothing is out of
   range. */
START_TEST(markov_of_many_symbols)
{
  enum { MANY = 65536 };
  struct opened s, other;
  struct filled f;
  must_open(&s, "markov", "markov.symbols=65536");
  must_open(&other, "markov", "markov.symbols=65535");
  ck_assert_int_eq(s.data.vocab, MANY);
  ck_assert(s.data.content != other.data.content);
  int *count = memory_new(MANY, sizeof *count), high = 0, first = 0;
  for (uint64_t index = 0; index < 400; index++) {
    fill(&f, &s, DATA_TRAIN, SEED, index);
    check_batch(&s, &f);
    for (int b = 0; b < BATCH; b++) {
      first += f.tokens[b][0] < 256;
      for (int t = 0; t <= CONTEXT; t++) count[f.tokens[b][t]]++, high += f.tokens[b][t] >= MANY / 2;
    }
  }
  /* sum of 1/r over 256 and over 65536 terms: 6.12 of 11.67; over the upper half: ln 2 of 11.67 */
  ck_assert_double_eq_tol(first / (400.0 * BATCH), 6.124 / 11.668, 0.03);
  ck_assert_double_eq_tol(high / (400.0 * BATCH * (CONTEXT + 1)), 0.6931 / 11.668, 0.02);
  int distinct = 0;
  for (int i = 0; i < MANY; i++) distinct += count[i] > 0;
  ck_assert_int_gt(distinct, 10000);
  memory_free(count);
  close_source(&s), close_source(&other);
}
END_TEST

START_TEST(markov_languages)
{
  struct opened one, two;
  struct filled f, other;
  struct error e;
  must_open(&one, "markov", "markov.language=1");
  must_open(&two, "markov", "markov.language=2");
  ck_assert(one.data.content != two.data.content);
  fill(&f, &one, DATA_TRAIN, SEED, 0);
  fill(&other, &two, DATA_TRAIN, SEED, 0);
  ck_assert(!same(&f, &other));
  double count[64] = {0}, total = 0;
  for (uint64_t index = 0; index < 50; index++) {
    fill(&f, &one, DATA_TRAIN, SEED, index);
    for (int b = 0; b < BATCH; b++)
      for (int t = 0; t <= CONTEXT; t++) count[f.tokens[b][t]]++, total++;
  }
  double top = 0;
  for (int i = 0; i < 64; i++) top = count[i] > top ? count[i] : top;
  ck_assert_double_gt(top / total, 4.0 / 64); /* text-like: some symbols are much more frequent */
  close_source(&one), close_source(&two);
  const char *const bad[] = {"markov.symbols=4 markov.branches=5", "markov.branches=2 markov.classes=3"};
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(open_source(&one, "markov", bad[i], SEED, &e), STATUS_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "markov.branches"));
    memory_free(one.options), memory_free(one.settings);
  }
}
END_TEST

/* --- copy, recall ------------------------------------------------------------------------------------- */
START_TEST(copy_repeats)
{
  struct opened s;
  struct filled f;
  for (int distinct = 0; distinct < 2; distinct++) {
    must_open(&s, "copy", distinct ? "copy.distinct=1" : "");
    ck_assert(distinct ? s.data.loss_floor == 0 : isnan(s.data.loss_floor));
    int seen[CONTEXT] = {0};
    for (uint64_t index = 0; index < 20; index++) {
      fill(&f, &s, DATA_TRAIN, SEED, index);
      for (int b = 0; b < BATCH; b++) {
        int p = 0;
        while (f.mask[b][p] == 0) p++;
        seen[p] = 1;
        for (int t = p; t <= CONTEXT; t++) ck_assert_int_eq(f.tokens[b][t], f.tokens[b][t - p]);
        for (int t = 0; distinct && t < p; t++)
          for (int u = 0; u < t; u++) ck_assert_int_ne(f.tokens[b][t], f.tokens[b][u]);
      }
    }
    for (int p = 0; p < CONTEXT; p++) ck_assert_int_eq(seen[p], p >= CONTEXT / 4 && p <= CONTEXT / 2);
    close_source(&s);
  }
}
END_TEST

/* Every counted target is the value that stood after the same key before: the floor 0 is exact. */
START_TEST(recall_is_certain)
{
  struct opened s;
  struct filled f;
  must_open(&s, "recall", "");
  ck_assert_double_eq(s.data.loss_floor, 0);
  fill(&f, &s, DATA_TRAIN, SEED, 3);
  int before[64], differs = 0; /* what a key stands for is drawn for every row */
  memset(before, -1, sizeof before);
  for (int b = 0; b < BATCH; b++) {
    int value[64], keys = 0; /* so few that they recur */
    memset(value, -1, sizeof value);
    for (int t = 0; t < CONTEXT; t += 2) {
      keys += value[f.tokens[b][t]] < 0;
      int key = f.tokens[b][t], follows = f.tokens[b][t + 1];
      ck_assert(key < 32 && follows >= 32);
      ck_assert_int_eq(f.mask[b][t] == 1, value[key] >= 0);
      if (value[key] >= 0) ck_assert_int_eq(follows, value[key]);
      value[key] = follows;
      differs |= before[key] >= 0 && before[key] != follows;
      before[key] = follows;
      ck_assert(f.mask[b][t + 1] == 0);
    }
    ck_assert_int_le(keys, CONTEXT / 4);
  }
  ck_assert(differs);
  close_source(&s);
}
END_TEST

/* --- label noise ------------------------------------------------------------------------------------------ */
/* Targets alone change, on training batches alone, in the share that was asked for, and never to themselves; another
   step draws others. Of 20 x 768 draws at 0.1 the share has a standard deviation of 0.0024. */
START_TEST(label_noise_changes_training_targets)
{
  struct opened s;
  struct host_batch clean, noisy;
  struct arena *arena = arena_new();
  const struct model_options model = {.context = CONTEXT};
  const long n = BATCH * CONTEXT;
  long changed = 0, again = 0;
  int highest = 0, before[BATCH * CONTEXT] = {0};
  must_open(&s, "copy", "copy.symbols=5");
  host_batch_init(&clean, arena, &model, BATCH);
  host_batch_init(&noisy, arena, &model, BATCH);
  for (uint64_t index = 0; index < 20; index++)
    for (enum data_split split = DATA_TRAIN; split <= DATA_PROBE; split++) {
      s.data.label_noise = 0;
      const double counted = host_batch_draw(&clean, &s.data, split, SEED, index);
      s.data.label_noise = 0.1;
      ck_assert(host_batch_draw(&noisy, &s.data, split, SEED, index) == counted);
      ck_assert_mem_eq(noisy.tokens, clean.tokens, (size_t)n * sizeof *clean.tokens);
      ck_assert_mem_eq(noisy.weight[0], clean.weight[0], (size_t)n * sizeof *clean.weight[0]);
      for (long i = 0; i < n; i++) {
        const int differs = noisy.targets[0][i] != clean.targets[0][i];
        ck_assert(!differs || split == DATA_TRAIN);
        ck_assert_int_ge(noisy.targets[0][i], 0);
        highest = noisy.targets[0][i] > highest ? noisy.targets[0][i] : highest;
        if (split != DATA_TRAIN) continue;
        changed += differs, again += differs && before[i];
        before[i] = differs;
      }
    }
  ck_assert_int_eq(highest, 4);
  ck_assert_double_eq_tol((double)changed / (20. * (double)n), 0.1, 0.012);
  ck_assert_int_lt(again, changed / 4); /* a tenth by chance */
  close_source(&s);
  arena_free(arena);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("data");
  TCase *tests = tcase_create("data");
  tcase_add_checked_fixture(tests, make_folder, remove_folder);
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, every_source);
  tcase_add_test(tests, nothing_stays_of_the_batch_before);
  tcase_add_test(tests, bytes_windows);
  tcase_add_test(tests, bytes_first_and_last_window);
  tcase_add_test(tests, bytes_content);
  tcase_add_test(tests, bytes_symbols);
  tcase_add_test(tests, words);
  tcase_add_test(tests, bpe_merges);
  tcase_add_test(tests, bpe_of_more_pairs_than_of_bytes);
  tcase_add_test(tests, subwords_of_texts);
  tcase_add_test(tests, subwords_end_documents);
  tcase_add_test(tests, bytes_documents);
  tcase_add_test(tests, bytes_separators);
  tcase_add_test(tests, markov_documents);
  tcase_add_test(tests, markov_documents_begin_anew);
  tcase_add_test(tests, bytes_blank_lines);
  tcase_add_test(tests, bytes_errors);
  tcase_add_test(tests, markov_entropy);
  tcase_add_test(tests, attention_begins_with_the_document);
  tcase_add_test(tests, markov_turns);
  tcase_add_test(tests, markov_of_many_symbols);
  tcase_add_test(tests, markov_languages);
  tcase_add_test(tests, copy_repeats);
  tcase_add_test(tests, recall_is_certain);
  tcase_add_test(tests, label_noise_changes_training_targets);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
