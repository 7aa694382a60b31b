/* live.c - RUN.live.tsv: a line a step, for those who watch and for what a kill would cost */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/number.h"
#include "storage/recorder_state.h"

/* Where a live column comes from. */
struct live {
  const char *name;
  enum series_axis axis;
};
static const struct live live_columns[] = {
  {"loss", AXIS_STEP},
  {"val_loss", AXIS_VAL},
  {"lr", AXIS_STEP},
  {"grad_norm", AXIS_STEP},
};
static const char live_header[] = "step\tloss\tval_loss\tlr\tgrad_norm\tmax_logit\tlayer\thead\n";

int recorder_open_live(struct recorder *r, struct error *e)
{
  r->live_step = -1;
  r->live = append_open(r->live_path, e);
  if (!r->live) return e->status;
  return append_length(r->live) ? STATUS_OK : append_write(r->live, live_header, sizeof live_header - 1, e);
}

/* The live rows up to the last step that is kept; half a line at the end goes too. */
int recorder_cut_live(struct recorder *r, struct error *e)
{
  const struct row_table *t = &r->rows.table[AXIS_STEP];
  int64_t last = -1;
  char *text = NULL;
  size_t length = 0, keep = 0;
  struct error ignored = {0};
  if (t->rows) memcpy(&last, column_row(&t->column[0], t->rows - 1), sizeof last);
  if (!file_read(r->live_path, &text, &length, &ignored) &&
      !strncmp(text, live_header, sizeof live_header - 1)) {
    keep = sizeof live_header - 1;
    for (char *end; (end = strchr(text + keep, '\n')) && strtoll(text + keep, NULL, 10) <= last;)
      keep = (size_t)(end + 1 - text);
  }
  memory_free(text);
  r->live_step = last;
  r->live = append_open(r->live_path, e);
  if (!r->live) return e->status;
  if (append_length(r->live) > keep && append_cut(r->live, keep, e)) return e->status;
  return keep ? STATUS_OK : append_write(r->live, live_header, sizeof live_header - 1, e);
}

int recorder_copy(const char *from, const char *to, struct error *e)
{
  char live[4096], live_to[4096];
  run_sibling(live, from, ".live.tsv");
  run_sibling(live_to, to, ".live.tsv");
  int status = file_remove(live_to) ? error_set(e, STATUS_FAIL, "cannot remove %s", live_to) : STATUS_OK;
  if (!status && !access(live, F_OK)) status = file_copy(live, live_to, e);
  return status ? status : file_copy(from, to, e);
}

double recorder_last(const struct recorder *r, const char *name, enum series_axis axis)
{
  const struct row_table *t = &r->rows.table[axis];
  const struct row_column *c = t->rows ? table_find(t, name) : NULL;
  double value = NAN;
  if (c && c->row_bytes == sizeof value) memcpy(&value, column_row(c, t->rows - 1), sizeof value);
  return value;
}

/* The largest value of the last row and where it is; a NaN is larger than any number. */
static double largest(const struct recorder *r, const char *name, long *place_of_it)
{
  const struct row_table *t = &r->rows.table[AXIS_STEP];
  const struct row_column *c = table_find(t, name);
  *place_of_it = -1;
  if (!c || c->shape.kind != KIND_F32) return NAN;
  const float *row = column_row(c, t->rows - 1);
  long n = (long)(c->row_bytes / sizeof *row);
  for (long i = 0, best = -1; i < n && (best < 0 || !isnan(row[best])); i++)
    if (!is_missing((double)row[i]) && (best < 0 || !(row[i] <= row[best]))) *place_of_it = best = i;
  return *place_of_it < 0 ? NAN : (double)row[*place_of_it];
}

int recorder_live(struct recorder *r, struct error *e)
{
  const struct row_table *t = &r->rows.table[AXIS_STEP];
  char line[512];
  int64_t step;
  long where;
  if (r->is_null) return STATUS_OK;
  if (r->problem.status) return error_set(e, r->problem.status, "%s", r->problem.text);
  if (!t->rows) return STATUS_OK;
  memcpy(&step, column_row(&t->column[0], t->rows - 1), sizeof step);
  if (step == r->live_step) return STATUS_OK;
  r->live_step = step;
  int n = snprintf(line, sizeof line, "%" PRId64, step);
  for (size_t i = 0; i < sizeof live_columns / sizeof *live_columns; i++)
    n += snprintf(line + n, sizeof line - (size_t)n, "\t%.9g",
                  recorder_last(r, live_columns[i].name, live_columns[i].axis));
  double max = largest(r, "attn/max_logit", &where);
  const struct row_column *c = where < 0 ? NULL : table_find(t, "attn/max_logit");
  long heads = c && c->shape.rank == 3 ? (long)c->shape.dims[2] : 1;
  n += snprintf(line + n, sizeof line - (size_t)n, "\t%.9g\t%ld\t%ld\n", max, where < 0 ? -1 : where / heads,
                where < 0 ? -1 : where % heads);
  return append_write(r->live, line, (size_t)n, e);
}
