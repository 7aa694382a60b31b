/* rows.cu - biases, embedding, norms, activations, RoPE, heads joined, the loss; definitions: ops.def, ref/rows.c */
#include "cuda/kernels.h"

struct add_bias_each {
  view y, b;
  __device__ void operator()(long n, long j) const { y.at(n, j) += b.at(0, j); }
};
/* "y[n,:] += b" */
static void add_bias(struct device *device, const struct add_bias_args *x)
{
  each(device, x->y->rows, x->y->cols, add_bias_each{VIEW(x->y), VIEW(x->b)});
}

struct one_column {
  view x;
  __device__ double operator()(long n, long j) const { return x.at(n, j); }
};
/* "y[:] [+]= sum_n x[n,:], in a fixed order" */
SCRATCH(sum_rows, 8 * column_parts_of(x->x->rows, x->x->cols))
static void sum_rows(struct device *device, const struct sum_rows_args *x)
{
  sum_columns(device, x->x->rows, x->x->cols, one_column{VIEW(x->x)}, put_column{VIEW(x->y), x->add != 0});
}

/* --- embedding -------------------------------------------------------------------------------------------------- */

struct embed_each {
  view y, w;
  ints tokens;
  __device__ void operator()(long n, long j) const { y.at(n, j) = w.at(tokens.base()[n], j); }
};
/* "y[n,:] = w[token[n],:]" */
static void embed_forward(struct device *device, const struct embed_forward_args *x)
{
  each(device, x->y->rows, x->y->cols, embed_each{VIEW(x->y), VIEW(x->w), INTS_VIEW(x->tokens)});
}

/* "dw[token[n],:] += dy[n,:], summed in double in the order of n": a block has a row of dw and EMBED_COLUMNS of its
   columns; its threads look through the tokens together, then every thread adds the rows that were found to its
   columns, in their order. */
enum {
  EMBED_THREADS = 128,
  EMBED_EACH = 4,
  EMBED_COLUMNS = EMBED_THREADS * EMBED_EACH,
  EMBED_TOKENS = 1024, /* looked through at a time */
  EMBED_WORDS = EMBED_TOKENS / 32
};

static __global__ void embed_backward_kernel(struct guarded guard, view dw, ints tokens, view dy)
{
  __shared__ unsigned found[EMBED_WORDS];
  if (guard.off()) return;
  long v = blockIdx.x, j0 = (long)blockIdx.y * EMBED_COLUMNS + threadIdx.x;
  double sum[EMBED_EACH] = {};
  int any = 0;
  for (long n0 = 0; n0 < dy.rows; n0 += EMBED_TOKENS) {
    UNROLL
    for (int k = 0; k < EMBED_TOKENS / EMBED_THREADS; k++) {
      long n = n0 + k * EMBED_THREADS + threadIdx.x;
      unsigned mine = __ballot_sync(ALL, n < dy.rows && tokens.base()[n] == v);
      if (threadIdx.x % 32 == 0) found[(k * EMBED_THREADS + threadIdx.x) / 32] = mine;
    }
    __syncthreads();
    for (int w = 0; w < EMBED_WORDS; w++)
      for (unsigned left = found[w]; left; left &= left - 1) {
        const float *row = dy.row(n0 + w * 32 + __ffs((int)left) - 1);
        UNROLL
        for (int k = 0; k < EMBED_EACH; k++)
          if (j0 + k * EMBED_THREADS < dy.cols) {
            if (!any) sum[k] = dw.at(v, j0 + k * EMBED_THREADS);
            sum[k] += row[j0 + k * EMBED_THREADS];
          }
        any = 1;
      }
    __syncthreads();
  }
  for (int k = 0; k < EMBED_EACH && any; k++)
    if (j0 + k * EMBED_THREADS < dy.cols) dw.at(v, j0 + k * EMBED_THREADS) = (float)sum[k];
}
static void embed_backward(struct device *device, const struct embed_backward_args *x)
{
  struct queue q = queue_of(device);
  dim3 grid((unsigned)x->dw->rows, (unsigned)ceil_div(x->dy->cols, EMBED_COLUMNS), q.runs);
  LAUNCH(embed_backward_kernel, grid, EMBED_THREADS, 0, q.stream, q.guard, VIEW(x->dw), INTS_VIEW(x->tokens),
         VIEW(x->dy));
}

/* --- RMSNorm: a team has a group of columns of a row ---------------------------------------------------------- */

