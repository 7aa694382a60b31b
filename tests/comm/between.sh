#!/bin/sh
# What ranks send each other, on 1, 2, 3, 4 and 8 of them: every rank checks what it gets, and sums have one hash.
cd "${top_builddir:-.}" || exit 99
. "${top_srcdir:-.}/tests/comm/mpirun.sh"
MAXLOGIT_MPI=$PWD/maxlogit_mpi.so
export MAXLOGIT_MPI
status=0
one=$(tests/comm/between) || { echo "$one"; exit 1; }
for n in 2 3 4 8; do
  many=$(ranks $n tests/comm/between) || { echo "$n ranks: $many"; status=1; }
  case $n in 3) continue ;; esac # its leaves are fewer
  [ "$many" = "$one" ] || { echo "$n ranks: $many, and one: $one"; status=1; }
done
ranks 2 tests/comm/between isolated >/dev/null || { echo "isolated: failed"; status=1; }
exit $status
