/* cpu.c - which fast kernels this processor can run
   In single precision our own kernels, compiled for several instruction sets, so that a binary built for
   any machine is fast on each; in double precision, which serves tests, OpenBLAS's product alone. */
#include "config.h"
#include "numerics/maxima_kernels.h"
#include "numerics/spectra_kernels.h"
#include "numerics/device.h"

#ifdef MAXLOGIT_DOUBLE
#include <cblas.h>
#include <string.h>

static void blas_matmul(struct device *device, const struct matmul_args *x)
{
  (void)device;
  long depth = x->ta ? x->a->rows : x->a->cols;
  for (long i = 0; x->d && i < x->c->rows; i++)
    memcpy(REALS(x->c) + i * x->c->ld, REALS(x->d) + i * x->d->ld, (size_t)x->c->cols * sizeof(real));
  BLAS(gemm)
  (CblasRowMajor, x->ta ? CblasTrans : CblasNoTrans, x->tb ? CblasTrans : CblasNoTrans, (int)x->c->rows,
   (int)x->c->cols, (int)depth, (real)x->alpha, REALS(x->a), (int)x->a->ld, REALS(x->b), (int)x->b->ld,
   x->add || x->d ? 1 : 0, REALS(x->c), (int)x->c->ld);
}

const char *ops_cpu_level(void) { return "blas"; }
const char *ops_cpu_level_at(int i) { return i == 0 ? "blas" : NULL; }
void ops_cpu_override(struct ops *ops) { ops->matmul = blas_matmul; }
void ops_cpu_override_by(struct ops *ops, const char *name)
{
  (void)name;
  ops_cpu_override(ops);
}
void ops_cpu_without_maxima(struct ops *ops) { (void)ops; }
extern const struct spectra_kernels cpu_spectra_d;
const struct spectra_kernels *cpu_spectra(void) { return &cpu_spectra_d; }

#else
#ifdef HAVE_X86_LEVELS
#include <cpuid.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "numerics/cpu/cpu.h"

struct level {
  const char *name;
  int (*supported)(void);
  void (*product)(struct ops *), (*attention)(struct ops *), (*attention_only)(struct ops *);
  void (*rows)(struct ops *), (*update)(struct ops *), (*cures)(struct ops *), (*pointwise)(struct ops *);
  const struct spectra_kernels *spectra;
  maxima_kernel *maxima;
};

static int always(void) { return 1; }
#ifdef HAVE_X86_LEVELS
/* The processor is queried directly (CPUID and XGETBV, Intel's manual, volume 2). With the run-time library of some
   linkers __builtin_cpu_supports is always 0, which silently made the program four times slower. */
static int has(unsigned saved_states, unsigned features)
{
  unsigned a, b, c, d, saved, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA) || !(c & bit_OSXSAVE)) return 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  return (saved & saved_states) == saved_states && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
         (b & features) == features;
}
enum { V3 = bit_AVX2 | bit_BMI2 };
static int has_v3(void) { return has(6, V3); }
static int has_v4(void)
{
  return has(0xe6, V3 | bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL);
}
#define X86_ROWS LEVEL_ROW(v4, has_v4), LEVEL_ROW(v3, has_v3),
#else
#define X86_ROWS
#endif

static const struct level levels[] = {
/* the best first */
#define LEVEL_ROW_OF(name, supported) LEVEL_ROW(name, supported)
#define LEVEL_ROW(name, supported) \
  { \
#name, supported, ops_cpu_product_##name, ops_cpu_attention_##name, ops_cpu_attention_only_##name, \
      ops_cpu_rows_##name, ops_cpu_update_##name, ops_cpu_cures_##name, ops_cpu_pointwise_##name, \
      &cpu_spectra_##name, cpu_maxima_##name \
  }
  X86_ROWS LEVEL_ROW_OF(OWN_LEVEL, always),
};
enum { LEVELS = sizeof levels / sizeof *levels };

/* The best level of this processor, or the one that MAXLOGIT_KERNELS names. */
static const struct level *level(void)
{
  static atomic_flag told = ATOMIC_FLAG_INIT;
  const char *wanted = getenv("MAXLOGIT_KERNELS");
  const struct level *best = NULL;
  for (int i = LEVELS - 1; i >= 0; i--) {
    if (!levels[i].supported()) continue;
    best = &levels[i];
    if (wanted && !strcmp(wanted, best->name)) return best;
  }
  if (wanted && !atomic_flag_test_and_set(&told))
    warning("MAXLOGIT_KERNELS=%s: this machine does not have them; using %s", wanted, best->name);
  return best;
}

const char *ops_cpu_level(void) { return level()->name; }
const struct spectra_kernels *cpu_spectra(void) { return level()->spectra; }
maxima_kernel *cpu_maxima(void) { return level()->maxima; }

const char *ops_cpu_level_at(int i)
{
  for (int k = 0; k < LEVELS; k++)
    if (levels[k].supported() && i-- == 0) return levels[k].name;
  return NULL;
}

static void override(struct ops *ops, const struct level *by)
{
  by->product(ops);
  by->attention(ops);
  by->rows(ops);
  by->update(ops);
  by->cures(ops);
  by->pointwise(ops);
}

void ops_cpu_override(struct ops *ops) { override(ops, level()); }

void ops_cpu_override_by(struct ops *ops, const char *name)
{
  for (int k = 0; k < LEVELS; k++)
    if (!strcmp(levels[k].name, name) && levels[k].supported()) {
      override(ops, &levels[k]);
      return;
    }
  BUG("no kernels %s", name);
}

void ops_cpu_without_maxima(struct ops *ops) { level()->attention_only(ops); }
#endif
