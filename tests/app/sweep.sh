#!/bin/sh
# sweep: every point once, whatever is killed and whoever else is at it; the same bits in the end.
# SWEEP_KILLS: how often a sweep is killed and started again (3).
. "${top_srcdir:-.}/tests/small_runs.sh"
cd "$dir" || exit 99

cat > s.conf <<'CONF'
preset = adam, muonclip
[train]
seed = 1:2:lin:2
batch = 2
steps = 400
[model]
layers = 1
width = 16
heads = 2
context = 8
[record]
spectra_every = 100
[checkpoint]
every = 50
[qk_clip]
tau = 2
CONF

sweep() { "$program" sweep s.conf "$@" > out 2> err; }
ids() { "$program" sweep s.conf --list "$@" | cut -f 2; }
finished() { "$program" sweep s.conf --list | awk -F '\t' '$3 == "finished"' | grep -c .; }
told_once() { # each point, by its own name, with what the table says of it
  sed -n 's/^maxlogit: [1-4]\/4 \([0-9a-f]*\) \([a-z]*\) \(preset=.*\)/\1 \2 \3/p' err | sort > told
  sed -n 's/^\([0-9a-f]*\)  \([a-z]*\) .*\(preset=.*\)/\1 \2 \3/p' out | sort | cmp -s - told && [ "$(grep -c . told)" = 4 ] ||
    fail "not each point once: $(cat err out)"
}
bits() { # every series of every run in a folder
  for run in "$1"/*.h5; do
    echo "${run##*/}"
    "$program" export --format=tsv "$run" loss val_loss grad_norm attn/max_logit attn/entropy || echo broken
  done | grep -v '^#'
}

