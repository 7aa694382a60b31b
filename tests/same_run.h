/* same_run.h - are two runs the same, bit for bit?
   Compared: every dataset of /series and /batches, the clip, spike and nonfinite events, and every tensor of the
   newest checkpoints. Not compared: what depends on clock, machine or interruptions (/timing, /code, dates). */
#ifndef MAXLOGIT_TESTS_SAME_RUN_H
#define MAXLOGIT_TESTS_SAME_RUN_H
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "storage/checkpoint.h"
#include "storage/h5.h"
#include "storage/run_file.h"

struct same {
  struct h5 *a, *b;
  const char *name_a, *name_b;
  int datasets, differences;
  FILE *out;
};

static void same_say(struct same *s, const char *what, const char *where)
{
  s->differences++;
  if (s->out) fprintf(s->out, "%s and %s: %s %s\n", s->name_a, s->name_b, where, what);
}

/* All of a dataset; NULL if it cannot be read. */
static void *same_bytes(struct h5 *h, h5_id id, const struct h5_shape *shape, size_t *size)
{
  *size = (size_t)shape->dims[0] * h5_row_bytes(shape);
  void *bytes = memory_new(*size + 1, 1);
  if (h5_read(h, id, shape, 0, shape->dims[0], bytes)) return bytes;
  memory_free(bytes);
  return NULL;
}

static void same_dataset(struct same *s, const char *path, h5_id a, h5_id b)
{
  struct h5_shape x, y;
  size_t size = 0;
  s->datasets++;
  if (!h5_get_shape(s->a, a, &x) || !h5_get_shape(s->b, b, &y)) {
    same_say(s, "is missing or unreadable", path);
    return;
  }
  if (x.kind != y.kind || x.size != y.size || x.rank != y.rank || memcmp(x.dims, y.dims, sizeof x.dims)) {
    same_say(s, "differs in shape", path);
    return;
  }
  void *p = same_bytes(s->a, a, &x, &size), *q = same_bytes(s->b, b, &y, &size);
  if (!p || !q)
    same_say(s, "cannot be read", path);
  else if (memcmp(p, q, size)) {
    size_t at = 0;
    while (((char *)p)[at] == ((char *)q)[at]) at++;
    char text[64];
    snprintf(text, sizeof text, "differs from row %ld", (long)(at / h5_row_bytes(&x)));
    same_say(s, text, path);
  }
  memory_free(p);
  memory_free(q);
}

static int same_visit(void *context, const char *path, h5_id a)
{
  struct same *s = context;
  h5_id b = h5_find(s->b, path);
  same_dataset(s, path, a, b);
  h5_done(s->b, b);
  return 0;
}

static void same_group(struct same *s, const char *path)
{
  h5_id a = h5_find(s->a, path), b = h5_find(s->b, path);
  if ((a < 0) != (b < 0)) same_say(s, "is in one of them only", path);
  if (a >= 0) h5_walk(s->a, path, same_visit, s);
  h5_done(s->a, a);
  h5_done(s->b, b);
}

static long same_filter(struct run_event *event, long count)
{
  long kept = 0;
  for (long i = 0; i < count; i++)
    if (!strcmp(event[i].kind, "clip") || !strcmp(event[i].kind, "spike") ||
        !strcmp(event[i].kind, "nonfinite"))
      event[kept++] = event[i];
  return kept;
}

static void same_events(struct same *s)
{
  struct run_file *a = NULL, *b = NULL;
  struct run_event *x = NULL, *y = NULL;
  struct error e = {0};
  long m = 0, n = 0;
  if (run_open(&a, s->name_a, &e) || run_open(&b, s->name_b, &e) || run_events(a, &x, &m, &e) ||
      run_events(b, &y, &n, &e))
    same_say(s, e.text, "events");
  m = same_filter(x, m);
  n = same_filter(y, n);
  if (m != n || memcmp(x, y, (size_t)n * sizeof *x)) same_say(s, "differ", "events");
  memory_free(x);
  memory_free(y);
  run_close(a);
  run_close(b);
}

static void same_weights(struct same *s)
{
  struct checkpoint a, b;
  struct error e = {0};
  int have_a = !checkpoint_latest(s->name_a, &a, &e), have_b = !checkpoint_latest(s->name_b, &b, &e);
  if (have_a != have_b) same_say(s, e.text, "checkpoints");
  if (have_a && have_b) {
    if (a.step != b.step || a.count != b.count || strcmp(a.id, b.id))
      same_say(s, "differ in step, tensors or id", "checkpoints");
    for (int i = 0; i < a.count && i < b.count; i++) {
      const struct checkpoint_tensor *x = &a.tensors[i], *y = &b.tensors[i];
      if (strcmp(x->name, y->name) || x->rows != y->rows || x->cols != y->cols ||
          memcmp(x->data, y->data, (size_t)(x->rows * x->cols) * sizeof(float)))
        same_say(s, "differs", x->name);
    }
  }
  if (have_a) checkpoint_free(&a);
  if (have_b) checkpoint_free(&b);
}

/* The number of differences; each is a line on `out` (NULL: none). *datasets: how many were compared. */
static int same_run(const char *a, const char *b, int weights, int *datasets, FILE *out)
{
  struct same s = {.name_a = a, .name_b = b, .out = out};
  struct error e = {0};
  if (h5_load(&s.a, a, &e) || h5_load(&s.b, b, &e)) {
    same_say(&s, e.text, "files");
  } else {
    same_group(&s, "/series");
    same_group(&s, "/batches");
    int forth = s.datasets; /* and nothing more in b */
    struct same back = {.a = s.b, .b = s.a, .name_a = b, .name_b = a};
    same_group(&back, "/series");
    same_group(&back, "/batches");
    if (back.datasets != forth) same_say(&s, "differ in number", "datasets");
    same_events(&s);
    if (weights) same_weights(&s);
  }
  h5_free(s.a);
  h5_free(s.b);
  if (datasets) *datasets = s.datasets;
  return s.differences;
}
#endif
