#!/bin/sh
# gpu.sh [quick] - make check-gpu: the tests on a GPU. quick: all at the same time and within a minute, without
# compute-sanitizer; prints every failure with its numbers, and the kernels that no test launched. Without a GPU it is
# skipped (77), never passed.
source=$(cd "${top_srcdir:-.}" && pwd)
cd "${top_builddir:-.}" || exit 99
MAXLOGIT_CUDA=${MAXLOGIT_CUDA:-$PWD/maxlogit_cuda.so}
export MAXLOGIT_CUDA
lacks=$(./maxlogit doctor --json | sed -n 's/.*"gpu_lacks": "\(.*\)".*/\1/p')
if [ ! -f "$MAXLOGIT_CUDA" ] || [ -n "$lacks" ]; then
  echo "check-gpu: SKIPPED: ${lacks:-no plug-in was built}"
  exit 77
fi
failed=0 passed=0
try() {
  if "$@"; then echo "check-gpu: passed: $*"; passed=$((passed + 1))
  elif [ $? = 77 ]; then echo "check-gpu: SKIPPED: $*"
  else echo "check-gpu: FAILED: $*"; failed=1
  fi
}
# what each is: see `tests`, below. A process that has asked for a GPU and forks leaves its child without: tests of which
# each begins a process of its own wait for the GPU to begin as often
tests() { # CALLS: each with a name, variables and a program
  "$1" identities CK_RUN_CASE=identities tests/numerics/check_ops   # by hand, rounded inputs, large products
  "$1" device "" tests/run/check_gpu                                # late reports, replay, resume, as on the CPU
  "$1" launch "CK_RUN_CASE=on\ a\ GPU CK_FORK=yes" tests/run/check_batched_run # many runs: the bits of each alone, ends, resume
  "$1" goldens MAXLOGIT_TEST_DEVICE=device=cuda tests/run/check_golden # PyTorch's values; gradients are in every step
  "$1" trainer MAXLOGIT_TEST_DEVICE=device=cuda tests/run/check_trainer # divergence, resume, looks, stabilizers' series
}
# The plug-in's kernels that no test has launched, without those of doctor and bench.
kernels_left() { # FILE: written through MAXLOGIT_CUDA_KERNELS
  if [ -f cuda/kernels ]; then cat cuda/kernels; else sh "$source/cuda/kernels.sh" "$MAXLOGIT_CUDA"; fi |
    grep -vE '^(void )?(fma|noise|empty)_kernel' >"$folder/kernels"
  cut -f 5 "$1" 2>/dev/null | sort -u >"$folder/launched"
  sort -u "$folder/kernels" | comm -23 - "$folder/launched" >"$folder/left"
  echo "check-gpu: $(wc -l <"$folder/left") of $(wc -l <"$folder/kernels") kernels were never launched"
  sed 's/^/  never launched: /' "$folder/left"
  [ ! -s "$folder/left" ] && [ -s "$folder/kernels" ]
}
if [ "${1:-}" = quick ]; then
  folder=$(mktemp -d) || exit 99
  trap 'rm -rf "$folder"' EXIT
  MAXLOGIT_CUDA_KERNELS=$folder/kernels_seen
  export MAXLOGIT_CUDA_KERNELS
  # shellcheck disable=SC2317 # `tests` calls it
  begin() {
    ( began=$(date +%s)
      [ -x "$3" ] || { echo "$3 is missing" >"$folder/$1.txt"; echo "FAILED 0" >"$folder/$1.end"; exit; }
      eval "env CK_FORK=no $2 timeout -k 2 ${CHECK_SECONDS:-75} $3" >"$folder/$1.txt" 2>&1
      status=$?
      case $status in 0) end=passed ;; 77) end=SKIPPED ;; 124 | 137) end="OUT OF TIME" ;; *) end=FAILED ;; esac
      echo "$end after $(($(date +%s) - began)) s, status $status" >"$folder/$1.end" )
  }
  # shellcheck disable=SC2317 # likewise
  tell() {
    end=$(cat "$folder/$1.end")
    case $end,${4:-} in passed*,quiet) return ;; esac
    echo "check-gpu: $1 ($3): $end"
    case $end in passed*) return ;; SKIPPED*) tail -n 1 "$folder/$1.txt"; return ;; esac
    failed=1
    # what a test has found: shapes, the first element that differs, both values; else its last words
    found=$(grep -aE ':[FE]:|maxlogit: |cuda' "$folder/$1.txt" | head -n 40 | cut -c1-1200)
    printf '%s\n' "${found:-$(tail -n 20 "$folder/$1.txt")}" | sed "s/^/  $1: /"
  }
  # every operation against its definition, each in a process of its own, so that a crash ends no other test
  # shellcheck disable=SC2317 # likewise
  beside() { begin "$@" & }
  tests beside
  operations=$(tests/numerics/check_ops --list)
  [ -n "$operations" ] || { echo "check-gpu: FAILED: check_ops names no operation"; failed=1; }
  lane() { # NUMBER: its share of the operations, one after another
    at=0
    for operation in $operations; do
      [ $((at % lanes)) != "$1" ] || begin "$operation" "CK_RUN_CASE=table CHECK_OPERATION=$operation" tests/numerics/check_ops
      at=$((at + 1))
    done
    echo $(($(date +%s) - began)) >"$folder/$1.lane"
  }
  lanes=$(nproc) began=$(date +%s)
  for number in $(seq 0 $((lanes - 1))); do lane "$number" & done
  wait
  took=$(cat "$folder"/*.lane | sort -n | tail -n 1)
  for operation in $operations; do tell "$operation" "" tests/numerics/check_ops quiet; done
  echo "check-gpu: $(for operation in $operations; do cat "$folder/$operation.end"; done | grep -c ^passed) of" \
    "$(echo "$operations" | wc -l) operations passed, after $took s"
  tests tell
  kernels_left "$folder/kernels_seen" || failed=1
  [ -z "${CHECK_KERNELS:-}" ] || sort -u "$folder/kernels_seen" >"$CHECK_KERNELS" 2>/dev/null
  exit $failed
fi
./maxlogit doctor | grep ' gpu '
# shellcheck disable=SC2317 # likewise
one_by_one() { eval "try env $2 $3"; }
CK_RUN_CASE=table try tests/numerics/check_ops
tests one_by_one
# Some operations, since all of them take hours: tiles in shared memory, sums over blocks, integers that are counted
chosen='matmul gram newton_schulz attention_forward attention_backward embed_backward cross_entropy route expert_matmul'
for tool in memcheck racecheck initcheck synccheck; do
  if [ -z "$COMPUTE_SANITIZER" ]; then
    echo "check-gpu: SKIPPED: compute-sanitizer --tool $tool is not installed"
    continue
  fi
  sanitized="$COMPUTE_SANITIZER --tool $tool --error-exitcode 9"
  # shellcheck disable=SC2086 # words
  if CK_FORK=no CK_RUN_CASE=table CHECK_OPERATION=fill $sanitized tests/numerics/check_ops 2>&1 | grep -q 'Device not supported'; then
    echo "check-gpu: SKIPPED: compute-sanitizer --tool $tool: it does not know this device"
    continue
  fi
  for operation in $chosen; do
    # shellcheck disable=SC2086 # words
    CK_FORK=no CK_RUN_CASE=table CHECK_OPERATION=$operation CK_TIMEOUT_MULTIPLIER=100 try $sanitized tests/numerics/check_ops
  done
  # shellcheck disable=SC2086 # words
  CK_FORK=no CK_RUN_CASE="on a GPU" try $sanitized tests/run/check_gpu
done
[ $passed -gt 0 ] || [ $failed = 1 ] || exit 77 # nothing but skipped
exit $failed
