/* experts.cu - routing, sorting, products by expert, balance; definitions: ref/experts.c
   What is chosen follows from stored scores alone, so it is the same here and there. Nothing is summed in an order that
   a run could change. */
#include "cuda/kernels.h"

#define TINY_SUM 1e-20

/* --- the order of what is chosen from ---------------------------------------------------------------------- */

static __device__ inline int comes_before(double za, long a, double zb, long b)
{
  if (za != za || zb != zb) return za != za && (zb == zb || a < b);
  return za > zb || (za == zb && a < b);
}

/* The first of [from, to) by z(e) that comes after `last`, -1: the first of all. */
template <class Z> static __device__ inline long next_of(const Z &z, long from, long to, long last)
{
  long best = -1;
  double after = last < 0 ? 0 : z(last), top = 0;
  for (long e = from; e < to; e++) {
    double now = z(e);
    if ((last < 0 || comes_before(after, last, now, e)) && (best < 0 || comes_before(now, e, top, best)))
      best = e, top = now;
  }
  return best;
}

/* What is chosen from in row n: z of an expert, the sum of a group, and whether it is kept. */
struct cuda_selection {
  view score, bias;
  long n, groups, kept, chosen;
  int biased;
  __device__ double operator()(long e) const
  {
    return (double)score.at(n, e) + (biased ? (double)bias.element(e) : 0);
  }
};
struct group_sum {
  const struct cuda_selection &z;
  long size;
  __device__ double operator()(long g) const
  {
    long most = z.chosen / z.kept > 1 ? z.chosen / z.kept : 1, at = -1;
    double sum = 0;
    for (long k = 0; k < most; k++) sum += z(at = next_of(z, g * size, (g + 1) * size, at));
    return sum;
  }
};
/* Sums of groups, made once. */
struct group_sums {
  const double *sum;
  __device__ double operator()(long g) const { return sum[g]; }
};
struct kept_selection {
  const struct cuda_selection &z;
  const double *sum;
  long size, last; /* group; the last that is kept */
  __device__ double operator()(long e) const
  {
    long g = e / size;
    return sum && comes_before(sum[last], last, sum[g], g) ? -(double)INFINITY : z(e);
  }
};
static __device__ inline kept_selection keep_groups(const struct cuda_selection &z, double *sum)
{
  long size = z.score.cols / z.groups, last = -1;
  kept_selection all = {z, NULL, size, 0};
  if (z.groups <= 1) return all;
  group_sum of = {z, size};
  for (long g = 0; g < z.groups; g++) sum[g] = of(g);
  group_sums sums = {sum};
  for (long k = 0; k < z.kept; k++) last = next_of(sums, 0, z.groups, last);
  kept_selection some = {z, sum, size, last};
  return some;
}

/* --- routing -------------------------------------------------------------------------------------------------- */

struct route_each {
  view score, gate, stats, logits, bias, by;
  ints chosen;
  view_of<double> room; /* [N, groups] */
  int softmax;
  long groups, kept;
  __device__ void scores(long n) const
  {
    double top = -INFINITY, sum = 0;
    for (long e = 0; e < score.cols; e++) top = max_nan((double)logits.at(n, e), top);
    for (long e = 0; e < score.cols && softmax; e++) sum += exp((double)logits.at(n, e) - top);
    for (long e = 0; e < score.cols; e++) {
      double logit = (double)logits.at(n, e);
      score.at(n, e) = (float)(softmax ? exp(logit - top) / sum : 1 / (1 + exp(-logit)));
    }
  }
  __device__ void operator()(long, long n) const
  {
    long experts = score.cols, count = gate.cols, at = -1;
    double sum = TINY_SUM, all = TINY_SUM, entropy = 0, moved = 0, *sums = room.row(n);
    scores(n);
    for (long e = 0; e < experts; e++) stats.at(n, e) = 0, all += (double)score.at(n, e);
    struct cuda_selection z = {score, bias, n, groups, kept, count, bias.data != NULL};
    kept_selection from = keep_groups(z, sums);
    for (long k = 0; k < count; k++) {
      at = next_of(from, 0, experts, at);
      chosen.at(n, k) = (int)at;
      stats.at(n, at) = 1;
      sum += (double)score.at(n, at);
    }
    for (long k = 0; k < count; k++)
      gate.at(n, k) = (float)(number(by) * (double)score.at(n, chosen.at(n, k)) / (count == 1 ? 1 : sum));
    for (long e = 0; e < experts; e++) {
      double p = (double)score.at(n, e) / all;
      entropy -= p == 0 ? 0 : p * log(p);
    }
    if (bias.data) {
      z.biased = 0, at = -1;
      kept_selection plain = keep_groups(z, sums);
      for (long k = 0; k < count; k++)
        if (stats.at(n, at = next_of(plain, 0, experts, at)) == 0) moved = 1;
    }
    stats.at(n, experts) = (float)entropy;
    stats.at(n, experts + 1) = (float)moved;
  }
};
/* "chosen int [N,K]: the K largest z, in their order; gate [N,K] = scale score of the chosen / (sum of these + 1e-20)" */
SCRATCH(route, 8 * x->score->rows * x->groups)
static void route(struct device *device, const struct route_args *x)
{
  view_of<double> room = scratch<double>(device, x->score->rows * x->groups);
  room.rows = x->score->rows, room.cols = room.ld = x->groups;
  each(device, 1, x->score->rows,
       route_each{VIEW(x->score), VIEW(x->gate), VIEW(x->stats), VIEW(x->logits), VIEW(x->bias),
                  VIEW(x->scale), INTS_VIEW(x->chosen), room, x->softmax != 0, x->groups, x->kept});
}

