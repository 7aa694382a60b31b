#!/bin/sh
# experiments/slurm.sbatch as Slurm would start it: tasks share the points, a stopped one asks to be queued again
srcdir=${srcdir:-$(dirname "$0")/..}
command -v bash > /dev/null || { echo "bash is not installed: slurm.sbatch not tested"; exit 77; }
. "$srcdir/tests/small_runs.sh"
MAXLOGIT=$(cd "$(dirname "$program")" && pwd)/$(basename "$program"); export MAXLOGIT
script=$(cd "$srcdir/experiments" && pwd)/slurm.sbatch
mkdir "$dir/bin"
printf '#!/bin/sh\necho "$@" >> "%s/asked"\n' "$dir" > "$dir/bin/scontrol"
chmod +x "$dir/bin/scontrol"
PATH=$dir/bin:$PATH
cd "$dir" || exit 99
printf 'preset = muon\n[model]\nwidth = 16\nheads = 2\ncontext = 16\n[train]\nbatch = 4\nsteps = 4\nlr = 0.01, 0.02\nseed = 1, 2\n' > s.conf
SLURM_JOB_ID=70 SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_MIN=5 SLURM_ARRAY_TASK_COUNT=2 SLURM_CPUS_PER_TASK=1
export SLURM_JOB_ID SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_COUNT SLURM_CPUS_PER_TASK
task() { SLURM_ARRAY_TASK_ID=$1; export SLURM_ARRAY_TASK_ID; shift; bash "$script" s.conf "$@" > out 2> err; status=$?; }
done_ones() { find runs/s -name '*.h5' ! -path '*.ckpt/*' | wc -l; }

task 5 train.max_time=1e-9 sweep.dir=short
test $status -eq 75 || fail "a task without time: exit $status, $(cat err)"
test "$(cat asked)" = "requeue 7_5" || fail "not queued again: $(cat asked)"
rm asked
task 5
test $status -eq 0 && test "$(done_ones)" -eq 2 || fail "the first task: exit $status, $(done_ones) runs, $(cat err)"
task 6
test $status -eq 0 && test "$(done_ones)" -eq 4 || fail "the second task: exit $status, $(done_ones) runs, $(cat err)"
test ! -e asked || fail "queued again though done: $(cat asked)"
"$MAXLOGIT" show runs/s | grep -c finished | grep -qx 4 || fail "not all are finished"

# an array with gaps would leave points out: refused, unless it is said how many shards there are
(SLURM_ARRAY_TASK_MAX=8; export SLURM_ARRAY_TASK_MAX; task 5 sweep.dir=gaps
 test $status -eq 2 && grep -q gaps err && test ! -e gaps) || fail "an array with gaps: $(cat err)"
(SLURM_ARRAY_TASK_MAX=8 SHARDS=2; export SLURM_ARRAY_TASK_MAX SHARDS; task 2 sweep.dir=gaps
 test $status -eq 0 && test "$(find gaps -name '*.h5' ! -path '*.ckpt/*' | wc -l)" -eq 2) || fail "SHARDS: $(cat err)"

# a signal to the shell reaches the sweep
rm -f asked
SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_COUNT=1 bash "$script" s.conf sweep.dir=long train.steps=1000000 > out 2> err &
shell=$!
while ! ls long/*.journal > /dev/null 2>&1; do kill -0 $shell || break; sleep 0.1; done
kill -USR1 $shell
wait $shell; status=$?
test $status -eq 75 && test "$(cat asked)" = "requeue 7_5" || fail "USR1: exit $status, $(cat err)"
finish
