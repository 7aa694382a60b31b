#!/bin/bash
# A real Slurm of one node (slurmctld, slurmd, munge), started here in a folder of its own: ranks by srun, an array that
# fills a sweep, preemption with requeue, and a chain of jobs. Skipped, saying so, where
# there is no Slurm. No systemd, cgroups or accounts: as root, on the loopback.
cd "${top_builddir:-.}" || exit 99
. "${top_srcdir:-.}/tests/comm/mpirun.sh"
PATH=$PATH:/usr/sbin:/sbin
for tool in slurmctld slurmd munged srun sbatch scontrol; do
  command -v $tool >/dev/null || skip "no $tool (packages slurmctld slurmd slurm-client munge)"
done
[ "$(id -u)" = 0 ] || skip "slurmd wants root"
. "${top_srcdir:-.}/tests/small_runs.sh"
stop() {
  scontrol shutdown >/dev/null 2>&1
  sleep 1
  for daemon in slurmd slurmctld munge; do
    [ -s "$dir/$daemon.pid" ] || continue
    pid=$(cat "$dir/$daemon.pid")
    kill "$pid" 2>/dev/null
    for _ in $(seq 40); do kill -0 "$pid" 2>/dev/null || break; sleep 0.25; done
  done
  rm -rf "$dir"
}
trap stop EXIT
host=$(hostname -s)
source=$(cd "${top_srcdir:-.}" && pwd)
build=$PWD
export SLURM_CONF=$dir/slurm.conf
mkdir "$dir/munge" "$dir/spool" "$dir/state"
chmod 700 "$dir/munge"
dd if=/dev/urandom of="$dir/munge/key" bs=1k count=1 2>/dev/null
chmod 400 "$dir/munge/key"
chmod 711 "$dir"
munged --force --key-file="$dir/munge/key" --socket="$dir/munge.sock" --pid-file="$dir/munge.pid" \
  --log-file="$dir/munge.log" --seed-file="$dir/munge.seed" 2>"$dir/log" || { cat "$dir/log"; skip "munged does not start"; }
base=$((20000 + $$ % 20000)) # ports of our own
cat >"$SLURM_CONF" <<END
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
SlurmdSpoolDir=$dir/spool
StateSaveLocation=$dir/state
SlurmctldPort=$base
SlurmdPort=$((base + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,requeue_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=low  Nodes=$host Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=high Nodes=$host Default=NO  MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
END
srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no pmix"
slurmctld -c
slurmd -N "$host"
wait_for() { # SECONDS COMMAND...
  seconds=$1
  shift
  for _ in $(seq $((2 * seconds))); do
    "$@" && return
    sleep 0.5
  done
  return 1
}
# shellcheck disable=SC2317 # called by wait_for
is_idle() { [ "$(sinfo -h -p low -o %t 2>/dev/null)" = idle ]; }
wait_for 30 is_idle || { cat "$dir"/slurm*.log; skip "the node does not come up"; }
state() { scontrol -o show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
# shellcheck disable=SC2317
is_over() { ! squeue -h -j "$1" 2>/dev/null | grep -q .; }
same() { "$build/tests/same_run" "$1" "$2" >"$dir/log" 2>&1 || fail "$1 and $2: $(head -n 3 "$dir/log")"; }

small="model.width=16 model.heads=2 model.context=16 train.batch=4 train.micro_batches=4 train.warmup=2 train.lr=0.03
  train.val_every=0 train.val_batches=1 device.threads=1"
# shellcheck disable=SC2206 # words
small=($small)
cd "$dir" || exit 99
export MAXLOGIT=$program

# ranks by srun
"$program" run -q preset=muonclip qk_clip.tau=0.3 "${small[@]}" train.steps=40 record.path=alone.h5 || fail "alone"
srun -n 4 --overcommit --mpi=pmix "$program" run preset=muonclip qk_clip.tau=0.3 "${small[@]}" train.steps=40 \
  record.path=ranks.h5 >out 2>&1 || fail "srun: $(cat out)"
grep -q 'ranks      4;' out || fail "srun: not on 4 ranks: $(cat out)"
same alone.h5 ranks.h5

# a farm inside a job, and an array of the same sweep
printf 'preset = muon\n[train]\nlr = 0.01, 0.02\nseed = 1, 2, 3\nsteps = 40\n' >s.conf
"$program" sweep -q s.conf "${small[@]}" train.lr=0.01,0.02 sweep.dir=one >/dev/null 2>err || fail "sweep: $(cat err)"
srun -n 3 --overcommit --mpi=pmix "$program" sweep -q s.conf "${small[@]}" train.lr=0.01,0.02 sweep.dir=farm >out 2>&1 ||
  fail "farm: $(cat out)"
job=$(sbatch --parsable --array=1-3 --cpus-per-task=1 --time=10 -o array.log "$source/experiments/slurm.sbatch" s.conf \
  "${small[@]}" train.lr=0.01,0.02 sweep.dir=array) || fail "sbatch: $job"
wait_for 90 is_over "$job" || fail "the array: $(cat array.log)"
for file in one/*.h5; do
  same "$file" "farm/$(basename "$file")"
  same "$file" "array/$(basename "$file")"
done

# preemption: who comes to the other partition has the node at once; the first goes on after it, to the same bits
long=(sweep.dir=low train.lr=0.01 train.seed=1 train.steps=20000)
"$program" sweep -q s.conf "${small[@]}" "${long[@]}" sweep.dir=undisturbed >/dev/null 2>err || fail "undisturbed: $(cat err)"
job=$(sbatch --parsable --array=1 -p low --cpus-per-task=4 --time=10 -o low.log "$source/experiments/slurm.sbatch" s.conf \
  "${small[@]}" "${long[@]}")
# shellcheck disable=SC2317
has_begun() { ls low/*.journal >/dev/null 2>&1; }
wait_for 60 has_begun || fail "low has not begun: $(cat low.log)"
high=$(sbatch --parsable -p high --cpus-per-task=4 --time=10 -o high.log --wrap "sleep 1; ls low >high.seen")
wait_for 60 is_over "$high" || fail "high did not get the node: $(squeue)"
grep -q h5 high.seen || fail "high saw nothing of what low had left"
[ "$(state "${job}_1")" != COMPLETED ] || fail "low was done before: nothing was preempted"
wait_for 300 is_over "$job" || fail "low has not come back: $(squeue; cat low.log)"
[ "$("$program" show --events low/*.h5 | grep -c resume)" -ge 1 ] || fail "low was not resumed: $(cat low.log)"
for file in undisturbed/*.h5; do same "$file" "low/$(basename "$file")"; done

# a chain: each job has time for a part, and the next goes on
command="$program sweep -q s.conf ${small[*]} train.lr=0.01 train.seed=1 train.steps=20000 train.max_time=2 sweep.dir=chain"
previous=
for i in 1 2 3; do
  previous=$(sbatch --parsable ${previous:+--dependency=afterany:$previous} --time=10 -o chain$i.log --wrap "$command; echo \$? >chain$i")
done
wait_for 120 is_over "$previous" || fail "the chain: $(squeue)"
[ "$(cat chain1)" = 75 ] || fail "the chain's first job: exit $(cat chain1): $(cat chain1.log)"
"$program" sweep -q s.conf "${small[@]}" train.lr=0.01 train.seed=1 train.steps=20000 sweep.dir=chain >/dev/null 2>err ||
  fail "the chain's end: $(cat err)"
for file in undisturbed/*.h5; do same "$file" "chain/$(basename "$file")"; done
finish
