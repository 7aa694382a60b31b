#!/bin/sh
# doctor: its fixed run has the same bits on one thread as on all, and the expected ones where known.
cd "${top_builddir:-.}" || exit 99
bits() { sed -n 's/.*"bits": "\([0-9a-f]*\)".*/\1/p'; }
all=$(./maxlogit doctor --json) || { echo "$all"; exit 1; }
one=$(taskset 1 ./maxlogit doctor --json) || { echo "$one"; exit 1; }
echo "$all"
[ "$(echo "$all" | bits)" = "$(echo "$one" | bits)" ] || { echo "other bits on one core: $one"; exit 1; }
echo "$all" | bits | grep -qE '^[0-9a-f]{16}$' || exit 1
blas=$(echo "$all" | sed -n 's/.*"openblas": "\([^"]*\)".*/\1/p')
echo "$all" | grep -qF ", $blas, " || { echo "the device's description is cut: $blas"; exit 1; }
MAXLOGIT_KERNELS=base ./maxlogit doctor --json | grep -q '"kernels": "base"' || { echo "other kernels than those asked for"; exit 1; }
# with other flags than the default ones no bits are known
if ! echo "$all" | grep -q '"flags": ".* -g -O3"'; then
  echo "$all" | grep -q '"expected_bits": null' || { echo "expected bits of unknown flags"; exit 1; }
fi
