#!/bin/sh
# The faults that ptx_on_host.py plants into PTX are found: of a product of tensor cores two operands are exchanged, a
# barrier is left out, an access to a vector is not aligned.
cd "${top_builddir:-.}" || exit 99
program=tests/numerics/check_ptx
[ -x $program ] || { echo "skipped: no $program (nvcc, g++ and Check build it)"; exit 77; }
out=$(mktemp) || exit 99
trap 'rm -f "$out"' EXIT
status=0
try() { # FAULT CASE OPERATION MESSAGE
  for fault in none "$1"; do
    PTX_FAULT=$fault CK_RUN_CASE=$2 CHECK_OPERATION=$3 $program >"$out" 2>&1
    case $?-$fault in
      0-none) continue ;;
      0-*) echo "$1: not found" ;;
      *-none) echo "$1: a fault where none is planted" ;;
      *) grep -q "$4" "$out" && continue
        echo "$1: found otherwise" ;;
    esac
    cat "$out"
    status=1
  done
}
try barrier table transpose 'transpose_kernel.*: a race of thread'
try vector table matmul 'product_kernel.*: a misaligned access: 16 bytes'
try mma identities none 'products_of_rounded_inputs'
exit $status
