/* experts.c - the definitions of operations on experts: routing, sorting, products by expert, balance
   The CPU routes by them too: rows are shared out to threads, and each is computed by itself. */
#include <math.h>
#include "base/elementary.h"
#include "base/error.h"
#include "numerics/ref/ref.h"

static const double TINY = 1e-20; /* avoids 0 / 0 if all scores of a sum are 0 */

enum { ROWS = 32 }; /* of a piece of work */

struct expert_rows {
  const void *args;
  void (*row)(const void *args, long n, double *room);
  long count, width; /* of a worker's memory, in numbers */
  double *room;
};

static void some_rows(void *context, long piece, int worker)
{
  const struct expert_rows *r = context;
  long end = (piece + 1) * ROWS < r->count ? (piece + 1) * ROWS : r->count;
  for (long n = piece * ROWS; n < end; n++) r->row(r->args, n, r->room + worker * r->width);
}

static size_t rows_scratch(const struct device *device, long width)
{
  return (size_t)(pool_threads(device->pool) * width) * sizeof(double);
}

static void each_row(struct device *device, long count, long width, const void *args,
                     void (*row)(const void *, long, double *))
{
  struct expert_rows r = {args, row, count, width, device_scratch(device, rows_scratch(device, width))};
  parallel_for(device->pool, (count + ROWS - 1) / ROWS, some_rows, &r);
}

/* --- the order of candidates ---------------------------------------------------------------------------- */

static int comes_before(const double *z, long a, long b)
{
  if (isnan(z[a]) || isnan(z[b])) return isnan(z[a]) && (!isnan(z[b]) || a < b);
  return z[a] > z[b] || (z[a] == z[b] && a < b);
}

/* The first of [from, to) after `last` in that order; -1: the first of all. */
static long next_of(const double *z, long from, long to, long last)
{
  long best = -1;
  for (long e = from; e < to; e++)
    if ((last < 0 || comes_before(z, last, e)) && (best < 0 || comes_before(z, e, best))) best = e;
  return best;
}

/* -Inf wherever the group is not kept; `sum` is room for the groups. */
static void keep_groups(double *z, long experts, long groups, long kept, long chosen, double *sum)
{
  long size = experts / groups, most = chosen / kept > 1 ? chosen / kept : 1, last = -1;
  for (long g = 0; g < groups; g++) {
    long at = -1;
    sum[g] = 0;
    for (long k = 0; k < most; k++) sum[g] += z[at = next_of(z, g * size, (g + 1) * size, at)];
  }
  for (long k = 0; k < kept; k++) last = next_of(sum, 0, groups, last);
  for (long e = 0; e < experts; e++)
    if (comes_before(sum, last, e / size)) z[e] = -INFINITY;
}

/* --- routing ------------------------------------------------------------------------------------------ */

static void scores(const struct route_args *x, long n)
{
  double top = -INFINITY, sum = 0;
  for (long e = 0; e < x->score->cols; e++) {
    double logit = (double)AT(x->logits, n, e);
    if (!(logit <= top)) top = isnan(top) ? top : logit;
    if (!x->softmax) AT(x->score, n, e) = (real)(1 / (1 + same_exp(-logit)));
  }
  for (long e = 0; x->softmax && e < x->score->cols; e++) sum += same_exp((double)AT(x->logits, n, e) - top);
  for (long e = 0; x->softmax && e < x->score->cols; e++)
    AT(x->score, n, e) = (real)(same_exp((double)AT(x->logits, n, e) - top) / sum);
}

/* Selection scores of the experts, into z; `sum`: room for the groups. */
static void selection(const struct route_args *x, long n, int biased, double *z, double *sum)
{
  for (long e = 0; e < x->score->cols; e++)
    z[e] = (double)AT(x->score, n, e) + (biased ? (double)*element(x->bias, e) : 0);
  if (x->groups > 1) keep_groups(z, x->score->cols, x->groups, x->kept, x->gate->cols, sum);
}

static void route_row(const void *args, long n, double *z)
{
  const struct route_args *x = args;
  long experts = x->score->cols, chosen = x->gate->cols, at = -1;
  double *sum_of_group = z + experts, sum = TINY, all = TINY, entropy = 0, moved = 0,
         scale = number(x->scale);
  scores(x, n);
  for (long e = 0; e < experts; e++) {
    AT(x->stats, n, e) = 0;
    all += (double)AT(x->score, n, e);
  }
  selection(x, n, x->bias != NULL, z, sum_of_group);
  for (long k = 0; k < chosen; k++) {
    at = next_of(z, 0, experts, at);
    INTS(x->chosen)[n * x->chosen->ld + k] = (int)at;
    AT(x->stats, n, at) = 1;
    sum += (double)AT(x->score, n, at);
  }
  for (long k = 0; k < chosen; k++) {
    double score = (double)AT(x->score, n, INTS(x->chosen)[n * x->chosen->ld + k]);
    AT(x->gate, n, k) = (real)(scale * score / (chosen == 1 ? 1 : sum));
  }
  for (long e = 0; e < experts; e++) {
    double p = (double)AT(x->score, n, e) / all;
    entropy -= p == 0 ? 0 : p * same_log(p);
  }
  at = -1;
  if (x->bias) selection(x, n, 0, z, sum_of_group);
  for (long k = 0; x->bias && k < chosen; k++)
    if (AT(x->stats, n, at = next_of(z, 0, experts, at)) == 0) moved = 1;
  AT(x->stats, n, experts) = (real)entropy;
  AT(x->stats, n, experts + 1) = (real)moved;
}

