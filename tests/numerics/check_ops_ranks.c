/* check_ops_ranks.c - operations of ops.def in ranks.c; of ranks there is one here */
#include "check_ops.h"

static int make_all_sum(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->all_sum = (struct all_sum_args){.y = vector(m, sizes[i][0] * sizes[i][1])};
  return 1;
}

static int make_all_max(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->all_max = (struct all_max_args){.y = vector(m, sizes[i][0] * sizes[i][1])};
  return 1;
}

static int make_pass_on(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->pass_on = (struct pass_on_args){.y = new_real(m, 1, n, n, 0), .x = vector(m, n)};
  return 1;
}

static int make_trade(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->trade = (struct trade_args){.y = new_real(m, 1, n, n, 0), .x = vector(m, n), .bit = i % 3};
  return 1;
}

static int make_gather_parts(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->gather_parts =
    (struct gather_parts_args){.y = new_real(m, 1, n, n, 0), .x = vector(m, n + 7), .from = i % 8};
  return 1;
}

static int make_scatter_sum(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->scatter_sum = (struct scatter_sum_args){.y = vector(m, n + 7), .x = vector(m, n), .from = i % 8};
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

static const struct operation_case cases[] = {CASE(all_sum), CASE(all_max),      CASE(pass_on),
                                              CASE(trade),   CASE(gather_parts), CASE(scatter_sum),
                                              CASE(merge)};

OPERATIONS(cases, sizeof cases / sizeof *cases, NULL)