struct route_back_each {
  view dlogits, dgate, dscore, score, by;
  ints chosen;
  view_of<double> room; /* [N, E] */
  int softmax;
  __device__ void operator()(long, long n) const
  {
    long experts = score.cols, count = dgate.cols;
    double sum = TINY_SUM, through = 0, all = 0, *ds = room.row(n);
    for (long e = 0; e < experts; e++) ds[e] = dscore.data ? (double)dscore.at(n, e) : 0;
    for (long k = 0; k < count; k++) sum += (double)score.at(n, chosen.at(n, k));
    for (long k = 0; k < count; k++)
      through += (double)dgate.at(n, k) * (double)score.at(n, chosen.at(n, k)) / sum;
    for (long k = 0; k < count; k++) {
      double d = (double)dgate.at(n, k);
      ds[chosen.at(n, k)] += number(by) * (count == 1 ? d : (d - through) / sum);
    }
    for (long e = 0; e < experts && softmax; e++) all += ds[e] * (double)score.at(n, e);
    for (long e = 0; e < experts; e++) {
      double s = (double)score.at(n, e);
      dlogits.at(n, e) = (float)(softmax ? s * (ds[e] - all) : ds[e] * s * (1 - s));
    }
  }
};
/* "dlogits from dgate and, where there is one, dscore; the choice has no derivative" */
SCRATCH(route_backward, 8 * x->score->rows * x->score->cols)
static void route_backward(struct device *device, const struct route_backward_args *x)
{
  view_of<double> room = scratch<double>(device, x->score->rows * x->score->cols);
  room.rows = x->score->rows, room.cols = room.ld = x->score->cols;
  each(device, 1, x->score->rows,
       route_back_each{VIEW(x->dlogits), VIEW(x->dgate), VIEW(x->dscore), VIEW(x->score), VIEW(x->scale),
                       INTS_VIEW(x->chosen), room, x->softmax != 0});
}

/* A block has an expert: it counts what comes before it, then walks over all choices once more and numbers its own. */
enum { SORT_THREADS = 256 };

static __global__ void sort_kernel(struct guarded guard, ints first, ints order, ints place, ints chosen)
{
  __shared__ int found[SORT_THREADS / 32];
  if (guard.off()) return;
  long total = chosen.rows * chosen.cols;
  int e = (int)blockIdx.x, warp = (int)threadIdx.x / 32, in_warp = (int)threadIdx.x % 32;
  double below = 0;
  for (long c = threadIdx.x; c < total; c += SORT_THREADS) below += chosen.element(c) < e;
  int at = (int)block_sum(below);
  if (threadIdx.x == 0) first.element(e) = at;
  for (long c0 = 0; c0 < total; c0 += SORT_THREADS) {
    long c = c0 + threadIdx.x;
    int own = c < total && chosen.element(c) == e;
    unsigned mine = __ballot_sync(ALL, own);
    if (in_warp == 0) found[warp] = __popc(mine);
    __syncthreads();
    int p = at + __popc(mine & ((1u << in_warp) - 1));
    for (int w = 0; w < SORT_THREADS / 32; w++) {
      if (w < warp) p += found[w];
      at += found[w];
    }
    if (own) order.element(p) = (int)c, place.element(c) = p;
    __syncthreads();
  }
  if (threadIdx.x == 0 && e + 2 == first.cols) first.element(e + 1) = at;
}
/* "order int [1,NK]: choices by their expert, those of one in their order" */
static void sort_choices(struct device *device, const struct sort_choices_args *x)
{
  struct queue q = queue_of(device);
  dim3 grid((unsigned)(x->first->cols - 1), 1, q.runs);
  LAUNCH(sort_kernel, grid, SORT_THREADS, 0, q.stream, q.guard, INTS_VIEW(x->first), INTS_VIEW(x->order),
         INTS_VIEW(x->place), INTS_VIEW(x->chosen));
}