size_t route_scratch(const struct device *device, const void *args)
{
  const struct route_args *x = args;
  return rows_scratch(device, x->score->cols + x->groups);
}

void ref_route(struct device *device, const struct route_args *x)
{
  each_row(device, x->score->rows, x->score->cols + x->groups, x, route_row);
}

/* gate_k = r s_k / Z, Z = sum of the chosen s + tiny: ds_k = r (dgate_k - sum_i dgate_i s_i / Z) / Z; one alone:
   r dgate.
   sigmoid: dlogit = ds s (1 - s); softmax: s (ds - sum ds s). */
static void route_backward_row(const void *args, long n, double *ds)
{
  const struct route_backward_args *x = args;
  long experts = x->score->cols, chosen = x->dgate->cols;
  const int *at = INTS(x->chosen) + n * x->chosen->ld;
  double sum = TINY, through = 0, scale = number(x->scale), all = 0;
  for (long e = 0; e < experts; e++) ds[e] = x->dscore ? (double)AT(x->dscore, n, e) : 0;
  for (long k = 0; k < chosen; k++) sum += (double)AT(x->score, n, at[k]);
  for (long k = 0; k < chosen; k++)
    through += (double)AT(x->dgate, n, k) * (double)AT(x->score, n, at[k]) / sum;
  for (long k = 0; k < chosen; k++) {
    double d = (double)AT(x->dgate, n, k);
    ds[at[k]] += scale * (chosen == 1 ? d : (d - through) / sum);
  }
  for (long e = 0; x->softmax && e < experts; e++) all += ds[e] * (double)AT(x->score, n, e);
  for (long e = 0; e < experts; e++) {
    double s = (double)AT(x->score, n, e);
    AT(x->dlogits, n, e) = (real)(x->softmax ? s * (ds[e] - all) : ds[e] * s * (1 - s));
  }
}

size_t route_backward_scratch(const struct device *device, const void *args)
{
  return rows_scratch(device, ((const struct route_backward_args *)args)->score->cols);
}

void ref_route_backward(struct device *device, const struct route_backward_args *x)
{
  each_row(device, x->score->rows, x->score->cols, x, route_backward_row);
}

void ref_sort_choices(struct device *device, const struct sort_choices_args *x)
{
  (void)device;
  long experts = x->first->cols - 1, chosen = x->chosen->cols, n = x->chosen->rows;
  int *first = INTS(x->first);
  for (long e = 0; e <= experts; e++) first[e] = 0;
  for (long c = 0; c < n * chosen; c++) first[INTS(x->chosen)[c / chosen * x->chosen->ld + c % chosen] + 1]++;
  for (long e = 0; e < experts; e++) first[e + 1] += first[e];
  for (long c = 0; c < n * chosen; c++) { /* first[e] moves on to the end of e ... */
    int p = first[INTS(x->chosen)[c / chosen * x->chosen->ld + c % chosen]]++;
    INTS(x->order)[p] = (int)c;
    INTS(x->place)[c / chosen * x->place->ld + c % chosen] = p;
  }
  for (long e = experts; e > 0; e--) first[e] = first[e - 1]; /* ... which is the begin of the next */
  first[0] = 0;
}

/* --- rows of tokens to rows of choices, and back --------------------------------------------------------- */

void ref_dispatch_tokens(struct device *device, const struct dispatch_tokens_args *x)
{
  (void)device;
  long chosen = x->y->rows / x->x->rows;
  for (long p = 0; p < x->y->rows; p++) {
    long n = INTS(x->order)[p] / chosen, k = INTS(x->order)[p] % chosen;
    double gate = x->gate ? (double)AT(x->gate, n, k) : 1;
    for (long j = 0; j < x->y->cols; j++) AT(x->y, p, j) = (real)(gate * (double)AT(x->x, n, j));
  }
}

