/* check_bits.c - the same bits everywhere: small runs of every kind (tests/bits.txt) have the numbers of the table,
   with all kernels of this processor that fuse multiply-add, on one thread and on three */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "model/ffn.h"
#include "model/stabilizer.h"
#include "run/bits.h"
#include "config/preset.h"
#include "training/data.h"
#include "training/optimizer.h"
#include "training/schedule.h"

enum { MOST = 256, LINE = 1024, WORDS = 64, PARTS = 8 };
static const char table[] = "tests/bits.txt", form[] = "%-16s  %s  %s\n";

/* A row's settings are the words of the row "all" and its own; other lines of the table are kept. */
static struct bits_row {
  char line[LINE], name[24], bits[BITS_TEXT], settings[LINE];
} lines[MOST];
static int rows[MOST], count, line_count, all = -1;

static void read_table(void)
{
  FILE *f = fopen(table, "r");
  REQUIRE(f);
  for (struct bits_row *x = lines; line_count < MOST && fgets(x->line, LINE, f); x = &lines[++line_count]) {
    REQUIRE(strlen(x->line) + 1 < LINE);
    if (*x->line == '#' || sscanf(x->line, "%23s %16s %1023[^\n]", x->name, x->bits, x->settings) != 3)
      continue;
    if (!strcmp(x->name, "all"))
      all = line_count;
    else
      rows[count++] = line_count;
  }
  fclose(f);
  REQUIRE(all >= 0 && line_count < MOST);
}

static int split(char *text, const char *word[], int n)
{
  for (char *next; (next = strsep(&text, " ")) && n < WORDS;)
    if (*next) word[n++] = next;
  return n;
}

static int bits_here(const struct bits_row *x, const char *level, int threads, char bits[BITS_TEXT],
                     struct error *e)
{
  char common[LINE], own[LINE], device[32];
  const char *word[WORDS + 1];
  snprintf(common, LINE, "%s", lines[all].settings), snprintf(own, LINE, "%s", x->settings);
  snprintf(device, sizeof device, "device.threads=%d", threads);
  int n = split(own, word, split(common, word, 0));
  word[n++] = device;
  setenv("MAXLOGIT_KERNELS", level, 1);
  return bits_of(word, (size_t)n, NULL, NULL, bits, e);
}

/* All rows with one level's kernels, in parts: to Check no test may last 36 minutes, and qemu is slow. base, which
   fuses nothing, has only to agree with itself, in some of them. */
START_TEST(as_in_the_table)
{
  const char *level = ops_cpu_level_at(_i / PARTS);
  const int own = !strcmp(level, "base"), threads = _i / PARTS % 2 ? 1 : 3;
  int wrong = 0;
  for (int i = _i % PARTS; i < count; i += own ? 4 * PARTS : PARTS) {
    const struct bits_row *x = &lines[rows[i]];
    char bits[BITS_TEXT], wanted[BITS_TEXT];
    struct error e = {0};
    memcpy(wanted, x->bits, BITS_TEXT);
    if (bits_here(x, level, threads, bits, &e) || (own && bits_here(x, level, 4 - threads, wanted, &e))) {
      printf("%s, kernels %s: %s\n", x->name, level, e.text);
      wrong++;
    } else if (strcmp(bits, wanted) != 0) {
      printf("%s, kernels %s: %s, not %s (%s)\n", x->name, level, bits, wanted, x->settings);
      wrong++;
    }
  }
  fflush(stdout);
  ck_assert_msg(!wrong, "%d of %d rows have other bits with the kernels %s", wrong, count, level);
}
END_TEST

/* --- is the table whole? -------------------------------------------------------------------------------- */

static int has_word(const char *text, const char *word)
{
  size_t n = strlen(word);
  for (const char *at = text; (at = strstr(at, word)); at++)
    if ((at == text || at[-1] == ' ') && (word[n - 1] == '=' || !at[n] || at[n] == ' ')) return 1;
  return 0;
}

/* Does a row, or a preset of one, say it? "key=" stands for any value. */
static int in_table(const char *key, const char *value)
{
  char word[128], chosen[64];
  snprintf(word, sizeof word, "%s=%s", key, value);
  for (int i = 0; i < line_count; i++) {
    if (*lines[i].line != '#' && has_word(lines[i].settings, word)) return 1;
    for (const struct preset *p = presets; p->name; p++) {
      snprintf(chosen, sizeof chosen, "preset=%s", p->name);
      if (has_word(lines[i].settings, chosen) && has_word(p->settings, word)) return 1;
    }
  }
  return 0;
}

