#!/bin/sh
# The numbers behind every figure, every reduction of a metric, comparisons, and where the largest stands, made again by
# another program (redraw.py) from run files that hold ties, NaN and infinities. Skipped where no python3 has h5py and
# numpy (Debian: python3-h5py python3-numpy).
set -u
source=${top_srcdir:-.}
. "$source/tests/small_runs.sh"
python=$(python_with 'h5py, numpy')
[ "$python" ] || {
  echo "redraw.sh: skipped, ${PYTHON:-python3} has not both h5py and numpy"
  exit 77
}
redraw=$(realpath "$source/tests/redraw.py")
checkpoint=$(realpath "$source/tests/checkpoints/deepseek_v3")
MAXLOGIT_PLOTS=$(realpath "$source/plots")
export MAXLOGIT_PLOTS
cd "$dir" || exit 1
tiny='model.layers=2 model.width=8 model.heads=2 model.context=8 train.batch=2 train.val_every=3 train.warmup=0
  record.spectra_every=4 device.threads=1 data=markov'
small="$tiny model.width=8 qk_clip.tau=2 train.steps=10"
: >none.conf
echo "$small" >small

# shellcheck disable=SC2086 # lists of words
"$program" sweep -q none.conf preset=adam,muonclip train.lr=0.003,0.02 train.weight_decay=0,0.1 train.seed=1,2,3 $small \
  sweep.dir=runs >out 2>&1 || { cat out; exit 1; }
run() {
  name=$1
  shift
  "$program" run -q record.path="$name.h5" preset=adam "$@" >out 2>&1 || { cat out; exit 1; }
}
# shellcheck disable=SC2086
{
  run sparse $small train.lr=0.02 train.weight_decay=0 train.seed=4 record.every=2 # another one of a group
  for seed in 1 2; do
    run one-$seed $tiny train.steps=1 train.seed=$seed # a row
    run long-$seed $tiny train.steps=997 train.seed=$seed model.layers=1 record.spectra_every=1 # more than is drawn
  done
  run plain $tiny train.steps=10 train.batch=4
  run lag $tiny train.steps=10 train.batch=4 markov.lag=5
  run recall $tiny train.steps=10 train.batch=4 data=recall
  run clips $tiny train.steps=10 stabilizers=qk_clip qk_clip.tau=1 record.probe_every=5
  run made $tiny train.steps=20 record.spectra_every=1 record.observe=default+drive
  run from $tiny train.steps=10 train.batch=4 train.init_from=plain.h5
  seed=0
  for plant in 2 1e9 1e30; do # of the last nothing is finite
    seed=$((seed + 1))
    run weights-$seed $tiny train.steps=1 train.seed=$seed checkpoint.every=1 train.plant=1:1:$plant train.on_nonfinite=continue
    "$program" spectra -o bounds-$seed.h5 weights-$seed.h5 >out 2>&1 || { cat out; exit 1; }
  done
}
exec "$python" -B "$redraw" "$program" "$dir" "$checkpoint"
