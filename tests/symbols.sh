#!/bin/sh
# shellcheck disable=SC2086 # lists of words
# The same bits everywhere: nothing that computes a run's numbers may call what has other last bits on another
# processor, or leave to the compiler which products and sums become one operation.
cd "${top_builddir:-.}" || exit 99
complain() { echo "$*"; status=1; }
status=0

# Functions of libm that glibc has in variants, chosen by the processor; src/base has its own of those that are wanted.
# Square roots, roundings and the like are exact.
inexact='(a?(sin|cos|tan)h?|atan2|sincos|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|cbrt|hypot|erfc?|[lt]gamma|lgamma_r|[jy][01n])[fl]?'
blas='(cblas|LAPACKE|openblas)_.*'

# object:symbol, and why
allowed() {
  case $1 in
    blas:LAPACKE_dgesdd_work) ;;  # singular values of checkpoints
    cpu:cblas_*) ;;               # in double precision, for tests
    blas:openblas_*) ;;           # holds OpenBLAS to one thread and names its core
    provenance:LAPACKE_ilaver) ;; # tells its version
    families:log) ;;              # reads other programs' checkpoints
    *) return 1 ;;
  esac
}

# "object:symbol" of everything that is called; kernels lie in libkernels_LEVEL_a-NAME.o
nm=$(${CC:-cc} -print-prog-name=nm)
called() { $nm -A -u "$1" | sed -nE 's/^[^:]*:(lib[a-z0-9_]*_a-)?([^:]*)\.o: *U (__)?([^@]*)(_finite)?$/\2:\4/p' | sort -u; }
for library in libmaxlogit.a libmaxlogit_d.a; do
  [ -e "$library" ] || continue
  [ "$(called $library | wc -l)" -gt 1000 ] || complain "$library: nm tells too little"
  called $library | grep -qx blas:LAPACKE_dgesdd_work || complain "$library: not even blas.o calls LAPACKE_dgesdd_work"
  for call in $(called $library | grep -E ":($inexact|$blas)\$"); do
    allowed "$call" || complain "$library: ${call%:*}.o calls ${call#*:}, whose last bits are the processor's"
  done
done

# Contraction: every target's own flags begin with those of all, and with these the compiler fuses nothing by itself,
# for a processor that could.
grep -E '^[a-zA-Z0-9_]+_CFLAGS = ' Makefile | grep -vE '^(AM|CHECK|HDF5|BLAS|LAPACKE|XXHASH|GSL|JANSSON|MICROHTTPD|ZIP|YAML)_CFLAGS|AM_CFLAGS|kernel_cflags' &&
  complain "flags of these are not those of all"
[ "$(grep -cE '^(AM_CFLAGS|kernel_cflags) = .*common_cflags' Makefile)" = 2 ] || complain "common_cflags are not everybody's"
flags=$(./maxlogit doctor --json | sed -n 's/.*"flags": "\(.*\)",$/\1/p')
[ -n "$flags" ] || complain "doctor tells no flags"
source='float fused(float a, float b, float c); float fused(float a, float b, float c) { return a * b + c; }'
compiled() { echo "$source" | ${CC:-cc} $flags -O2 "$@" -S -x c -o - - 2>/dev/null; }
can=
if compiled -march=x86-64-v3 -ffp-contract=fast | grep -q fmadd; then can=-march=x86-64-v3; fi
compiled $can -ffp-contract=fast | grep -q fmadd || echo "this compiler fuses nothing here: contraction is not tested"
compiled $can | grep fmadd && complain "products and sums are fused by the compiler, with $flags"
exit $status