struct rmsnorm_row {
  view y, rstd, x, gain, eps;
  long group, groups;
  __device__ void operator()(long i) const
  {
    long n = i / groups, from = (i - n * groups) * group;
    const float *in = x.row(n) + from, *by = gain.data ? gain.base() : NULL;
    float *out = y.row(n) + from;
    double squares = 0;
    for (long j = lane(); j < group; j += team()) squares += (double)in[j] * (double)in[j];
    float r = (float)(1 / sqrt(team_sum(squares) / (double)group + number(eps)));
    if (lane() == 0) rstd.at(n, i - n * groups) = r;
    for (long j = lane(); j < group; j += team()) out[j] = in[j] * r * (by ? by[j] : 1);
  }
};
/* "per group of `group` columns: y = x rstd * gain, rstd = 1/sqrt(mean(x^2)+eps)" */
static void rmsnorm_forward(struct device *device, const struct rmsnorm_forward_args *x)
{
  long groups = x->x->cols / x->group;
  each_row(device, x->x->rows * groups, x->group,
           rmsnorm_row{VIEW(x->y), VIEW(x->rstd), VIEW(x->x), VIEW(x->gain), VIEW(x->eps), x->group, groups});
}

struct rmsnorm_back_row {
  view dx, dy, x, rstd, gain;
  long group, groups;
  int add;
  __device__ void operator()(long i) const
  {
    long n = i / groups, from = (i - n * groups) * group;
    const float *in = x.row(n) + from, *d = dy.row(n) + from, *by = gain.data ? gain.base() : NULL;
    float *out = dx.row(n) + from;
    float r = rstd.at(n, i - n * groups);
    double mean = 0;
    for (long j = lane(); j < group; j += team())
      mean += (double)d[j] * (by ? (double)by[j] : 1) * (double)in[j];
    mean = team_sum(mean) / (double)group;
    for (long j = lane(); j < group; j += team()) {
      double e = (double)d[j] * (by ? (double)by[j] : 1);
      double value = r * (e - (double)in[j] * r * r * mean);
      out[j] = (float)(add ? (double)out[j] + value : value);
    }
  }
};
struct gain_term {
  view dy, x, rstd;
  long group, groups;
  __device__ double operator()(long i, long j) const
  {
    long n = groups == 1 ? i : i / groups, g = i - n * groups;
    return (double)dy.at(n, g * group + j) * (double)x.at(n, g * group + j) * (double)rstd.at(n, g);
  }
};
/* "dx [+]= , dgain += (where gain)": with e = dy gain dx = rstd (e - x rstd^2 mean(e x)), dgain = sum over rows and
   groups of dy x rstd */
SCRATCH(rmsnorm_backward, x->dgain ? 8 * column_parts_of(x->x->rows *(x->x->cols / x->group), x->group) : 0)
static void rmsnorm_backward(struct device *device, const struct rmsnorm_backward_args *x)
{
  long groups = x->x->cols / x->group, rows = x->x->rows * groups;
  view dy = VIEW(x->dy), in = VIEW(x->x), rstd = VIEW(x->rstd);
  if (x->dgain)
    sum_columns(device, rows, x->group, gain_term{dy, in, rstd, x->group, groups},
                put_column{VIEW(x->dgain), 1});
  each_row(device, rows, x->group,
           rmsnorm_back_row{VIEW(x->dx), dy, in, rstd, VIEW(x->gain), x->group, groups, x->add != 0});
}

/* --- SwiGLU, RoPE ------------------------------------------------------------------------------------------------- */

struct swiglu_each {
  view y, x;
  __device__ void operator()(long n, long j) const
  {
    float gate = x.at(n, j), up = x.at(n, y.cols + j);
    y.at(n, j) = gate * sigmoid(gate) * up;
  }
};
/* "y = silu(gate) * up; x [N,2F] = gate | up" */
static void swiglu_forward(struct device *device, const struct swiglu_forward_args *x)
{
  each(device, x->y->rows, x->y->cols, swiglu_each{VIEW(x->y), VIEW(x->x)});
}

struct swiglu_back_each {
  view dx, dy, x;
  __device__ void operator()(long n, long j) const
  {
    float gate = x.at(n, j), up = x.at(n, dy.cols + j), d = dy.at(n, j), s = sigmoid(gate);
    dx.at(n, j) = d * up * s * (1 + gate * sigmoid(-gate));
    dx.at(n, dy.cols + j) = d * gate * s;
  }
};
/* "dx = d(gate|up)": silu'(g) = s (1 + g (1 - s)) */
static void swiglu_backward(struct device *device, const struct swiglu_backward_args *x)
{
  each(device, x->dy->rows, x->dy->cols, swiglu_back_each{VIEW(x->dx), VIEW(x->dy), VIEW(x->x)});
}