#define EVERY(list, key) \
  for (int i = 0; list[i]; i++) \
  ck_assert_msg(in_table(key, list[i]->name) || excused(key, list[i]->name), "no row of %s has %s=%s", \
                table, key, list[i]->name)

/* What no row has, besides what OPTION_FREE says of itself. */
static int excused(const char *key, const char *value)
{
  static const struct {
    const char *key, *value, *why;
  } list[] = {
    {"train.init_from", NULL, "reads another run"},
    {"device", NULL, "says who computes"},
    {"device.math", NULL, "the same"},
    {"train.on_nonfinite", "fail", "is a status"},
    {"arm", NULL, "is a name"},
    {"adamuon.coefficients", NULL, "muon has rows of each"},
    {"compositional.coefficients", NULL, "the same"},
    {"namo.coefficients", NULL, "the same"},
    {"normuon.coefficients", NULL, "the same"},
    {"polargrad.coefficients", NULL, "the same"},
    {"scion.coefficients", NULL, "the same"},
    {"bound_clip.gqa", NULL, "qk_clip has rows of each"},
    {"comm.context", NULL, "wants as many ranks: tests/comm/context.sh"},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!strcmp(key, list[i].key) && (!list[i].value || !strcmp(value, list[i].value))) return 1;
  return 0;
}

/* Every value of a choice but the default, of a number or a text any. */
static void check_key(const char *key, const struct option_row *row)
{
  if (row->type == OPTION_CHOICE)
    for (int i = 0; row->choices[i]; i++)
      ck_assert_msg(!strcmp(row->choices[i], row->standard) || in_table(key, row->choices[i]) ||
                      excused(key, row->choices[i]),
                    "no row of %s has %s=%s", table, key, row->choices[i]);
  else
    ck_assert_msg(in_table(key, "") || excused(key, ""), "no row of %s has %s", table, key);
}

START_TEST(the_table_is_whole)
{
  char key[96];
  EVERY(attentions, "model.attention");
  EVERY(ffns, "model.ffn");
  EVERY(stabilizers, "stabilizers");
  EVERY(optimizers, "optimizer");
  EVERY(schedules, "train.schedule");
  EVERY(data_sources, "data");
  for (const struct preset *p = presets; p->name; p++)
    ck_assert_msg(in_table("preset", p->name), "no row of %s has preset=%s", table, p->name);
  for (const struct config_section *s = config_sections(); s->rows; s++)
    for (const struct option_row *row = s->rows; row->name; row++) {
      if (row->flags & OPTION_FREE) continue;
      snprintf(key, sizeof key, "%s%s%s", s->prefix, *s->prefix ? "." : "", row->name);
      check_key(key, row);
    }
}
END_TEST

/* The table anew, with the bits of this processor's best kernels. */
static int renew(void)
{
  FILE *f = fopen("tests/bits.txt.new", "w");
  REQUIRE(f);
  for (int i = 0, k = 0; i < line_count; i++) {
    struct bits_row *x = &lines[i];
    struct error e = {0};
    if (k < count && rows[k] == i) {
      k++;
      if (bits_here(x, ops_cpu_level_at(0), 1, x->bits, &e)) {
        fprintf(stderr, "%s: %s\n", x->name, e.text);
        return 1;
      }
      fprintf(f, form, x->name, x->bits, x->settings);
    } else {
      fputs(x->line, f);
    }
  }
  return fclose(f) || rename("tests/bits.txt.new", table);
}

int main(void)
{
  const char *source = getenv("srcdir"), *anew = getenv("MAXLOGIT_TEST_RENEW");
  int levels = 0;
  if (source && chdir(source)) return 99;
  read_table();
  if (anew && *anew && renew()) return 1;
  while (ops_cpu_level_at(levels)) levels++;
  Suite *suite = suite_create("bits");
  TCase *k = tcase_create("table");
  tcase_set_timeout(k, 300);
  tcase_add_test(k, the_table_is_whole);
  tcase_add_loop_test(k, as_in_the_table, 0, levels * PARTS);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
