#!/bin/sh
# The numbers behind every figure and every reduction of a metric, made again from the run files by another program
# (redraw.py). Skipped where python3 has not h5py and numpy (Debian: python3-h5py python3-numpy).
set -u
source=${top_srcdir:-.}/tests
python=${PYTHON:-python3}
$python -c 'import h5py, numpy' 2>/dev/null || {
  echo "redraw.sh: skipped, $python has not both h5py and numpy"
  exit 77
}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
run() {
  to=$1
  shift
  mkdir -p "$folder/${to%/*}"
  ./maxlogit run model.width=16 model.heads=2 model.layers=2 model.context=16 train.batch=4 train.warmup=2 train.val_every=10 \
    train.val_batches=1 record.spectra_every=10 record.path="$folder/$to.h5" "$@" >"$folder/$to.txt" 2>"$folder/messages" ||
    [ $? -eq "$may" ] || { cat "$folder/messages"; exit 1; }
}
may=0
for seed in 1 2 3; do
  run a/$seed optimizer=adam train.steps=90 train.seed=$seed
  run b/$seed optimizer=muon train.steps=90 train.seed=$seed stabilizers=qk_clip qk_clip.tau=4
done
for lr in 0.003 0.03 0.3; do
  for decay in 0 0.1; do
    for seed in 1 2; do run grid/$lr-$decay-$seed train.lr=$lr train.weight_decay=$decay train.steps=12 train.seed=$seed; done
  done
done
run odd/nan optimizer=sgd train.lr=1e30 train.steps=20 train.on_nonfinite=continue
run odd/one train.steps=1 optimizer=none
run other/recall data=recall train.steps=20
run other/lag markov.lag=5 optimizer=adam train.steps=20
run other/from train.init_from="$folder/a/1.h5" optimizer=adam train.steps=20
mkdir "$folder/c" && cp "$folder"/b/?.h5 "$folder/c/"
run c/9 optimizer=muon train.steps=20 train.seed=9
may=3 # a run that diverges
run odd/diverged optimizer=sgd train.lr=1e30 train.steps=20 train.seed=2
run odd/lasting optimizer=sgd train.lr=0.1 train.steps=20 train.seed=3
may=75 # stopped
for seed in 1 2; do run late/$seed train.steps=10000000 train.seed=$seed train.max_time=0.3; done
may=0
sweep() {
  to=$1
  shift
  printf '%s\n' "$@" model.width=16 model.heads=2 model.layers=2 model.context=16 train.batch=4 train.warmup=2 train.val_every=10 \
    train.val_batches=1 train.steps=20 optimizer=sgd >"$folder/$to.conf"
  ./maxlogit sweep "$folder/$to.conf" sweep.dir="$folder/sweep-$to" 2>"$folder/messages" | grep -A 1 '^id ' >"$folder/odd/$to.sweep"
}
sweep nan train.lr=1e30 train.on_nonfinite=continue
sweep lasting train.lr=0.1 train.seed=3
top_srcdir=${top_srcdir:-.} $python "$source/redraw.py" "$folder" ./maxlogit
