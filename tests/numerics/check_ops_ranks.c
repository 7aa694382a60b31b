/* check_ops_ranks.c - operations of ops.def in ranks.c; of ranks there is one here */
#include "check_ops.h"

static int make_all_reduce_sum(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->all_reduce_sum = (struct all_reduce_sum_args){.y = vector(m, sizes[i][0] * sizes[i][1])};
  return 1;
}

static int make_all_reduce_max(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->all_reduce_max = (struct all_reduce_max_args){.y = vector(m, sizes[i][0] * sizes[i][1])};
  return 1;
}

static int make_ring_shift(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->ring_shift = (struct ring_shift_args){.y = new_real(m, 1, n, n, 0), .x = vector(m, n)};
  return 1;
}

static int make_pairwise_exchange(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->pairwise_exchange =
    (struct pairwise_exchange_args){.y = new_real(m, 1, n, n, 0), .x = vector(m, n), .bit = i % 3};
  return 1;
}

static int make_all_gather(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->all_gather =
    (struct all_gather_args){.y = new_real(m, 1, n, n, 0), .x = vector(m, n + 7), .from = i % 8};
  return 1;
}

static int make_reduce_scatter(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->reduce_scatter =
    (struct reduce_scatter_args){.y = vector(m, n + 7), .x = vector(m, n), .from = i % 8};
  return 1;
}

/* Kinds by turns; some follow a number that is summed, some one that is the larger, some themselves. */
static int make_merge(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->merge = (struct merge_args){.y = vector(m, n), .x = vector(m, n), .kind = integers(m, n, 1)};
  for (long k = 0; k < n; k++)
    INTS(args->merge.kind)[k] = (int)(k % 6 == 4 ? k - 3 : k % 6 == 5 ? k : -1 - k % 6);
  return 1;
}

static const struct operation_case cases[] = {
  CASE(all_reduce_sum), CASE(all_reduce_max), CASE(ring_shift), CASE(pairwise_exchange),
  CASE(all_gather),     CASE(reduce_scatter), CASE(merge)};

OPERATIONS(cases, sizeof cases / sizeof *cases, NULL)
