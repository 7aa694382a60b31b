#!/bin/sh
# odd_places: a run, its report and its figure where homes, folders, devices or limits are unusual
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
cd "$dir" || exit 99
tiny="model.layers=1 model.width=8 model.heads=2 model.context=8 train.batch=2 train.steps=4 train.warmup=0"

# runs WHERE COMMAND...: `COMMAND maxlogit run` makes the same numbers everywhere, and `COMMAND maxlogit show` reads them
runs() {
  where=$1; shift
  # shellcheck disable=SC2086
  "$@" "$program" run -q $tiny device.threads=1 record.overwrite=1 record.path=run.h5 > out 2>&1 || { fail "$where: run: $(cat out)"; return; }
  "$@" "$program" show run.h5 > out 2>&1 || fail "$where: show: $(cat out)"
  "$program" export run.h5 loss | grep -v '^#' > loss
  test -e loss.usual || cp loss loss.usual
  cmp -s loss loss.usual || fail "$where: other numbers"
}
# with COMMANDS: the rest of the line after shell commands, in a process of its own
with() { commands=$1; shift; sh -c "$commands"' || exit 77; exec "$@"' with "$@"; }

runs "as usual" env
rm run.h5
runs "umask 077" with 'umask 077'
test "$(stat -c %a run.h5)" = 600 || fail "umask 077: mode $(stat -c %a run.h5)"
runs "no HOME" env -u HOME
runs "a HOME that is not there" env HOME=/nowhere
runs "an empty environment" env -i
runs "TMPDIR that is not there" env TMPDIR=/nowhere
runs "TMPDIR that is a file" env TMPDIR="$program"
runs "8 descriptors" with 'ulimit -n 8'
mkdir 'a b "ä' && cd 'a b "ä' && cp ../loss.usual .
runs "spaces, quotes and umlauts" env
cp "$program" 'max logit'
(program=$PWD/'max logit' && runs "a program with a space" env; exit "$failures") || failures=$((failures + 1))
cd .. || exit 99

if test -w /dev/full; then # nothing more to print to: the run is finished and the failure is reported
  # shellcheck disable=SC2086
  "$program" run $tiny record.path=full.h5 > /dev/full 2> err
  test $? -eq 1 || fail "full standard output: $(cat err)"
  "$program" show full.h5 | grep -q finished || fail "full standard output: no finished run"
fi

# little memory is enough for a small run; for a large one the limit that applies is named
if ldd "$program" 2> /dev/null | grep -q libasan; then echo "ulimit -v: skipped, the address sanitizer needs terabytes"
else
  runs "ulimit -v" with 'ulimit -v 4000000'
  (ulimit -v 2000000; "$program" run -q model.width=4096 model.layers=8 record.path=large.h5 > out 2>&1)
  grep -q 'ulimit -v allows' out || fail "ulimit -v: $(cat out)"
fi

# in a place of its own: mounts that hide parts of the machine
if unshare -m true 2> /dev/null; then
  own() { commands=$1; shift; unshare -m sh -c "$commands"' || exit 77; exec "$@"' own "$@"; }
  mkdir shut
  # shellcheck disable=SC2086
  own 'mount -t tmpfs -o ro none shut' "$program" run -q $tiny record.path=shut/run.h5 > out 2>&1
  test $? -eq 1 && grep -q 'shut.*Read-only file system' out || fail "a read-only folder: $(cat out)"
  runs "TMPDIR noexec" own 'mount -t tmpfs -o noexec none shut' env TMPDIR="$dir/shut"
  # shellcheck disable=SC2086
  own 'mount -t tmpfs -o noexec none shut' env TMPDIR="$dir/shut" "$program" sweep -q -j2 $tiny train.seed=1,2 sweep.dir=swept > out 2>&1 ||
    fail "TMPDIR noexec: sweep: $(cat out)"
  if command -v gnuplot > /dev/null; then
    own 'mount -t tmpfs -o noexec none shut' env TMPDIR="$dir/shut" "$program" plot -o figures run.h5 > out 2>&1 || fail "TMPDIR noexec: plot: $(cat out)"
  fi
  runs "no /proc" own 'mount -t tmpfs none /proc'
  runs "no /dev/pts, no /dev/shm" own 'mount -t tmpfs none /dev/pts && mount -t tmpfs -o ro none /dev/shm'
  # control groups of version 1 and 2: the number of threads follows half a core, and a run that does not fit is refused
  groups='mount -t tmpfs none /sys/fs/cgroup; cd /sys/fs/cgroup; mkdir cpu cpu,cpuacct memory
    for folder in cpu cpu,cpuacct; do echo 100000 > $folder/cpu.cfs_period_us; done
    echo 300000000 | tee memory.max > memory/memory.limit_in_bytes
    echo 50000 100000 > cpu.max; echo 50000 | tee cpu/cpu.cfs_quota_us > cpu,cpuacct/cpu.cfs_quota_us; cd "$OLDPWD"'
  if test -d /sys/fs/cgroup && test -e /proc/self/cgroup; then
    # shellcheck disable=SC2086
    own "$groups" "$program" run -q $tiny record.path=half.h5 > out 2>&1 || fail "half a core: $(cat out)"
    grep -aq 'kernels .*, 1 threads*' half.h5 || fail "half a core: $(grep -ao 'kernels .* threads*' half.h5)"
    own "$groups" "$program" run -q model.width=1024 model.layers=8 record.path=large.h5 > out 2>&1
    grep -q 'the control group of this job (/.*) allows' out || fail "a control group's memory: $(cat out)"
  fi
else
  echo "no mounts of its own: read-only folder, noexec, /proc, /dev/pts and control groups are skipped"
fi
finish