struct rope_each {
  view y, x, table;
  ints position;
  long half;
  float sign;
  int add;
  __device__ void operator()(long n, long k) const
  {
    const long head = quotient(k, half), i = k - head * half, j = head * 2 * half + i, p = position.base()[n];
    float c = table.at(p, i), s = sign * table.at(p, half + i);
    float first = x.at(n, j), second = x.at(n, j + half);
    float a = first * c - second * s, b = second * c + first * s;
    y.at(n, j) = add ? y.at(n, j) + a : a;
    y.at(n, j + half) = add ? y.at(n, j + half) + b : b;
  }
};
/* "rotate pairs (i, i+dim/2) of every head of x [N, heads*dim] by sign * position[n] * frequency[i], from table
   [positions, dim] = cos | sin; y may be x; add=1: y += " */
static void rope(struct device *device, const struct rope_args *x)
{
  each(device, x->x->rows, x->x->cols / 2,
       rope_each{VIEW(x->y), VIEW(x->x), VIEW(x->table), INTS_VIEW(x->position), x->dim / 2, (float)x->sign,
                 x->add != 0});
}

struct scale_columns_each {
  view y, x, s;
  __device__ void operator()(long n, long j) const { y.at(n, j) = x.at(n, j) * *s.base(); }
};
/* "y = x * s where s [1] is a learned scalar" */
static void scale_columns(struct device *device, const struct scale_columns_args *x)
{
  each(device, x->y->rows, x->y->cols, scale_columns_each{VIEW(x->y), VIEW(x->x), VIEW(x->s)});
}

struct scale_columns_back_each {
  view dx, dy, s;
  int add;
  __device__ void operator()(long n, long j) const
  {
    double value = (double)dy.at(n, j) * (double)*s.base();
    dx.at(n, j) = (float)(add ? (double)dx.at(n, j) + value : value);
  }
};
struct product_of {
  view a, b;
  __device__ void operator()(long n, long j, double term[1]) const
  {
    term[0] = (double)a.at(n, j) * (double)b.at(n, j);
  }
};
struct add_to {
  view y;
  __device__ void operator()(const double sum[1]) const { *y.base() = (float)((double)*y.base() + sum[0]); }
};
/* "dx [+]= dy s; ds += sum dy x" */
SCRATCH(scale_columns_backward, 8 * parts_of(x->dy->rows, x->dy->cols, 1))
static void scale_columns_backward(struct device *device, const struct scale_columns_backward_args *x)
{
  long rows = x->dy->rows, cols = x->dy->cols;
  view_of<double> part = scratch<double>(device, parts_of(rows, cols, 1));
  sum_all<1>(device, rows, cols, part, product_of{VIEW(x->dy), VIEW(x->x)}, add_to{VIEW(x->ds)});
  each(device, rows, cols, scale_columns_back_each{VIEW(x->dx), VIEW(x->dy), VIEW(x->s), x->add != 0});
}

/* --- heads joined ----------------------------------------------------------------------------------------------- */

struct join_each {
  view y, a, b;
  long da, db;
  int shared;
  __device__ void operator()(long n, long j) const
  {
    long h = j / (da + db), i = j - h * (da + db);
    y.at(n, j) = i < da ? a.at(n, h * da + i) : b.at(n, (shared ? 0 : h * db) + i - da);
  }
};
/* "per head a | b: y [N, heads*(Da+Db)], a [N, heads*Da], b [N, heads*Db], or [N, Db] if shared=1" */
static void join_heads(struct device *device, const struct join_heads_args *x)
{
  long da = x->a->cols / x->heads, db = x->shared ? x->b->cols : x->b->cols / x->heads;
  each(device, x->y->rows, x->y->cols, join_each{VIEW(x->y), VIEW(x->a), VIEW(x->b), da, db, x->shared != 0});
}

struct split_a {
  view to, dy;
  long da, db;
  __device__ void operator()(long n, long j) const { to.at(n, j) = dy.at(n, j + quotient(j, da) * db); }
};
struct split_b {
  view to, dy;
  long da, db, heads; /* heads to add up: 1 where each has its own b */
  __device__ void operator()(long n, long j) const
  {
    double sum = 0;
    for (long h = 0; h < heads; h++) sum += (double)dy.at(n, (h + j / db) * (da + db) + da + j % db);
    to.at(n, j) = (float)sum;
  }
};
/* "da and db, the columns of dy; a shared db is their sum over the heads, in order" */
static void join_heads_backward(struct device *device, const struct join_heads_backward_args *x)
{
  long da = x->da->cols / x->heads, db = x->shared ? x->db->cols : x->db->cols / x->heads;
  each(device, x->da->rows, x->da->cols, split_a{VIEW(x->da), VIEW(x->dy), da, db});
  each(device, x->db->rows, x->db->cols, split_b{VIEW(x->db), VIEW(x->dy), da, db, x->shared ? x->heads : 1});
}

