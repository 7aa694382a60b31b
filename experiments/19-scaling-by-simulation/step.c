/* step.c - what a step takes where ranks are simulated: compiled into maxlogit_simulated alone, around functions of the program
   Computing takes the time there that a processor of the platform's speed wants for the operations' own count (op_flops);
   what they send takes its time by itself. Rank 0 writes a line a step into MAXLOGIT_SIMULATED. */
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include "numerics/fusion.h"
#include "run/trainer.h"

static double computed, began, bytes, spent[OP_COUNT], sent[OP_COUNT];
static long steps;

static void compute(double flops)
{
  if (flops <= 0) return;
  double t = MPI_Wtime();
  smpi_execute_flops(flops);
  computed += MPI_Wtime() - t;
}

void __real_op_run_if(struct device *, const struct tensor *guard, enum op, const union op_args *);
void __wrap_op_run_if(struct device *d, const struct tensor *guard, enum op op, const union op_args *args)
{
  double t = MPI_Wtime(), before = comm_sent();
  __real_op_run_if(d, guard, op, args);
  spent[op] += MPI_Wtime() - t;
  sent[op] += comm_sent() - before;
  compute(op_flops(op, args));
}

void __real_fusion_run(struct device *, const struct link *, int count, long piece);
void __wrap_fusion_run(struct device *d, const struct link *call, int count, long piece)
{
  __real_fusion_run(d, call, count, piece);
  for (int i = 0; i < count; i++) compute(op_flops(call[i].op, call[i].args));
}

/* From the beginning of a step to that of the next. */
int __real_trainer_step(struct trainer *, struct error *);
int __wrap_trainer_step(struct trainer *t, struct error *e)
{
  const char *file = getenv("MAXLOGIT_SIMULATED");
  int rank;
  trainer_ranks(t, &rank);
  if (file && !rank && steps) {
    FILE *f = fopen(file, "a");
    if (!f) abort();
    fprintf(f, "%ld %.9f %.9f %.0f", steps, MPI_Wtime() - began, computed, comm_sent() - bytes);
    for (int op = 0; op < OP_COUNT; op++)
      if (sent[op] > 0) fprintf(f, " %s %.9f %.0f", op_name((enum op)op), spent[op], sent[op]);
    fprintf(f, "\n");
    fclose(f);
  }
  steps++;
  for (int op = 0; op < OP_COUNT; op++) spent[op] = sent[op] = 0;
  computed = 0, began = MPI_Wtime(), bytes = comm_sent();
  return __real_trainer_step(t, e);
}
