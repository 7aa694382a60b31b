# mpirun.sh - for tests that want ranks: `ranks N COMMAND...` runs a command on N of them, more than cores if need be.
# Ends the test with 77, saying so, where there is no MPI.
skip() { echo "$(basename "$0"): skipped: $*"; exit 77; }
[ -e maxlogit_mpi.so ] || skip "no MPI module was built (mpicc; package libopenmpi-dev)"
command -v mpirun >/dev/null || skip "no mpirun (package openmpi-bin)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" # what Open MPI leaves is its own
oversubscribe=
if mpirun --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE'; then oversubscribe='--oversubscribe --bind-to none'; fi
# shellcheck disable=SC2086 # a list of words
ranks() { n=$1; shift; mpirun $oversubscribe -n "$n" "$@"; }
