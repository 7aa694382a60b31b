#!/bin/sh
# shellcheck disable=SC2086 # lists of settings
# A sweep shared out among ranks, one a run or two: the files of one machine, each point told once, the longest first; a
# worker that is killed or stuck, a rank that is stuck, a signal to one of them, a point that fails; and the ledger.
cd "${top_builddir:-.}" || exit 99
. "${top_srcdir:-.}/tests/comm/mpirun.sh"
. "${top_srcdir:-.}/tests/small_runs.sh"
program=$PWD/maxlogit
small='model.width=16 model.heads=2 model.context=16 train.batch=4 train.micro_batches=2 train.warmup=2 train.val_every=0
  train.val_batches=1 checkpoint.every=20'
printf 'preset = muon, muonclip\n[train]\nlr = 0.01, 0.02\nsteps = 20, 60, 40\n' >"$dir/s.conf"
cd "$dir" || exit 99
sweep() { "$program" sweep s.conf $small "$@"; }
on() { n=$1; shift; ranks "$n" "$program" sweep s.conf $small "$@"; }
same() {
  for file in one/*.h5; do
    "$OLDPWD/tests/same_run" "$file" "$1/$(basename "$file")" >log 2>&1 || fail "$1: $(head -n 3 log)"
  done
  [ -z "$(ls "$1"/*.point "$1"/*.lock 2>/dev/null)" ] || fail "$1: left behind: $(ls "$1")"
}
# Each run of a folder is told once as finished, by its own name, in the words of the table.
told_once() { # FOLDER MESSAGES TABLE
  sed -n 's/^maxlogit: [0-9]*\/[0-9]* \([0-9a-f]*\) finished \(.*\)/\1 \2/p' "$2" | sort >t1
  sed -n 's/^\([0-9a-f]*\)  finished .*  \(.*\)/\1 \2/p' "$3" | sort >t2
  cmp -s t1 t2 && [ "$(cut -d ' ' -f 1 t1 | uniq | wc -l)" = "$(ls "$1"/*.h5 | wc -l)" ] ||
    fail "$1: not each point once: $(cat "$2" "$3")"
}
names() { sed 's/  *[0-9.-]* *preset/ preset/' "$1" | sort; } # all but the time, and the blanks that fill its column

sweep -q sweep.dir=one >table || fail "alone"
for groups in "3 0 13" "4 2 13"; do
  set -- $groups
  on "$1" sweep.dir="on$1" comm.ranks="$2" >table.on 2>err || fail "$1 ranks: exit $?, $(cat err)"
  same "on$1"
  names table >t1
  names table.on >t2
  cmp t1 t2 || fail "$1 ranks: another table: $(cat table.on)"
  told_once "on$1" err table.on
  [ "$(grep '^maxlogit: ' err | grep -vc "warning: the base kernels")" = "$3" ] || # Open MPI has its own, too
    fail "$1 ranks: more is told: $(cat err)"
done
on 2 sweep.dir=order comm.ranks=2 2>err >/dev/null || fail "one group: $(cat err)"
[ "$(sed -n 's/.*finished .*steps=\([0-9]*\).*/\1/p' err | tr '\n' ' ')" = "60 60 60 60 40 40 40 40 20 20 20 20 " ] ||
  fail "not the longest first: $(cat err)"

# sweep.together within a rank, two structures of six
on 2 sweep.dir=launches sweep.together=4 -j 1 >table.on 2>err || fail "launches: exit $?, $(cat err)"
same launches
names table >t1; names table.on >t2
cmp t1 t2 || fail "launches: another table: $(cat table.on)"
told_once launches err table.on
[ "$(grep -c 'up to 4 runs a launch' err)" = 1 ] || fail "launches: not told once: $(cat err)"

# refused by all, told once
refused() {
  on 2 "$@" >err 2>&1
  [ $? = 2 ] || fail "$*: not refused: $(cat err)"
  [ "$(grep -c "$want" err)" = 1 ] || fail "$*: $(cat err)"
}
want='cannot be cut into such groups' refused comm.ranks=3 sweep.dir=no
want='record.overwrite: ranks' refused record.overwrite=1 sweep.dir=no
want='train.lrr' refused train.lrr=1 sweep.dir=no
[ ! -e no ] || fail "a refused sweep leaves files"

# a point that fails does so once, the others are done
on 3 sweep.dir=bad train.on_nonfinite=fail train.lr=0.01,1e30 train.steps=20 2>err >table.on
[ $? = 1 ] || fail "bad: exit $?"
[ "$(grep -c 'failed: diverged' err)" = 2 ] || fail "bad: $(cat err)"
[ "$(grep -c finished table.on)" = 2 ] || fail "bad: $(cat table.on)"

# a disk that is full for the first of a group ends its runs on both, each told once; with room they are made
# shellcheck disable=SC2016 # of the inner shell
ranks 2 sh -c 'case $(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1) in 0) export MAXLOGIT_FAULT=io:30:full ;; esac; exec "$@"' sh \
  "$program" sweep s.conf $small comm.ranks=2 comm.timeout=5 sweep.dir=full >full.table 2>full.err
[ $? = 1 ] || fail "full: not exit 1: $(cat full.err)"
[ "$(grep -c 'failed: rank 0 on .*: cannot write full/.*: No space left on device' full.err)" = 12 ] ||
  fail "full: not each run once: $(cat full.err)"
on 2 comm.ranks=2 sweep.dir=full >table.on 2>err || fail "full, with room: exit $?, $(cat err)"
same full

# --- disturbed: long points, of which rank 1 has one --------------------------------------------------------------
printf 'preset = muon\n[train]\nlr = 0.01, 0.02\nsteps = 900\n' >s.conf
rm -rf one
sweep -q sweep.dir=one >table || fail "alone, long"
at_work() { [ "$(ls "$name"/*.journal 2>/dev/null | wc -l)" = 2 ]; }
start() { # NAME SETTING...
  name=$1
  shift
  # shellcheck disable=SC2016 # of the inner shell
  ranks 2 sh -c 'echo $$ >"$0.$(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1)"; exec "$@"' "$dir/$name.pid" \
    "$program" sweep s.conf $small sweep.dir="$name" "$@" >"$name.table" 2>"$name.err" &
  launcher=$!
  for _ in $(seq 300); do
    at_work && break
    sleep 0.1
  done
  rank=$(cat "$name.pid.1")
  worker=$(cat "/proc/$rank/task/$rank/children")
  worker=${worker%% *}
  [ -n "$worker" ] || fail "$name: rank 1 has no worker: $(cat "$name.err")"
}
end() { wait $launcher; status=$?; }

start killed comm.timeout=3
kill -9 $worker
end
[ $status = 0 ] || fail "killed: exit $status: $(cat killed.err)"
grep -q 'its process was killed by signal 9' killed.err || fail "killed: $(cat killed.err)"
same killed
told_once killed killed.err killed.table

start stuck comm.timeout=3
kill -STOP $worker
end
[ $status = 0 ] || fail "stuck: exit $status: $(cat stuck.err)"
grep -q 'its process was killed by signal 9' stuck.err || fail "stuck: $(cat stuck.err)"
same stuck
told_once stuck stuck.err stuck.table

# each worker is killed at its 60th call for files: a point is taken up once more, not for ever; then they are made
(export MAXLOGIT_FAULT=io:60:kill; on 2 sweep.dir=twice comm.timeout=3) >twice.table 2>twice.err
[ $? = 1 ] || fail "twice: not exit 1: $(head -n 9 twice.err)"
for words in 'it is taken up again' ' failed: killed by signal 9'; do
  [ "$(grep -c "$words" twice.err)" = 2 ] || fail "twice: not each point once: $(head -n 9 twice.err)"
done
on 2 sweep.dir=twice >table.on 2>err || fail "twice, left alone: exit $?, $(cat err)"
same twice

# launches: of four points that could share one each rank has two, the longest first, in one process; that is killed, and
# its points are taken up again
mv one two
four='train.seed=1,2'
sweep -q sweep.dir=one $four >table || fail "alone, launches"
holders() { cat company/*.point 2>/dev/null | cut -d ' ' -f 2 | sort | uniq -c | sed 's/^ *\([0-9]*\) .*/\1/' | tr '\n' ' '; }
at_work() { [ "$(holders)" = "2 2 " ]; }
start company comm.timeout=3 sweep.together=4 -j 1 $four
at_work || fail "company: launches of $(holders)points: $(cat company/*.point company.err)"
at_work() { [ "$(ls "$name"/*.journal 2>/dev/null | wc -l)" = 2 ]; }
[ "$(grep -c 'up to 2 runs a launch' company.err)" = 1 ] || fail "company: $(cat company.err)"
kill -9 $worker
end
[ $status = 0 ] || fail "company: exit $status: $(cat company.err)"
[ "$(grep -c 'its process was killed by signal 9' company.err)" = 2 ] || fail "company: $(cat company.err)"
same company
told_once company company.err company.table
rm -rf one
mv two one

# a whole rank: the other takes its point, and says who is missing at the end; woken, it does no harm
start lost comm.timeout=3
kill -STOP $worker $rank
for _ in $(seq 300); do
  [ "$("$program" show lost 2>/dev/null | grep -c finished)" = 2 ] && break
  sleep 0.1
done
kill -CONT $worker
end
[ $status = 1 ] || fail "lost: exit $status: $(cat lost.err)"
grep -q 'has not been heard of for 3 s' lost.err || fail "lost: nobody took it up: $(cat lost.err)"
[ "$(grep -c "rank 1 of 2 on $(hostname) has not answered" lost.err)" = 1 ] || fail "lost: $(cat lost.err)"
kill -9 $worker $rank 2>/dev/null
for _ in $(seq 50); do kill -0 $worker 2>/dev/null || break; sleep 0.1; done
same lost

# one of a group of two: its partner waits to be ended, the other group takes their point
if [ -n "$MAXLOGIT_TEST_LONG" ]; then
  # shellcheck disable=SC2016 # of the inner shell
  ranks 4 sh -c 'echo $$ >"$0.$(printenv OMPI_COMM_WORLD_RANK PMI_RANK | head -n 1)"; exec "$@"' "$dir/group.pid" \
    "$program" sweep s.conf $small sweep.dir=group comm.ranks=2 comm.timeout=4 >group.table 2>group.err &
  launcher=$!
  for _ in $(seq 300); do
    [ "$(ls group/*.journal 2>/dev/null | wc -l)" = 2 ] && break
    sleep 0.1
  done
  kill -STOP "$(cat group.pid.3)"
  end
  [ $status = 1 ] || fail "group: exit $status: $(cat group.err)"
  grep -q "rank 3 of 4 on $(hostname) has not answered for 4 s: .*others take its work" group.err || fail "group: $(cat group.err)"
  kill -9 "$(cat group.pid.3)" 2>/dev/null
  same group
fi

# a signal to one stops all; the same command goes on
start told
kill -TERM "$rank"
end
[ $status = 75 ] || fail "told: exit $status: $(cat told.err)"
"$program" show told 2>/dev/null | grep -q finished && fail "told: the other rank went on: $(cat told.err)"
on 2 sweep.dir=told -q >/dev/null 2>err || fail "told: does not go on: $(cat err)"
same told

# the ledger says the same, once
tiny="$small train.steps=20 record.probe_every=1"
"$program" claims C-18 $tiny sweep.dir=l1 --json >l1.json 2>err || fail "claims: $(cat err)"
ranks 3 "$program" claims C-18 $tiny sweep.dir=l2 --json >l2.json 2>err || fail "claims on 3: $(cat err)"
cmp l1.json l2.json || fail "claims: another verdict on ranks"
[ "$(grep -c ' finished ' err)" = "$(ls l2/*.h5 | wc -l)" ] || fail "claims: not each run once: $(cat err)"
finish
