#!/bin/sh
# What ranks send each other, on 1, 2, 3, 4 and 8 of them: every rank checks what it gets, sums have one hash, and what
# several have to say is told once, with whose it is; a rank that leaves while MPI begins or ends.
cd "${top_builddir:-.}" || exit 99
. "${top_srcdir:-.}/tests/comm/mpirun.sh"
MAXLOGIT_MPI=$PWD/maxlogit_mpi.so
export MAXLOGIT_MPI
status=0
said=$(mktemp) || exit 99
trap 'rm -f "$said"' EXIT
one=$(tests/comm/between 2>"$said") || { echo "$one"; cat "$said"; exit 1; }
for n in 2 3 4 8; do
  many=$(ranks $n tests/comm/between 2>"$said") || { echo "$n ranks: $many"; status=1; }
  [ "$(grep -c 'heard of all' "$said")" = 1 ] && [ "$(grep -c "rank [1-9] on $(hostname): .*heard of rank" "$said")" = $((n - 1)) ] ||
    { echo "$n ranks: not all is told, or twice: $(cat "$said")"; status=1; }
  case $n in 3) continue ;; esac # its leaves are fewer
  [ "$many" = "$one" ] || { echo "$n ranks: $many, and one: $one"; status=1; }
done
ranks 2 tests/comm/between isolated >/dev/null || { echo "isolated: failed"; status=1; }
ranks 4 tests/comm/between lost 2>"$said"
[ "$(grep -c "rank 3 of 4 on $(hostname) has not answered for 1 s" "$said")" = 1 ] || { echo "lost: $(cat "$said")"; status=1; }
ranks 2 tests/comm/between slow >"$said" 2>&1 || { echo "slow: $(cat "$said")"; status=1; }
ranks 2 tests/comm/between more >"$said" 2>&1
[ $? = 1 ] && [ "$(grep -c "rank 1 of 2 on $(hostname): a message between ranks has failed" "$said")" = 1 ] ||
  { echo "more: $(cat "$said")"; status=1; }

# a rank that leaves where MPI itself waits: it is named, and all ends, in time
unset MAXLOGIT_MPI
leaves() { # AT HOW
  # shellcheck disable=SC2086 # a list of words
  timeout 60 mpirun $oversubscribe -n 2 tests/comm/between "$1" "$2" >"$said" 2>&1
  left=$?
}
named="rank 1 of 2 on $(hostname) has not answered for 2 s"
for at in 'begin stopped' 'first stopped' 'end stopped'; do
  leaves "${at% *}" "${at#* }"
  [ $left = 1 ] && [ "$(grep -c "$named" "$said")" = 1 ] || { echo "$at: exit $left, $(cat "$said")"; status=1; }
done
leaves begin gone # Open MPI's launcher sees it where the other has begun before
[ $left = 1 ] && [ "$(grep -c "$named\|exited due to process rank 1 " "$said")" = 1 ] || { echo "gone: exit $left, $(cat "$said")"; status=1; }
leaves between exits
[ $left != 0 ] && [ $left != 124 ] && ! grep -q 'has not answered' "$said" || { echo "exits: exit $left, $(cat "$said")"; status=1; }
exit $status