/* --- reparametrised weights --------------------------------------------------------------------------------------- */

struct bilinear {
  view w, u, v;
  __device__ void operator()(long i, long j, double term[1]) const
  {
    term[0] = (double)u.at(0, i) * (double)w.at(i, j) * (double)v.at(0, j);
  }
};
struct put_sum {
  view y;
  __device__ void operator()(const double sum[1]) const { *y.base() = (float)sum[0]; }
};
struct reparam_each {
  view y, w, gain, sigma;
  __device__ void operator()(long i, long j) const
  {
    y.at(i, j) = (float)((double)*gain.base() / (double)*sigma.base() * (double)w.at(i, j));
  }
};
/* "y = gain/sigma w with sigma [1] = u^T w v; w [m,n], u [1,m], v [1,n], gain [1]" */
SCRATCH(reparam, 8 * parts_of(x->w->rows, x->w->cols, 1))
static void reparam(struct device *device, const struct reparam_args *x)
{
  long rows = x->w->rows, cols = x->w->cols;
  view_of<double> part = scratch<double>(device, parts_of(rows, cols, 1));
  sum_all<1>(device, rows, cols, part, bilinear{VIEW(x->w), VIEW(x->u), VIEW(x->v)}, put_sum{VIEW(x->sigma)});
  each(device, rows, cols, reparam_each{VIEW(x->y), VIEW(x->w), VIEW(x->gain), VIEW(x->sigma)});
}

struct put_away { /* e / sigma, for the elements, and to dgain */
  view dgain, sigma;
  view_of<double> away;
  __device__ void operator()(const double sum[1]) const
  {
    double by_sigma = sum[0] / (double)*sigma.base();
    *dgain.base() = (float)((double)*dgain.base() + by_sigma);
    away.at(0, 0) = by_sigma;
  }
};
struct reparam_back_each {
  view dw, dy, u, v, gain, sigma;
  view_of<double> away;
  int add;
  __device__ void operator()(long i, long j) const
  {
    double factor = (double)*gain.base() / (double)*sigma.base();
    double value = factor * ((double)dy.at(i, j) - away.at(0, 0) * (double)u.at(0, i) * (double)v.at(0, j));
    dw.at(i, j) = (float)(add ? (double)dw.at(i, j) + value : value);
  }
};
/* "with e = sum dy w: dgain += e/sigma; dw [+]= gain/sigma (dy - e/sigma u v^T)" */
SCRATCH(reparam_backward, 8 * (parts_of(x->w->rows, x->w->cols, 1) + 1))
static void reparam_backward(struct device *device, const struct reparam_backward_args *x)
{
  long rows = x->w->rows, cols = x->w->cols, parts = parts_of(rows, cols, 1);
  view_of<double> part = scratch<double>(device, parts + 1), away = part;
  away.data += parts;
  sum_all<1>(device, rows, cols, part, product_of{VIEW(x->dy), VIEW(x->w)},
             put_away{VIEW(x->dgain), VIEW(x->sigma), away});
  each(device, rows, cols,
       reparam_back_each{VIEW(x->dw), VIEW(x->dy), VIEW(x->u), VIEW(x->v), VIEW(x->gain), VIEW(x->sigma),
                         away, x->add != 0});
}

/* --- loss --------------------------------------------------------------------------------------------------------- */

struct softmax_row {
  view ml, logits;
  __device__ void operator()(long n) const
  {
    const float *row = logits.row(n);
    float m = -INFINITY, l = 0;
    for (long j = lane(); j < logits.cols; j += team()) m = max_nan(m, row[j]);
    m = team_max(m);
    for (long j = lane(); j < logits.cols; j += team()) l += expf(row[j] - m);
    l = team_sum(l);
    if (lane() == 0) ml.at(n, 0) = m, ml.at(n, 1) = l;
  }
};

/* m + ln l less the target's logit: the large numbers first */
static __device__ inline double loss_of(const float *ml, double logit)
{
  return (double)ml[0] - logit + log((double)ml[1]);
}

