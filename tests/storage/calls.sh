#!/bin/sh
# Files are written in an order that a crash, another writer or a reader at any moment does not harm: the calls of each
# command are recorded (calls.c) and held against rules (calls.awk); and with pauses between the calls of a writer no
# reader sees a missing or partial file, and of two writers one goes on.
program=${MAXLOGIT:-./maxlogit}
here=${top_srcdir:-.}/tests/storage
dir=$(mktemp -d "${TMPDIR:-/tmp}/maxlogit-test.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
${CC:-cc} -std=gnu11 -Wall -O1 -shared -fPIC -o "$dir/calls.so" "$here/calls.c" 2> "$dir/err" || { cat "$dir/err"; exit 1; }
root=$dir/runs
mkdir "$root"
ldd "$program" 2> /dev/null | grep -q libasan && { echo "calls.sh: skipped, the address sanitizer must be loaded first"; exit 77; }
"$program" --version > /dev/null || exit 1
LD_PRELOAD=$dir/calls.so "$program" --version > /dev/null 2>&1 || { echo "calls.sh: skipped, nothing can be preloaded here"; exit 77; }

# watched LOG COMMAND...: its calls in LOG, after what is there
watched() {
  log=$dir/$1
  shift
  find "$root" -type f | sed 's/^/0 0 0 there /' > "$log"
  env LD_PRELOAD="$dir/calls.so" CALLS_ROOT="$root" CALLS_LOG="$log" "$@" > "$dir/out" 2> "$dir/err"
}
# rules OVERWRITE LOG: the first calls that break one
rules() { awk -v overwrite="$1" -f "$here/calls.awk" "$dir/$2" > "$dir/broken" || { head -n 3 "$dir/broken"; false; }; }
# by_rules OVERWRITE NAME COMMAND...
by_rules() {
  overwrite=$1 name=$2
  shift 2
  watched "$name" "$@" || fail "$name: exit $?: $(cat "$dir/err")"
  rules "$overwrite" "$name" || fail "$name: its calls"
}
small='preset=muonclip model.width=8 model.heads=2 model.context=8 train.batch=2 train.val_every=3 record.spectra_every=0
  device.threads=1 checkpoint.every=2 checkpoint.keep=1'
# shellcheck disable=SC2086 # a list of settings
run() { by_rules "$@" $small; }

run 0 run "$program" run "record.path=$root/a.h5" train.steps=5
by_rules 0 resume "$program" resume "$root/a.h5" train.steps=8
run 1 overwrite "$program" run "record.path=$root/a.h5" train.steps=4 record.overwrite=1 train.seed=2
by_rules 0 rerun "$program" rerun "$root/a.h5" record.probe_every=1
by_rules 0 note "$program" note "$root/a.h5" "a remark"
printf 'train.seed = 1,2\n' > "$dir/two.conf"
run 0 sweep "$program" sweep "$dir/two.conf" "sweep.dir=$root/sweep" train.steps=3
run 0 sweep_together "$program" sweep "$dir/two.conf" "sweep.dir=$root/together" train.steps=3 sweep.together=2

# a program that records by the library, begins, goes on and replaces
cat > "$dir/record.c" << 'END'
#include <maxlogit/record.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
  struct maxlogit_record_options o = {.mode = (enum maxlogit_mode)atoi(argv[2])};
  struct maxlogit_series loss = {.name = "loss"};
  struct maxlogit_recorder *r;
  struct maxlogit_error e;
  int number;
  if (argc != 3 || maxlogit_record_open(&r, argv[1], &o, &e) || maxlogit_record_series(r, &loss, &number, &e)) return 1;
  long first = maxlogit_record_last_step(r) + 1;
  for (long step = first; step < first + 20; step++) {
    double value = 1;
    if (maxlogit_record_put(r, number, &value, 1, &e) || maxlogit_record_row(r, step, &e)) return 1;
    if (step % 8 == 7 && maxlogit_record_snapshot(r, &e)) return 1;
  }
  return maxlogit_record_close(&r, "finished", &e) != 0;
}
END
if ${CC:-cc} -std=c11 -I"${top_srcdir:-.}/src/library" -o "$dir/record" "$dir/record.c" ./libmaxlogit.so.1 -Wl,-rpath,"$PWD" 2> "$dir/err"; then
  for mode in 0 1 2; do by_rules $((mode == 2)) "recorder_$mode" "$dir/record" "$root/r.h5" $mode; done
else
  fail "a program that records: $(cat "$dir/err")"
fi

# --- pauses between the calls -------------------------------------------------------------------------------------

rm -rf "$root"
mkdir "$root"
slowly=30:open:lock:write:sync:rename:remove:close
# shellcheck disable=SC2086
CALLS_DELAY=$slowly watched reader "$program" run "record.path=$root/a.h5" train.steps=4 $small &
writer=$!
looks=0 had=0
until test -e "$root/a.h5"; do kill -0 $writer 2> /dev/null || break; sleep 0.01; done
while kill -0 $writer 2> /dev/null; do
  # a reader opens the file twice (h5.c: examine_apart); where another one is there by then it reports that, and no more
  "$program" show "$root/a.h5" > "$dir/shown" 2>&1 || fail "a reader: $(cat "$dir/shown")"
  kept=0
  for checkpoint in "$root"/a.ckpt/step-????????.h5; do test ! -e "$checkpoint" || kept=1; done
  test $kept -ge $had || fail "a reader: no checkpoint is left"
  had=$kept
  looks=$((looks + 1))
done
wait $writer || fail "a slow writer: exit $?: $(cat "$dir/err")"
test $looks -ge 3 -a $had -eq 1 || fail "a reader: $looks looks"
rules 0 reader || fail "a slow writer: its calls"

# both LOG1 ... : two commands at once, the pauses of one before those of the other; exactly one may go on, or both in turn
both() {
  what=$1
  shift
  : > "$dir/both"
  for ms in 40 25; do
    env LD_PRELOAD="$dir/calls.so" CALLS_ROOT="$root" CALLS_LOG="$dir/both" CALLS_DELAY="$ms:open:lock:write:sync:rename:remove:close" \
      "$@" "$ms" > /dev/null 2> "$dir/err$ms" &
    eval "process$ms=$!"
  done
  # shellcheck disable=SC2154
  { wait "$process40"; status40=$?; wait "$process25"; status25=$?; }
  rules 0 both || fail "$what: calls of two"
  for ms in 40 25; do
    status=0
    eval "status=\$status$ms"
    test "$status" -eq 0 || grep -q 'another process is writing\|exists' "$dir/err$ms" || fail "$what: exit $status: $(cat "$dir/err$ms")"
  done
  test $((status40 && status25)) -eq 0 || fail "$what: neither goes on: $(cat "$dir/err40" "$dir/err25")"
}
# shellcheck disable=SC2016
{
  both "two runs" sh -c '"$0" run "record.path=$1/b.h5" train.steps=2 $2 "train.lr=0.0$3"' "$program" "$root" "$small"
  test $((status40 || status25)) -eq 1 || fail "two runs: both have written one file"
  both "two remarks" sh -c '"$0" note "$1/b.h5" "remark $2"' "$program" "$root"
}
"$program" show "$root/b.h5" > "$dir/shown" || fail "after two writers: $(cat "$dir/shown")"
for ms in 40 25; do
  eval "status=\$status$ms"
  test "$status" -ne 0 || grep -q "remark $ms" "$dir/shown" || fail "a remark is lost: $(cat "$dir/shown")"
done
find "$root" -name '*.tmp' -o -name '*.lock' | grep . && fail "files are left"
test $failures -eq 0 && echo ok
exit $((failures > 0))
