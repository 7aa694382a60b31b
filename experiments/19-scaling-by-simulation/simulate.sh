#!/bin/sh
# simulate.sh KIND RANKS STEPS [key=value ...]: the program on a described cluster (platform.awk), in this folder; STEPS becomes a
# line a step (step.c): its number, seconds, those of them in which it computes, bytes that rank 0 sent, and then operation,
# seconds, bytes of all that goes between ranks. SIMULATED names the program, SPEED what a rank computes, FLOP/s.
#
# Links do what is written of them, and no more: SimGrid's factors for the TCP of a certain cluster are off (CM02). A rank that
# waits looks again and again, each look takes a fortieth of the shortest message.
here=$(cd "$(dirname "$0")" && pwd)
kind=$1 ranks=$2 steps=$3
shift 3
case $kind in ethernet) look=1e-6 ;; gpus) look=5e-8 ;; *) echo "simulate.sh: $kind: ethernet, gpus" >&2; exit 2 ;; esac
awk -v kind="$kind" -v ranks="$ranks" -v speed="${SPEED:-1e12}" -f "$here/platform.awk" >platform.xml || exit 1
seq 0 $((ranks - 1)) | sed 's/^/host-/' >hosts
rm -f "$steps"
MAXLOGIT_SIMULATED=$(pwd)/$steps smpirun -np "$ranks" -platform platform.xml -hostfile hosts --cfg=smpi/simulate-computation:no \
  --cfg=network/model:CM02 --cfg=network/crosstraffic:no --cfg=smpi/grow-injected-times:no --cfg=smpi/test:$look \
  --cfg=smpi/iprobe:$look --cfg=smpi/wtime:0 --log=root.thres:error "${SIMULATED:-./maxlogit_simulated}" run -q device.threads=1 comm.timeout=1e5 "$@"
