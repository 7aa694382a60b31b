#!/bin/sh
# What a machine lacks for device = cuda is said, in one line, with status 2, by run and by doctor; and the rest works.
# shellcheck source=cuda_host.sh
. "${top_srcdir:-.}/tests/cuda/cuda_host.sh"
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
status=0
complain() { echo "$1"; status=1; }

# refused MODE PATTERN [KEY=VALUE ...]
refused() {
  mode=$1 pattern=$2
  shift 2
  MAXLOGIT_CUDA_ON_HOST=$mode ./maxlogit run device=cuda "$@" record.path="$folder/x.h5" >"$folder/out" 2>"$folder/err"
  [ $? = 2 ] || complain "$mode $*: not status 2"
  [ "$(wc -l <"$folder/err")" = 1 ] || complain "$mode $*: not one line"
  grep -q "$pattern" "$folder/err" || complain "$mode $*: $(cat "$folder/err")"
  [ ! -e "$folder/x.h5" ] || complain "$mode $*: something was written"
}
refused no-driver 'device = cuda: no NVIDIA driver on this machine'
refused old-driver 'driver is too old: it is for CUDA 12.2, the plug-in for 13.0'
refused no-gpu 'a driver, but no GPU'
refused old-gpu 'too old: .* capability 7.5, and 8.0 is needed'
# a run that the GPU's memory does not hold: what it wanted, what there is; and cuBLAS wants its own first
MAXLOGIT_CUDA_ON_HOST_MEMORY=70000000 ./maxlogit run device=cuda record.path="$folder/x.h5" >"$folder/out" 2>"$folder/err"
[ $? = 1 ] && [ "$(wc -l <"$folder/err")" = 1 ] && [ ! -e "$folder/x.h5" ] || complain "no memory: $(cat "$folder/err")"
grep -q 'out of memory: .* MiB more wanted by a run that has .* of the GPU.s 67 MiB are free' "$folder/err" ||
  complain "no memory: $(cat "$folder/err")"
MAXLOGIT_CUDA_ON_HOST_MEMORY=60000000 ./maxlogit run device=cuda record.path="$folder/x.h5" >"$folder/out" 2>"$folder/err"
[ $? = 1 ] && grep -q 'no memory for cuBLAS: 0.1 of' "$folder/err" || complain "no memory for cuBLAS: $(cat "$folder/err")"
# a sweep says the same of its first point, and computes: the process that checks it has not looked at the GPU
sweep() {
  MAXLOGIT_CUDA_ON_HOST=$1 ./maxlogit sweep -q "$folder/two.conf" device=cuda model.width=8 model.heads=2 model.layers=1 model.context=4 \
    markov.symbols=8 train.batch=1 train.steps=2 train.val_batches=1 train.seed=1,2 optimizer=adam \
    record.spectra_every=0 sweep.dir="$folder/sweep" >"$folder/out" 2>"$folder/err"
}
echo '# two seeds' >"$folder/two.conf"
sweep no-driver
[ $? = 2 ] && [ "$(wc -l <"$folder/err")" = 1 ] && [ ! -e "$folder/sweep" ] || complain "sweep without a driver: $?"
grep -q 'point 1 (train.seed=1): device = cuda: no NVIDIA driver on this machine' "$folder/err" ||
  complain "sweep without a driver: $(cat "$folder/err")"
sweep lazy || complain "sweep device=cuda: $(cat "$folder/out" "$folder/err")"
[ "$(find "$folder/sweep" -name '*.h5' ! -path '*ckpt*' | wc -l)" = 2 ] || complain "sweep device=cuda: not two runs"

refused lazy 'device.math.*fp32, tf32, bf16' device.math=fp8
for mode in no-driver old-gpu; do
  MAXLOGIT_CUDA_ON_HOST=$mode ./maxlogit doctor --json >"$folder/doctor" || complain "doctor fails: $mode"
  grep -q '"gpu": null' "$folder/doctor" && grep -qE '"gpu_lacks": ".*(driver|too old)' "$folder/doctor" ||
    complain "doctor --json: $(cat "$folder/doctor")"
done
./maxlogit doctor | grep -q 'gpu .*this CPU in the place of a GPU, capability 9.0' || complain "doctor: no GPU"

# the CPU has no choice; nothing computes where there is no plug-in, and what is there may be another build's
./maxlogit run device.math=bf16 record.path="$folder/x.h5" 2>"$folder/err"
[ $? = 2 ] && grep -q 'device.math = bf16: device = cpu computes in fp32 alone' "$folder/err" || complain "$(cat "$folder/err")"
without() { MAXLOGIT_CUDA=$1 ./maxlogit run device=cuda record.path="$folder/x.h5" 2>&1; }
without "$folder/none.so" | grep -q 'cannot be loaded: .*none.so' || complain "a plug-in that is not there"
echo 'const void *maxlogit_cuda(void) { static const long other[64]; return other; }' >"$folder/other.c"
${CC:-cc} -shared -fPIC -o "$folder/other.so" "$folder/other.c" || exit 99
without "$folder/other.so" | grep -q 'belongs to another build' || complain "a plug-in of another build"
mkdir "$folder/bin" && cp maxlogit "$folder/bin/"
(unset MAXLOGIT_CUDA; "$folder/bin/maxlogit" run device=cuda record.path="$folder/x.h5") >"$folder/out" 2>&1
[ $? = 2 ] && grep -qE 'no CUDA plug-in was built .*make cuda|device = cuda: ' "$folder/out" || complain "$(cat "$folder/out")"
# and beside the program it is found
cp "$MAXLOGIT_CUDA" "$folder/bin/maxlogit_cuda.so"
(unset MAXLOGIT_CUDA; "$folder/bin/maxlogit" doctor) | grep -q 'this CPU in the place of a GPU' || complain "not found beside"
exit $status