/* --- rows of tokens to rows of choices, and back ------------------------------------------------------------------ */

struct spread_each {
  view y, x, gate;
  ints order;
  long chosen;
  __device__ void operator()(long p, long j) const
  {
    long c = order.element(p), n = c / chosen;
    y.at(p, j) = gate.data ? gate.at(n, c - n * chosen) * x.at(n, j) : x.at(n, j);
  }
};
/* "y[p,:] = gate[c] x[c/K,:] with c = order[p]" */
static void dispatch_tokens(struct device *device, const struct dispatch_tokens_args *x)
{
  each(device, x->y->rows, x->y->cols,
       spread_each{VIEW(x->y), VIEW(x->x), VIEW(x->gate), INTS_VIEW(x->order), x->y->rows / x->x->rows});
}

struct gather_each {
  view y, x, gate;
  ints place;
  int add;
  __device__ void operator()(long n, long j) const
  {
    double sum = add ? (double)y.at(n, j) : 0;
    for (long k = 0; k < place.cols; k++)
      sum += (gate.data ? (double)gate.at(n, k) : 1) * (double)x.at(place.at(n, k), j);
    y.at(n, j) = (float)sum;
  }
};
/* "y [N,D] [+]= sum_k gate[n,k] x[place[n,k],:], in the order of k" */
static void combine_tokens(struct device *device, const struct combine_tokens_args *x)
{
  each(device, x->y->rows, x->y->cols,
       gather_each{VIEW(x->y), VIEW(x->x), VIEW(x->gate), INTS_VIEW(x->place), x->add != 0});
}

struct dot_row {
  view y, x, z;
  ints place;
  __device__ void operator()(long i) const
  {
    long n = i / y.cols, k = i - n * y.cols;
    const float *a = x.row(n), *b = z.row(place.at(n, k));
    double sum = 0;
    for (long j = lane(); j < x.cols; j += team()) sum += (double)a[j] * (double)b[j];
    sum = team_sum(sum);
    if (lane() == 0) y.at(n, k) = (float)sum;
  }
};
/* "y[n,k] = sum_j x[n,j] z[place[n,k],j]" */
static void dot_rows(struct device *device, const struct dot_rows_args *x)
{
  each_row(device, x->y->rows * x->y->cols, x->x->cols,
           dot_row{VIEW(x->y), VIEW(x->x), VIEW(x->z), INTS_VIEW(x->place)});
}

/* --- products by expert ----------------------------------------------------------------------------------------------- */
/* Blocks for as many tiles of rows as there can be, wherever the experts begin: a block looks up whose tile it has, and
   those beyond the last have none. Sums are of fused multiply-adds in the order of k. */

enum { EXPERT_SIDE = 32, EXPERT_HALF = EXPERT_SIDE / 2, EXPERT_PAD = EXPERT_SIDE + 1 };