# a plain sweep: a file a point, a table, a line of progress each; again: nothing to do
[ "$(ids | sort -u | grep -c .)" -eq 4 ] || fail "--list: $("$program" sweep s.conf --list)"
[ ! -e runs ] || fail "--list wrote something"
sweep -j 2 || fail "exit status $?: $(cat err)"
[ "$(grep -c ' finished ' out)" -eq 4 ] || fail "the table: $(cat out)"
told_once
for id in $(ids); do [ -f "runs/s/$id.h5" ] || fail "no runs/s/$id.h5"; done
[ -z "$(find runs -name '*.point' -o -name '*.lock')" ] || fail "locks are left: $(find runs -name '*.point')"
bits runs/s > bits.plain
cksum runs/s/*.h5 > before
sweep || fail "again: exit status $?"
cksum runs/s/*.h5 | cmp -s - before || fail "finished runs were run again"
grep -q '4 runs, 4 of them done before' err || fail "again: $(cat err)"

# record.overwrite runs them anew; a path for all of them is refused
sweep record.path=one.h5; [ $? -eq 2 ] && grep -q 'a sweep names its runs itself' err || fail "one path for all: $(cat err)"
"$program" note "runs/s/$id.h5" 'a first time' > /dev/null || fail "note"
sweep record.overwrite=1 || fail "record.overwrite: exit status $?"
"$program" note "runs/s/$id.h5" | grep -q 'a first time' && fail "record.overwrite=1 has kept a run"
bits runs/s | cmp -s - bits.plain || fail "other bits the second time"
cksum runs/s/*.h5 > before

# other recording keys: what the files of before lack is said, what they hold more often is not
sweep record.spectra_every=200 || fail "fewer spectra: exit status $?"
grep without err && fail "fewer spectra: nothing lacks"
sweep record.spectra_every=50 record.probe_every=10 || fail "more recorded: exit status $?"
cksum runs/s/*.h5 | cmp -s - before || fail "more recorded: finished runs were run again"
for id in $(ids); do
  grep -q "$id preset=.* done before without record.spectra_every=50 (has 100) record.probe_every=10 (has 0)" err ||
    fail "more recorded: not said of $id: $(cat err)"
done
grep -q '4 of the runs keep.*another sweep.dir' err || fail "more recorded: no way out: $(cat err)"
[ "$("$program" sweep s.conf --list record.batches=1 | grep -c 'lacks record.batches=1 (has 0)$')" -eq 4 ] ||
  fail "more recorded: --list"
"$program" rerun -q "runs/s/$id.h5" record.batches=1 2> err || fail "one that records more: $(cat err)"
"$program" sweep s.conf --list | grep 'lacks' && fail "what records more than is asked for lacks something"

# parts of a sweep, and a point that is another's double
[ "$(ids --shard 1/3 | grep -c .)$(ids --shard 2/3 | grep -c .)$(ids --shard 3/3 | grep -c .)" = 211 ] ||
  fail "--shard"
{ ids --shard 1/3; ids --shard 2/3; ids --shard 3/3; } | sort > parts
ids | sort | cmp -s - parts || fail "the parts are not the whole"
sweep --list device.threads=1,2 || fail "doubles: exit status $?"
[ "$(grep -c . out)" -eq 4 ] || fail "doubles: $(cat out)"
grep -q '4 points are left out' err || fail "doubles: $(cat err)"

# one bad run stops no other: a run file that is none
rm -r runs
mkdir -p runs/s
bad=$(ids | sed -n 2p)
echo nonsense > "runs/s/$bad.h5"
sweep -j 1
[ $? -eq 1 ] || fail "a failed point: not exit status 1"
[ "$(finished)" -eq 3 ] || fail "a failed point stopped others: $(cat out)"
grep -q "$bad .*failed: .*HDF5" err || fail "a failed point: $(cat err)"
rm "runs/s/$bad.h5"
sweep || fail "the failed point again: exit status $?"
[ "$(finished)" -eq 4 ] || fail "the failed point again: $(cat out)"
bits runs/s | cmp -s - bits.plain || fail "other bits after a failure"

# a worker dies: its point is reported, the rest runs, a restart mends it
rm -r runs
MAXLOGIT_FAULT=io:40:kill "$program" sweep s.conf -j 1 > out 2> err
[ $? -eq 1 ] || fail "dead workers: not exit status 1"
[ "$(grep -c 'failed: killed by signal 9' err)" -eq 4 ] || fail "dead workers: $(cat err)"
sweep || fail "after dead workers: exit status $?"
bits runs/s | cmp -s - bits.plain || fail "other bits after dead workers"

# a limit of time is the sweep's own, not the one by which a run was stopped
rm -r runs
"$program" sweep s.conf train.max_time=1e-6 -j 1 > out 2> err
[ $? -eq 75 ] || fail "a limit of time: not exit status 75: $(cat err)"
sweep || fail "a limit of time no more: exit status $?: $(cat err)"
[ "$(finished)" -eq 4 ] || fail "a limit of time no more: $(cat out)"
bits runs/s | cmp -s - bits.plain || fail "other bits after a limit of time"

two_begin() {
  i=0
  until [ "$(find runs -name '*.journal' 2> /dev/null | grep -c .)" -ge 2 ] || [ $i -ge 200 ]; do sleep 0.05; i=$((i + 1)); done
}
# shellcheck disable=SC2086 # $words are several
killed() { # WHAT FIRST THEN: sweeps with the words FIRST, which may use $i, are killed; others finish, with the same bits
  i=0
  while [ $i -lt "${SWEEP_KILLS:-3}" ]; do
    eval "words=\"$2\""
    "$program" sweep s.conf $words > out 2> err &
    sweeper=$!
    sleep "0.$((i * 37 % 90 + 10))"
    kill -KILL $sweeper 2> /dev/null
    wait $sweeper 2> /dev/null
    i=$((i + 1))
  done
  i=0
  until { eval "words=\"$3\""; sweep $words && ! grep -q 'left to another' err; } || [ $i -ge 20 ]; do
    sleep 0.2 # orphans may still write their checkpoint
    i=$((i + 1))
  done
  [ "$(finished)" -eq 4 ] || fail "after $1: $(cat out err)"
  bits runs/s | cmp -s - bits.plain || fail "other bits after $1"
}

# a signal: checkpoints, also where those of ended runs are dropped, exit 75, and on; so too where it reaches the workers as
# well, like Ctrl-C in a terminal
for whom in it all; do
  rm -r runs
  setsid "$program" sweep s.conf train.steps=20000 sweep.drop_checkpoints=1 -j 2 > out 2> err &
  sweeper=$!
  two_begin
  if [ $whom = it ]; then kill -s TERM $sweeper; else kill -s INT -- -$sweeper; fi
  wait $sweeper
  [ $? -eq 75 ] || fail "a signal to $whom: not exit status 75: $(cat err)"
  grep -q 'the same command goes on' err || fail "a signal to $whom: $(cat err)"
  [ "$(grep -c ' stopped ' out)" -eq 2 ] || fail "a signal to $whom: $(cat out)"
  [ "$(find runs -name 'step-*.h5' | grep -c .)" -ge 2 ] || fail "a signal to $whom: no checkpoints"
done
rm -r runs

# kill -9 the sweep: its workers end, too; start it again
killed kills '-j 2' '-j 2'

# several runs in one launch: structures apart, seeds together, and the same bits
rm -r runs
[ "$("$program" sweep s.conf --list sweep.together=3 | cut -f 5 | tr '\n' ' ')" = 'launch 1 launch 1 launch 2 launch 2 ' ] ||
  fail "together: $("$program" sweep s.conf --list sweep.together=3)"
[ "$("$program" sweep s.conf --list sweep.together=8 preset=adam train.seed=1:9:lin:9 train.lr=0.01,0.02 train.steps=9 |
  cut -f 5 | sort | uniq -c | tr -s ' \n' ' ')" = ' 8 launch 1 8 launch 2 2 launch 3 ' ] || fail "together: eight at a time"
sweep sweep.together=3 -j 1 || fail "together: exit status $?: $(cat err)"
[ "$(grep -c ' finished ' out)" -eq 4 ] || fail "together, the table: $(cat out)"
told_once
bits runs/s | cmp -s - bits.plain || fail "other bits together"

# bad runs stop no other of their launch, and each says why it failed: one is not a run, one cannot save
rm -r runs
mkdir -p runs/s
blocked=$(ids | sed -n 1p)
echo nonsense > "runs/s/$bad.h5"
echo nonsense > "runs/s/$blocked.ckpt"
sweep -j 1 sweep.together=4
[ $? -eq 1 ] || fail "failed points of a launch: not exit status 1"
[ "$(finished)" -eq 2 ] || fail "failed points of a launch stopped others: $(cat out)"
sed -n 's/^maxlogit: \([0-9a-f]*\) .* failed: /\1 /p' err | sort > why
printf '%s\n' "$bad runs/s/$bad.h5 is not an HDF5 file" "$blocked cannot open the folder runs/s/$blocked.ckpt: Not a directory" | sort | cmp -s - why ||
  fail "why points of a launch failed: $(cat err)"

# a launch is stopped, or killed; what goes on does so in other company, and alone
rm -r runs
"$program" sweep s.conf train.steps=20000 sweep.together=2 -j 1 > out 2> err &
sweeper=$!
two_begin
kill -TERM $sweeper
wait $sweeper
[ $? -eq 75 ] || fail "a signal to a launch: not exit status 75: $(cat err)"
[ "$(grep -c ' stopped ' out)" -eq 2 ] || fail "a signal to a launch: $(cat out)"
rm -r runs
killed 'kills of launches' 'sweep.together=$((i % 3 + 2))' 'sweep.together=$((i % 2 * 2 + 1))'

# a point that another process is at is left to it: no failure, and said in words
rm -r runs
mkdir -p runs/s
one=$(ids | sed -n 1p)
flock "runs/s/$one.point" "$program" sweep s.conf -j 1 > out 2> err
[ $? -eq 0 ] || fail "a point elsewhere: not exit status 0: $(cat err)"
grep -q '1 of the runs is left to another process' err || fail "a point elsewhere: $(cat err)"
[ "$(grep -c ' finished ' out)$(grep -c ' elsewhere ' out)" = 31 ] || fail "a point elsewhere: $(cat out)"
told_once
[ ! -e "runs/s/$one.h5" ] || fail "a point elsewhere was run here, too"

# two sweeps of one folder share the work
rm -r runs
"$program" sweep s.conf -j 1 > out.1 2> err.1 & first=$!
"$program" sweep s.conf -j 1 > out.2 2> err.2 & second=$!
wait $first
wait $second
[ "$(finished)" -eq 4 ] || fail "two at once: $(cat err.1 err.2)"
for id in $(ids); do
  "$program" show --events "runs/s/$id.h5" | grep -q resume && fail "two at once: $id was run by both"
done
bits runs/s | cmp -s - bits.plain || fail "other bits from two at once"

# a divergence that is a failure is one in every later sweep, too
for time in first second; do
  sweep train.steps=3 train.lr=1e30 train.on_nonfinite=fail train.seed=1 preset=adam sweep.dir=runs/fell
  [ $? -eq 1 ] || fail "a divergence that fails, the $time time: $(cat out err)"
  grep -q 'failed: diverged, and train.on_nonfinite = fail' err || fail "a divergence that fails, the $time time, is not told: $(cat err)"
done

# a longer sweep goes on from runs of its own text alone
for text in one two; do yes $text | head -c 3000 > text; sweep train.steps=3 train.seed=1 preset=adam data=bytes data.path=text sweep.dir=runs/texts || fail "text $text: $(cat err)"; done
"$program" sweep s.conf --list train.steps=3 train.seed=1 preset=adam data=bytes data.path=text sweep.dir=runs/texts | cut -f 2 > short
sweep train.steps=4 train.seed=1 preset=adam data=bytes data.path=text sweep.dir=runs/texts --list
grep -q "extends $(cat short)" out || fail "the text of now does not go on: $(cat out)"
sweep train.steps=4 train.seed=1 preset=adam data=bytes data.path=text sweep.dir=runs/texts || fail "of two texts: $(cat err)"
yes three | head -c 3000 > text
sweep train.steps=5 train.seed=1 preset=adam data=bytes data.path=text sweep.dir=runs/texts --list
grep -q extends out && fail "a run of another text goes on: $(cat out)"

# a run that was resumed to more steps is no point of its sweep any more, and stays what it is
sweep train.steps=2 train.seed=1,2 preset=adam sweep.dir=runs/longer && sweep train.steps=3 train.seed=1,2 preset=adam sweep.dir=runs/longer || fail "longer: $(cat err)"
one=$("$program" sweep s.conf --list train.steps=3 train.seed=1,2 preset=adam sweep.dir=runs/longer | cut -f 2 | head -n 1)
"$program" resume -q "runs/longer/$one.h5" train.steps=6 || fail "resume of a point"
cksum "runs/longer/$one.h5" > before
sweep train.steps=3 train.seed=1,2 preset=adam sweep.dir=runs/longer; status=$?
test $status -eq 1 && grep -q "$one .*failed: runs/longer/$one.h5 is now another run" err || fail "a longer point: exit $status, $(cat err)"
cksum "runs/longer/$one.h5" | cmp -s - before || fail "a run that was resumed to more steps is replaced"

# a folder that takes no runs is told once, not by every point
: > file
for folder in file file/below; do
  sweep sweep.dir=$folder
  [ $? -eq 1 ] && [ "$(grep -c "folder $folder: Not a directory" err)" = 1 ] && ! grep -q failed out err ||
    fail "runs in $folder: $(cat out err)"
done
finish
