/* check_ops.h - tests of operations: cases, which check_ops.c compares on every device with their definitions, and
   what tests by identity share */
#ifndef MAXLOGIT_TESTS_NUMERICS_CHECK_OPS_H
#define MAXLOGIT_TESTS_NUMERICS_CHECK_OPS_H
#include "base/memory.h"
#include "numerics/device.h"
#include "numerics/number_format.h"
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "../long.h"

#ifdef MAXLOGIT_DOUBLE
#define SMALLEST DBL_MIN
#define LARGEST DBL_MAX
#define SQUARE_OVERFLOWS 1.3407807929942596e154 /* the root of LARGEST */
#else
#define SMALLEST FLT_MIN
#define LARGEST FLT_MAX
#define SQUARE_OVERFLOWS 1.8446743523953730e19
#endif

#ifdef CUDA_ON_HOST
/* The reference, and a GPU's kernels on the CPU: in one order of threads; in another, three runs in a launch. The last
   has a library of products. */
enum { HOSTS = 2, KINDS = 3 };
int kernels_left_out(void);
#elif defined(ON_A_GPU)
/* The reference and a GPU; tests by identity are on the GPU alone, through mirror.c. */
enum { HOSTS = 1, KINDS = 2 };
struct device *mirror_open(void);
long mirror_calls(void); /* so far */
void mirror_without_maxima(struct device *);
#else
/* The reference, and the CPU's kernels at each level that this machine has. */
enum { LEVELS = 3, HOSTS = 1 + LEVELS, KINDS = HOSTS };
#endif

enum { MAX_TENSORS = 16, SAMPLES = 8, RUNS = SAMPLES + 4 };

enum hostile { TAME, NEGATIVE, TINY, ZERO, WITH_NAN, WITH_INF, WITH_MINUS_INF, WITH_HUGE, HOSTILES };

/* One case: tensors, the arguments made of them, and what each run has left in them. */
struct guarded {
  struct tensor t;
  char *memory;
  size_t bytes, before; /* of memory; of the guard in front */
  int read;             /* does the operation read the values? */
  int exact;            /* not disturbed: constants of which every device makes others */
  int work;             /* whatever is left there is nobody's business */
  int symmetric;
  char *result[RUNS];
};

struct made {
  struct guarded item[MAX_TENSORS];
  int items;
  int strided; /* rows further apart than they are wide */
  int rounds;  /* to a narrow format, inside */
  uint64_t seed;
  union op_args args;
  enum hostile hostile; /* what every value is like; what one value is like, see spoil */
  struct device *reference;
};

/* One part of a program: of its operations what makes variant i of a case (0: there is none), and tests by identity. */
struct operation_case {
  enum op op;
  int (*make)(struct made *, int i, union op_args *);
};
#define CASE(name) \
  { \
    OP_##name, make_##name \
  }
#define OPERATIONS(cases, count, identities) \
  static void __attribute__((constructor)) add_operations(void) { operations_add(cases, count, identities); }
void operations_add(const struct operation_case *cases, size_t count, void (*identities)(TCase *));

/* Tensors of a case: normal numbers, unless the case is of another kind; draws for the one that comes next. */
struct tensor *in(struct made *m, long rows, long cols);
struct tensor *out(struct made *m, long rows, long cols, long add);
struct tensor *vector(struct made *m, long n);
struct tensor *out_ints(struct made *m, long rows, long cols);
struct tensor *integers(struct made *m, long n, long limit);
struct tensor *number(struct made *m, int there, double value); /* a NUMBER, or none */
struct tensor *positive(struct made *m, struct tensor *t);
void now_read(struct tensor *t);
long below(const struct made *m, long i, long n);
long stride(const struct made *m, long cols);
struct guarded *new_item(struct made *m, enum tensor_type type, long rows, long cols, long ld);
struct tensor *new_real(struct made *m, long rows, long cols, long ld, int read);

/* Shapes of what is worked on number by number. */
enum { SIZES = 10 };
extern const long sizes[SIZES][2];
/* rows, heads, Da, Db */
enum { JOINS = 5 };
extern const long joins[JOINS][4];

/* --- for tests by identity: over _i = 0 ... HOSTS - 1 --- */

struct device *open_kind(int kind, int threads); /* NULL: this build or machine does not have it */
struct device *host_device(int i);               /* the best level stands in for those */
struct tensor *row(struct device *device, int n, const double *values);
void draw(struct tensor *t, uint64_t key);
int same_or_near(double got, double exact);
void ck_near(const struct tensor *a, const struct tensor *b, long row, const char *what);
void ck_row(const struct tensor *t, const double *expected, const char *what);

/* Scores and logits of this size, which differ by a few: the digits that are left tell them apart exactly. */
enum { SIZES_OF_SCORES = 4 };
extern const double levels_of[SIZES_OF_SCORES];
double step_of(long j);
#endif