/* c's tile [EXPERT_SIDE, EXPERT_SIDE] at (row, col) of [m, n] = sum over k of a(row, k) b(col, k), a thread 2 x 2 of it. */
template <class A, class B, class C>
static __device__ inline void multiply_tile(float *shared, long m, long n, long depth, enum device_math math,
                                            A a, B b, C put)
{
  float *as = shared, *bs = shared + EXPERT_SIDE * EXPERT_PAD, sum[2][2] = {};
  int x = (int)threadIdx.x % EXPERT_HALF, y = (int)threadIdx.x / EXPERT_HALF;
  for (long k0 = 0; k0 < depth; k0 += EXPERT_SIDE) {
    for (int i = (int)threadIdx.x; i < EXPERT_SIDE * EXPERT_SIDE; i += EXPERT_HALF * EXPERT_HALF) {
      int r = i / EXPERT_SIDE, k = i % EXPERT_SIDE;
      as[r * EXPERT_PAD + k] = r < m && k0 + k < depth ? product_input(a(r, k0 + k), math) : 0;
      bs[r * EXPERT_PAD + k] = r < n && k0 + k < depth ? product_input(b(r, k0 + k), math) : 0;
    }
    __syncthreads();
    for (int k = 0; k < EXPERT_SIDE; k++)
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
          sum[i][j] = fmaf(as[(y + i * EXPERT_HALF) * EXPERT_PAD + k],
                           bs[(x + j * EXPERT_HALF) * EXPERT_PAD + k], sum[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      if (y + i * EXPERT_HALF < m && x + j * EXPERT_HALF < n)
        put(y + i * EXPERT_HALF, x + j * EXPERT_HALF, sum[i][j]);
}

enum { EXPERT_BYTES = 2 * EXPERT_SIDE * EXPERT_PAD * 4 };
static_assert((int)EXPERT_BYTES <= (int)SHARED_GIVEN, "");

static __global__ void expert_matmul_kernel(struct guarded guard, view y, view x, view w, ints first, int tb,
                                            int add, enum device_math math)
{
  DYNAMIC_SHARED(float, shared);
  if (guard.off()) return;
  long across = (y.cols + EXPERT_SIDE - 1) / EXPERT_SIDE, tile = blockIdx.x / across,
       col = blockIdx.x % across * EXPERT_SIDE, e = 0;
  long experts = first.cols - 1, block = w.rows / experts;
  for (;; e++) {
    if (e == experts) return; /* the whole block */
    long tiles = (first.element(e + 1) - first.element(e) + EXPERT_SIDE - 1) / EXPERT_SIDE;
    if (tile < tiles) break;
    tile -= tiles;
  }
  long row = first.element(e) + tile * EXPERT_SIDE;
  multiply_tile(
    shared, first.element(e + 1) - row, y.cols - col, x.cols, math,
    [&](int r, long k) { return x.at(row + r, k); },
    [&](int c, long k) { return tb ? w.at(e * block + col + c, k) : w.at(e * block + k, col + c); },
    [&](int r, int c, float sum) {
      float *to = &y.at(row + r, col + c);
      *to = add ? *to + sum : sum;
    });
}
/* "rows first[e] <= p < first[e+1]: y[p,:] [+]= x[p,:] w_e, or, tb=1, x[p,:] w_e^T" */
static void expert_matmul(struct device *device, const struct expert_matmul_args *x)
{
  struct queue q = queue_of(device);
  long tiles = ceil_div(x->y->rows, EXPERT_SIDE) + x->first->cols - 1;
  dim3 grid((unsigned)(tiles * ceil_div(x->y->cols, EXPERT_SIDE)), 1, q.runs);
  LAUNCH(expert_matmul_kernel, grid, EXPERT_HALF * EXPERT_HALF, EXPERT_BYTES, q.stream, q.guard, VIEW(x->y),
         VIEW(x->x), VIEW(x->w), INTS_VIEW(x->first), x->tb != 0, x->add != 0, device->math);
}

static __global__ void expert_outer_kernel(struct guarded guard, view dw, view dy, view x, ints first,
                                           int add, enum device_math math)
{
  DYNAMIC_SHARED(float, shared);
  if (guard.off()) return;
  long e = blockIdx.y, block = dw.rows / (first.cols - 1), across = (dw.cols + EXPERT_SIDE - 1) / EXPERT_SIDE;
  long row = blockIdx.x / across * EXPERT_SIDE, col = blockIdx.x % across * EXPERT_SIDE,
       from = first.element(e);
  multiply_tile(
    shared, block - row, dw.cols - col, first.element(e + 1) - from, math,
    [&](int r, long k) { return dy.at(from + k, row + r); },
    [&](int c, long k) { return x.at(from + k, col + c); },
    [&](int r, int c, float sum) {
      float *to = &dw.at(e * block + row + r, col + c);
      *to = add ? *to + sum : sum;
    });
}
/* "dw_e [+]= dy_e^T x_e, of the same rows of dy and x" */
static void expert_outer(struct device *device, const struct expert_outer_args *x)
{
  struct queue q = queue_of(device);
  long experts = x->first->cols - 1, down = ceil_div(x->dw->rows / experts, EXPERT_SIDE);
  long tiles = down * ceil_div(x->dw->cols, EXPERT_SIDE);
  dim3 grid((unsigned)tiles, (unsigned)experts, q.runs);
  LAUNCH(expert_outer_kernel, grid, EXPERT_HALF * EXPERT_HALF, EXPERT_BYTES, q.stream, q.guard, VIEW(x->dw),
         VIEW(x->dy), VIEW(x->x), INTS_VIEW(x->first), x->add != 0, device->math);
}

/* --- balance ---------------------------------------------------------------------------------------------------------- */

static __device__ inline double row_sum(const view &score, long n)
{
  double sum = TINY_SUM;
  for (long e = 0; e < score.cols; e++) sum += (double)score.at(n, e);
  return sum;
}

/* One expert of one sequence: how often it is among the largest, and its mean share of the scores. */
struct balance_each {
  view share, score;
  view_of<double> part; /* [B, E]: f P */
  long active, length;
  __device__ void operator()(long b, long e) const
  {
    long count = 0;
    double sum = 0;
    for (long n = b * length; n < (b + 1) * length; n++) {
      double own = (double)score.at(n, e);
      long before = 0;
      for (long i = 0; i < score.cols; i++) before += comes_before((double)score.at(n, i), i, own, e);
      count += before < active;
      sum += own / row_sum(score, n);
    }
    double f = (double)count * (double)score.cols / (double)(active * length);
    share.at(b, e) = (float)f;
    part.at(b, e) = f * sum / (double)length;
  }
};
struct balance_sum {
  view loss, alpha;
  view_of<double> part;
  double weight;
  __device__ void operator()(long, long) const
  {
    double sum = 0;
    for (long i = 0; i < part.rows * part.cols; i++) sum += part.element(i);
    loss.at(0, 0) = (float)(weight * number(alpha) / (double)part.rows * sum);
  }
};
/* "loss [1] = alpha weight / B sum_b sum_e f P" */
SCRATCH(balance_loss, 8 * x->share->rows * x->share->cols)
static void balance_loss(struct device *device, const struct balance_loss_args *x)
{
  view_of<double> part = scratch<double>(device, x->share->rows * x->share->cols);
  part.rows = x->share->rows, part.cols = part.ld = x->share->cols;
  each(device, x->share->rows, x->share->cols,
       balance_each{VIEW(x->share), VIEW(x->score), part, x->active, x->score->rows / x->share->rows});
  each(device, 1, 1, balance_sum{VIEW(x->loss), VIEW(x->alpha), part, x->weight});
}

struct balance_back_each {
  view dscore, share, score, alpha;
  long length;
  double weight;
  __device__ void operator()(long, long n) const
  {
    double all = row_sum(score, n), mean = 0, c = weight * number(alpha) / (double)score.rows;
    for (long e = 0; e < score.cols; e++)
      mean += (double)share.at(n / length, e) * (double)score.at(n, e) / all;
    for (long e = 0; e < score.cols; e++)
      dscore.at(n, e) = (float)(c * ((double)share.at(n / length, e) - mean) / all);
  }
};
/* "dscore, of the loss's derivative 1; none flows through f" */
static void balance_loss_backward(struct device *device, const struct balance_loss_backward_args *x)
{
  each(device, 1, x->score->rows,
       balance_back_each{VIEW(x->dscore), VIEW(x->share), VIEW(x->score), VIEW(x->alpha),
                         x->score->rows / x->share->rows, x->weight});
}

extern "C" void ops_cuda_experts(struct ops *ops)
{
  ops->route = route;
  ops->route_backward = route_backward;
  ops->sort_choices = sort_choices;
  ops->dispatch_tokens = dispatch_tokens;
  ops->combine_tokens = combine_tokens;
  ops->dot_rows = dot_rows;
  ops->expert_matmul = expert_matmul;
  ops->expert_outer = expert_outer;
  ops->balance_loss = balance_loss;
  ops->balance_loss_backward = balance_loss_backward;
  ops->scratch[OP_route] = route_scratch;
  ops->scratch[OP_route_backward] = route_backward_scratch;
  ops->scratch[OP_balance_loss] = balance_loss_scratch;
}
