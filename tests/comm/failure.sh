#!/bin/sh
# shellcheck disable=SC2086 # lists of settings
# What happens to ranks: one is killed, or stuck, or told to stop; the disk is full where the files are; they are not alike.
# Whatever it was, one message tells, nobody waits for long, and the run goes on from its file to the bits of one that was
# never disturbed.
cd "${top_builddir:-.}" || exit 99
. "${top_srcdir:-.}/tests/comm/mpirun.sh"
. "${top_srcdir:-.}/tests/small_runs.sh"
program=$PWD/maxlogit
small="preset=muonclip qk_clip.tau=0.3 model.width=16 model.heads=2 model.context=16 train.batch=4 train.micro_batches=4
  train.warmup=2 train.lr=0.03 train.val_every=0 train.val_batches=1 checkpoint.every=100 device.threads=1"
steps=3000
quiet=-q
before=
start() { # NAME SETTING...: in the background, its ranks' numbers in $dir/NAME.pids
  name=$1
  shift
  # shellcheck disable=SC2016 # of the inner shell
  ranks 2 sh -c 'echo $$ >>"$0.$(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1)"; exec "$@"' "$dir/$name.pid" \
    $before "$program" run $quiet $small train.steps=$steps record.path="$dir/$name.h5" "$@" >"$dir/$name.log" 2>&1 &
  launcher=$!
  for _ in $(seq 300); do
    [ -d "$dir/$name.ckpt" ] && [ -n "$(ls "$dir/$name.ckpt")" ] && return
    sleep 0.1
  done
  fail "$name: has not begun: $(cat "$dir/$name.log")"
}
end() { wait $launcher; status=$?; }
pid() { cat "$dir/$1.pid.$2"; }
told() { [ "$(grep -c "$2" "$dir/$1.log")" = 1 ] || fail "$1: not once '$2': $(cat "$dir/$1.log")"; }
# goes on alone, to the bits of a run that was never disturbed
goes_on() {
  "$program" resume -q "$dir/$1.h5" >"$dir/log" 2>&1 || fail "$1: does not go on: $(cat "$dir/log")"
  tests/same_run "$dir/alone.h5" "$dir/$1.h5" >"$dir/log" || fail "$1: other bits: $(head -n 3 "$dir/log")"
}
"$program" run -q $small train.steps=$steps record.path="$dir/alone.h5" || fail "alone"

start killed comm.timeout=4
kill -9 "$(pid killed 1)"
end
[ $status != 0 ] || fail "killed: exit 0"
grep -q 'rank 1\|PID [0-9]* RUNNING AT' "$dir/killed.log" || # MPICH's mpirun tells a process: it, or one that it has ended
  fail "killed: nobody tells which rank: $(cat "$dir/killed.log")"
goes_on killed

start stuck comm.timeout=4
kill -STOP "$(pid stuck 1)"
began=$(date +%s)
end
[ $(($(date +%s) - began)) -le 8 ] || fail "stuck: ended after $(($(date +%s) - began)) s"
[ $status = 1 ] || fail "stuck: exit $status"
told stuck "rank 1 of 2 on $(hostname) has not answered for 4 s"
kill -9 "$(pid stuck 1)" 2>/dev/null
goes_on stuck

# a limit that is none is refused as it is on one rank, and by none of them obeyed before
ranks 2 "$program" run $quiet $small record.path="$dir/never.h5" comm.timeout=inf >"$dir/never.log" 2>&1
status=$?
[ $status = 2 ] || fail "comm.timeout=inf: exit $status: $(cat "$dir/never.log")"
grep -q 'has not answered' "$dir/never.log" && fail "comm.timeout=inf: $(cat "$dir/never.log")"

for signal in TERM USR1; do
  start $signal
  kill -$signal "$(pid $signal 1)" # the one that has no files
  end
  [ $status = 75 ] || fail "$signal: exit $status: $(cat "$dir/$signal.log")"
  goes_on $signal
done

