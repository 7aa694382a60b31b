#!/bin/sh
# gpu.sh [quick] - make check-gpu: what is tested on a GPU; quick: without compute-sanitizer. Skipped (77) where there is
# none; what was skipped never passed.
cd "${top_builddir:-.}" || exit 99
MAXLOGIT_CUDA=$PWD/maxlogit_cuda.so
export MAXLOGIT_CUDA
lacks=$(./maxlogit doctor --json | sed -n 's/.*"gpu_lacks": "\(.*\)".*/\1/p')
if [ ! -f "$MAXLOGIT_CUDA" ] || [ -n "$lacks" ]; then
  echo "check-gpu: SKIPPED: ${lacks:-no plug-in was built}"
  exit 77
fi
failed=0
try() {
  if "$@"; then echo "check-gpu: passed: $*"
  elif [ $? = 77 ]; then echo "check-gpu: SKIPPED: $*"
  else echo "check-gpu: FAILED: $*"; failed=1
  fi
}
./maxlogit doctor | grep ' gpu '
try tests/numerics/check_ops    # every operation against its definition: the device is one of those in the loop
try tests/run/check_gpu    # late reports, replay, resume, waits, as on the CPU, there and back
CK_RUN_CASE="on a GPU" try tests/run/check_launch # many runs in one launch: the bits of each alone, ends, resume
MAXLOGIT_TEST_DEVICE=device=cuda
export MAXLOGIT_TEST_DEVICE
try tests/run/check_golden  # PyTorch's values: optimisers, stabilisers, attention; their gradients are in every step
try tests/run/check_trainer # divergence, resume, packing, looks, every stabiliser's series
unset MAXLOGIT_TEST_DEVICE
for tool in memcheck racecheck initcheck; do
  if [ "${1:-}" = quick ]; then
    echo "check-gpu: SKIPPED: compute-sanitizer --tool $tool: make check-gpu runs it"
  elif [ -n "$COMPUTE_SANITIZER" ]; then
    sanitized="$COMPUTE_SANITIZER --tool $tool --error-exitcode 9"
    # shellcheck disable=SC2086 # words
    CK_FORK=no CK_RUN_CASE=table CK_TIMEOUT_MULTIPLIER=100 try $sanitized tests/numerics/check_ops
    # shellcheck disable=SC2086 # words
    CK_FORK=no CK_RUN_CASE="on a GPU" try $sanitized tests/run/check_gpu
  else
    echo "check-gpu: SKIPPED: compute-sanitizer --tool $tool is not installed"
  fi
done
exit $failed