struct loss_term {
  view ml, logits, weight;
  ints targets;
  __device__ void operator()(long n, long, double term[2]) const
  {
    double by = weight.element(n);
    if (by == 0) return;
    double lse = loss_of(ml.row(n), 0);
    term[0] = by * loss_of(ml.row(n), logits.at(n, targets.base()[n]));
    term[1] = by * lse * lse;
  }
};
struct put_loss {
  view loss, z;
  __device__ void operator()(const double sum[2]) const
  {
    loss.at(0, 0) = (float)sum[0];
    loss.at(0, 1) = (float)(number(z) != 0 ? number(z) * sum[1] : 0);
  }
};
/* "ml [N,2] = m, the row's maximum | l = sum exp(logits - m); lse = m + ln l; loss [1,2] = sum_n weight[n] (lse_n -
   logits[n,target[n]]), m less the logit first | z sum_n weight[n] lse_n^2; rows of weight 0 are skipped; sums in
   double, fixed order" */
SCRATCH(cross_entropy, 8 * parts_of(x->logits->rows, 1, 2))
static void cross_entropy(struct device *device, const struct cross_entropy_args *x)
{
  view ml = VIEW(x->ml), logits = VIEW(x->logits);
  view_of<double> part = scratch<double>(device, parts_of(x->logits->rows, 1, 2));
  each_row(device, x->logits->rows, x->logits->cols, softmax_row{ml, logits});
  sum_all<2>(device, x->logits->rows, 1, part, loss_term{ml, logits, VIEW(x->weight), INTS_VIEW(x->targets)},
             put_loss{VIEW(x->loss), VIEW(x->z)});
}

struct loss_back_each {
  view dlogits, logits, ml, weight, z;
  ints targets;
  __device__ void operator()(long n, long j) const
  {
    const float *to = ml.row(n);
    float by = weight.element(n), p = expf(logits.at(n, j) - to[0]) / to[1];
    float more = 1 + 2 * (float)number(z) * (to[0] + logf(to[1]));
    float d = p * more - (j == targets.base()[n] ? 1 : 0);
    dlogits.at(n, j) = by == 0 ? 0 : by * d;
  }
};
/* "dlogits = weight (softmax - onehot + 2 z lse softmax)" */
static void cross_entropy_backward(struct device *device, const struct cross_entropy_backward_args *x)
{
  each(device, x->logits->rows, x->logits->cols,
       loss_back_each{VIEW(x->dlogits), VIEW(x->logits), VIEW(x->ml), VIEW(x->weight), VIEW(x->z),
                      INTS_VIEW(x->targets)});
}

struct token_loss_each {
  view y, logits, ml;
  ints targets;
  __device__ void operator()(long, long n) const
  {
    y.at(n, 0) = (float)loss_of(ml.row(n), logits.at(n, targets.base()[n]));
  }
};
/* "y [N,1] = lse_n - logits[n,target[n]], lse as in cross_entropy" */
static void token_loss(struct device *device, const struct token_loss_args *x)
{
  each(device, 1, x->y->rows,
       token_loss_each{VIEW(x->y), VIEW(x->logits), VIEW(x->ml), INTS_VIEW(x->targets)});
}

extern "C" void ops_cuda_rows(struct ops *ops)
{
  ops->add_bias = add_bias;
  ops->sum_rows = sum_rows;
  ops->embed_forward = embed_forward;
  ops->embed_backward = embed_backward;
  ops->rmsnorm_forward = rmsnorm_forward;
  ops->rmsnorm_backward = rmsnorm_backward;
  ops->swiglu_forward = swiglu_forward;
  ops->swiglu_backward = swiglu_backward;
  ops->rope = rope;
  ops->scale_columns = scale_columns;
  ops->scale_columns_backward = scale_columns_backward;
  ops->join_heads = join_heads;
  ops->join_heads_backward = join_heads_backward;
  ops->reparam = reparam;
  ops->reparam_backward = reparam_backward;
  ops->cross_entropy = cross_entropy;
  ops->cross_entropy_backward = cross_entropy_backward;
  ops->token_loss = token_loss;
  ops->scratch[OP_sum_rows] = sum_rows_scratch;
  ops->scratch[OP_rmsnorm_backward] = rmsnorm_backward_scratch;
  ops->scratch[OP_scale_columns_backward] = scale_columns_backward_scratch;
  ops->scratch[OP_reparam] = reparam_scratch;
  ops->scratch[OP_reparam_backward] = reparam_backward_scratch;
  ops->scratch[OP_cross_entropy] = cross_entropy_scratch;
}