void ref_combine_tokens(struct device *device, const struct combine_tokens_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) {
      double sum = x->add ? (double)AT(x->y, n, j) : 0;
      for (long k = 0; k < x->place->cols; k++)
        sum += (x->gate ? (double)AT(x->gate, n, k) : 1) *
               (double)AT(x->x, INTS(x->place)[n * x->place->ld + k], j);
      AT(x->y, n, j) = (real)sum;
    }
}

void ref_dot_rows(struct device *device, const struct dot_rows_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long k = 0; k < x->y->cols; k++) {
      double sum = 0;
      for (long j = 0; j < x->x->cols; j++)
        sum += (double)AT(x->x, n, j) * (double)AT(x->z, INTS(x->place)[n * x->place->ld + k], j);
      AT(x->y, n, k) = (real)sum;
    }
}

/* --- products by expert -------------------------------------------------------------------------------- */

void ref_expert_matmul(struct device *device, const struct expert_matmul_args *x)
{
  (void)device;
  long experts = x->first->cols - 1, block = x->w->rows / experts;
  for (long e = 0; e < experts; e++)
    for (long p = INTS(x->first)[e]; p < INTS(x->first)[e + 1]; p++)
      for (long j = 0; j < x->y->cols; j++) {
        double sum = x->add ? (double)AT(x->y, p, j) : 0;
        for (long k = 0; k < x->x->cols; k++)
          sum += (double)AT(x->x, p, k) *
                 (double)(x->tb ? AT(x->w, e * block + j, k) : AT(x->w, e * block + k, j));
        AT(x->y, p, j) = (real)sum;
      }
}

void ref_expert_outer(struct device *device, const struct expert_outer_args *x)
{
  (void)device;
  long experts = x->first->cols - 1, block = x->dw->rows / experts;
  for (long i = 0; i < x->dw->rows; i++)
    for (long j = 0; j < x->dw->cols; j++) {
      long e = i / block;
      double sum = x->add ? (double)AT(x->dw, i, j) : 0;
      for (long p = INTS(x->first)[e]; p < INTS(x->first)[e + 1]; p++)
        sum += (double)AT(x->dy, p, i - e * block) * (double)AT(x->x, p, j);
      AT(x->dw, i, j) = (real)sum;
    }
}

/* --- balance -------------------------------------------------------------------------------------------- */

static double row_sum(const struct tensor *score, long n)
{
  double sum = TINY;
  for (long e = 0; e < score->cols; e++) sum += (double)AT(score, n, e);
  return sum;
}

/* Of one sequence: its f, and in `sum` [E] | [E] the sums of score shares and room for scores; returns sum f P T. */
static double sequence_balance(const struct balance_loss_args *x, long b, double *room)
{
  long experts = x->score->cols, length = x->score->rows / x->share->rows;
  double *sum = room, *s = room + experts, loss = 0;
  for (long e = 0; e < experts; e++) sum[e] = AT(x->share, b, e) = 0;
  for (long n = b * length; n < (b + 1) * length; n++) {
    double all = row_sum(x->score, n);
    long at = -1;
    for (long e = 0; e < experts; e++) sum[e] += (s[e] = (double)AT(x->score, n, e)) / all;
    for (long k = 0; k < x->active; k++) AT(x->share, b, at = next_of(s, 0, experts, at)) += 1;
  }
  for (long e = 0; e < experts; e++) {
    double f = (double)AT(x->share, b, e) * (double)experts / (double)(x->active * length);
    AT(x->share, b, e) = (real)f;
    loss += f * sum[e] / (double)length;
  }
  return loss;
}

size_t balance_loss_scratch(const struct device *device, const void *args)
{
  (void)device;
  return 2 * (size_t)((const struct balance_loss_args *)args)->score->cols * sizeof(double);
}

void ref_balance_loss(struct device *device, const struct balance_loss_args *x)
{
  double *room = device_scratch(device, balance_loss_scratch(device, x)), loss = 0;
  for (long b = 0; b < x->share->rows; b++) loss += sequence_balance(x, b, room);
  AT(x->loss, 0, 0) = (real)(x->weight * number(x->alpha) / (double)x->share->rows * loss);
}

/* P's p_e = s_e / S: ds_e = c (f_e - sum f p) / S, c = alpha weight / (B T) */
void ref_balance_loss_backward(struct device *device, const struct balance_loss_backward_args *x)
{
  (void)device;
  long length = x->score->rows / x->share->rows;
  double c = x->weight * number(x->alpha) / (double)x->score->rows;
  for (long n = 0; n < x->score->rows; n++) {
    double all = row_sum(x->score, n), mean = 0;
    for (long e = 0; e < x->score->cols; e++)
      mean += (double)AT(x->share, n / length, e) * (double)AT(x->score, n, e) / all;
    for (long e = 0; e < x->score->cols; e++)
      AT(x->dscore, n, e) = (real)(c * ((double)AT(x->share, n / length, e) - mean) / all);
  }
}
