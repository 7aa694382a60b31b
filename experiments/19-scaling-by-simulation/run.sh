#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: steps on simulated clusters, one after another; table and figure. TEXT is not used. Wants
# SimGrid's smpirun, and maxlogit_simulated beside the program (make maxlogit_simulated). ONLY: names of the sets, without it
# all; MOST: ranks at most (1024). See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

SIMULATED=${SIMULATED:-${maxlogit}_simulated}
for tool in smpirun "$SIMULATED"; do
  command -v "$tool" >/dev/null || { echo "$0: $tool is not there (package libsimgrid-dev, make maxlogit_simulated)" >&2; exit 2; }
done
case $SIMULATED in /*) ;; *) SIMULATED=$PWD/$SIMULATED ;; esac
export SIMULATED
mkdir -p "$dir"
run="preset=muonclip qk_clip.tau=0.3 train.lr=0.03 train.val_every=0 train.val_batches=1 train.steps=2 model.width=32 model.heads=2"

# step SET KIND RANKS key=value ...: a line of $dir/steps.txt, unless it is there; the sum of the run's numbers at its end
step() {
  set=$1 kind=$2 ranks=$3
  shift 3
  case " ${ONLY:-$set} " in *" $set "*) ;; *) return 0 ;; esac
  [ "$ranks" -le "${MOST:-256}" ] || return 0
  grep -qs "^$set $kind $ranks " "$dir/steps.txt" && return
  if [ "$kind" = ethernet ]; then SPEED=5e10; else SPEED=1e12; fi
  export SPEED
  # shellcheck disable=SC2086 # lists of settings
  (cd "$work" && rm -rf one.* && "$here/simulate.sh" "$kind" "$ranks" step $run record.path=one.h5 "$@" ${KEYS:-} >&2) || exit 1
  sum=$(rows "$work/one.h5" loss grad_norm attn/max_logit attn/entropy | cksum | cut -d ' ' -f 1)
  sed "s/^1 /$set $kind $ranks /; s/\$/ bits $sum/" "$work/step" >>"$dir/steps.txt"
}
for ranks in 1 8 64 256; do # 256 parts on 256 ranks are strong, too
  for kind in ethernet gpus; do
    each="model.context=32 train.batch=$((4 * ranks)) train.micro_batches=$ranks"
    step strong $kind $ranks model.context=32 train.batch=1024 train.micro_batches=256
    [ $ranks = 256 ] || step weak $kind $ranks $each
    [ $ranks = 1 ] || step states $kind $ranks $each comm.shard=states
  done
done
for ranks in 1 8 16 32 64; do # 2048 tokens on 32 ranks are longer, too
  for kind in ethernet gpus; do
    step context $kind $ranks model.context=2048 train.batch=1 comm.context=$ranks
    [ $ranks = 32 ] || step longer $kind $ranks model.context=$((64 * ranks)) train.batch=1 comm.context=$ranks
  done
done
for kind in ethernet gpus; do step weak $kind 1024 model.context=32 train.batch=4096 train.micro_batches=1024; done
awk -v points="$work/points" -f "$here/model.awk" "$dir/steps.txt" >"$dir/table.txt"
draw figure.gp scaling points="$work/points"
finish scaling.png