# where one rank has ended with an error the launcher ends the others: what a slow rank 0 has to say it said before
cat >"$dir/slow.c" <<'END'
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int MPI_Finalize(void)
{
  const char *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *rank = open_mpi ? open_mpi : getenv("PMI_RANK");
  int status = ((int (*)(void))dlsym(RTLD_DEFAULT, "PMPI_Finalize"))();
  for (time_t end = time(NULL) + 6; rank && *rank == '0' && time(NULL) < end;) nanosleep(&(struct timespec){.tv_nsec = 1e8}, NULL);
  return status;
}
END
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$dir/slow.so" "$dir/slow.c" -ldl || exit 99
# a sanitized program wants its own library first, but goes without
echo "exec env ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD=$dir/slow.so \"\$@\" >>$dir/printed" >"$dir/slowly" # into a file, not a terminal of the launcher's
before="sh $dir/slowly"
ranks 2 $before "$program" run -q $small train.steps=9 train.batch=3 train.micro_batches=3 record.path="$dir/refused.h5" \
  >"$dir/refused.log" 2>&1
[ $? = 2 ] || fail "refused: not exit 2: $(cat "$dir/refused.log")"
told refused '2 ranks cannot divide train.micro_batches = 3'
quiet=
start summary
kill -TERM "$(pid summary 1)"
end
[ $status = 75 ] || fail "summary: exit $status: $(cat "$dir/summary.log")"
grep -q '^stopped after' "$dir/printed" || fail "summary: was not printed: $(cat "$dir/printed" "$dir/summary.log")"
quiet=-q
before=

# a full disk on rank 0
# shellcheck disable=SC2016 # of the inner shell
ranks 2 sh -c 'case $(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1) in 0) export MAXLOGIT_FAULT=io:60:full ;; esac; exec "$@"' sh \
  "$program" run -q $small train.steps=400 checkpoint.keep=all record.path="$dir/full.h5" >"$dir/full.log" 2>&1
[ $? = 1 ] || fail "full: not exit 1: $(cat "$dir/full.log")"
told full 'cannot write .*full[.].*: No space left on device'

# not alike
# shellcheck disable=SC2016 # of the inner shell
ranks 2 sh -c 'exec "$@" "train.lr=0.0$((1 + $(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1)))"' sh \
  "$program" run -q $small train.steps=9 record.path="$dir/other.h5" >"$dir/other.log" 2>&1
[ $? = 1 ] || fail "other: not exit 1: $(cat "$dir/other.log")"
told other "rank 1 on $(hostname) has the configuration of the run"
seq 4000 >"$dir/text0"
seq 2 4001 >"$dir/text1"
# shellcheck disable=SC2016 # of the inner shell
ranks 2 sh -c 'text=$0$(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1); exec "$@" data=bytes data.path="$text"' "$dir/text" \
  "$program" run -q $small train.steps=9 record.path="$dir/other.h5" >"$dir/other.log" 2>&1
[ $? = 1 ] || fail "data: not exit 1: $(cat "$dir/other.log")"
told other "rank 1 on $(hostname) has data of another content"
revision=$("$program" --version | sed -n 's/.*revision \([0-9a-f]\{12\}\).*/\1/p')
if [ -n "$revision" ]; then # another build, but for its name
  LC_ALL=C sed "s/$revision/another00000/" "$program" >"$dir/another"
  chmod +x "$dir/another"
  # shellcheck disable=SC2016 # of the inner shell
  MAXLOGIT_MPI=$PWD/maxlogit_mpi.so ranks 2 sh -c 'case $(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1) in 0) ;; *) program=$0 ;; esac
    exec "${program:-$1}" run -q $2 train.steps=9 record.path="$3"' "$dir/another" "$program" "$small" "$dir/other.h5" >"$dir/other.log" 2>&1
  [ $? = 1 ] || fail "program: not exit 1: $(cat "$dir/other.log")"
  told other "rank 1 on $(hostname) has the program .* revision another00000"
fi
level() { MAXLOGIT_KERNELS=$1 "$program" doctor --json | sed -n 's/.*"kernels": "\(.*\)",$/\1/p'; }
if [ "$(level base 2>/dev/null)" = base ] && [ "$(level v3 2>/dev/null)" = v3 ]; then # there are two that differ
  # shellcheck disable=SC2016 # of the inner shell
  ranks 2 sh -c 'case $(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1) in 1) level=base ;; *) level=v3 ;; esac
    MAXLOGIT_KERNELS=$level exec "$@"' sh \
    "$program" run -q $small train.steps=9 record.path="$dir/other.h5" >"$dir/other.log" 2>&1
  [ $? = 1 ] || fail "kernels: not exit 1: $(cat "$dir/other.log")"
  told other "rank 1 on $(hostname) has kernels with products that are base"
fi
[ ! -e "$dir/other.h5" ] || fail "ranks that are not alike have left a file"
finish
