#!/bin/sh
# measure.sh - what device = cuda does on the GPU of this machine: is it right, how fast is it, against what; in a build
# folder, or in what cuda/bundle.sh has made. Below ten minutes in all, every part under its own limit: first what doctor
# says, then in a minute whether it is right. A part that fails or takes too long tells its numbers, and the rest goes on.
# What parts have found is kept in a folder as it comes, so that they can be run one at a time; after each part one table
# is made of all that is there. Nothing is built but what is missing, and no network is needed.
#
#   cuda/measure.sh                    all parts
#   cuda/measure.sh PART ...           some: check toy small medium large costs eager compiled func sweep
#   cuda/measure.sh table              only the table, of what is there
#   cuda/measure.sh --to DIR ...       and after each part DIR gets table.txt, and log.txt with all that parts have said
#
# MEASURE=DIR    where parts leave what they found (default: measure); the table is DIR/table.txt as well
# SECONDS_EACH=S for each figure (default 2);  LONGER=N times as long for every part;  PYTHON=python3
# MAXLOGIT=PROGRAM (default ./maxlogit)
# Exit status: 0; 1 where a part failed; 2 for a part that there is not; 77 where there is no GPU.
set -u
source=$(cd "$(dirname "$0")/.." && pwd) || exit 1
kept=${MEASURE:-measure} seconds=${SECONDS_EACH:-2} longer=${LONGER:-1} python=${PYTHON:-python3}
program=${MAXLOGIT:-./maxlogit}
parts='check toy small medium large costs eager compiled func sweep'
limit_of() { # seconds; their sum is below 10 minutes
  case $1 in
  check) echo 100 ;; toy) echo 40 ;; small) echo 35 ;; medium) echo 40 ;; large) echo 50 ;; costs) echo 75 ;;
  eager) echo 50 ;; compiled) echo 85 ;; func) echo 60 ;; sweep) echo 60 ;; tiny) echo 60 ;; # tiny: for tests of this script
  *) return 1 ;;
  esac
}
to=
if [ "${1:-}" = --to ]; then
  to=${2:-}
  mkdir -p "$to" || exit 1
  to=$(cd "$to" && pwd) || exit 1
  shift 2
fi
for part in "$@"; do
  [ "$part" = table ] || limit_of "$part" >/dev/null || {
    echo "measure.sh: no part $part: $parts, or table" >&2
    exit 2
  }
done

# --- parts: each prints what it found

bench() { # TIMES as long as SECONDS_EACH, options
  long=$(awk "BEGIN { print $1 * $seconds }")
  shift
  "$program" bench device=cuda --seconds="$long" "$@"
}

check() {
  for test in tests/numerics/check_ops tests/run/check_gpu tests/run/check_batched_run tests/run/check_golden tests/run/check_trainer; do
    [ -x $test ] || [ -n "${MAXLOGIT_BUNDLE:-}" ] || make -s -j "$(nproc)" $test >/dev/null 2>&1
  done
  top_srcdir=$source top_builddir=. sh "$source/tests/gpu.sh" quick
}

pytorch() { # WAYS, options
  command -v "$python" >/dev/null || { echo "no PyTorch with CUDA: skipped (no $python)"; return 77; }
  ways=$1
  shift
  PYTHONUNBUFFERED=1 "$python" "$source/tests/pytorch/compare_gpu.py" --maxlogit="$program" --ways="$ways" --optimizers=muon \
    --seconds="$seconds" --limit=40 "$@"
}
eager() { pytorch eager --stacks=toy,large --runs=1; }
compiled() { pytorch graph,compiled --stacks=toy,large --runs=1; }
func() { pytorch eager,graph --stacks=toy --runs=128; } # runs batched by torch.func

# The demonstration's presets and rates on the built-in source: as many run-steps a second as wall time allows, files
# and all.
seeds() { # DEVICE COUNT SETTING ...: the sweep's runs and seconds
  folder=$(mktemp -d) device=$1 count=$2
  shift 2
  began=$(date +%s.%N)
  "$program" sweep "$source/experiments/01-four-presets/sweep.conf" -q data=markov device="$device" \
    train.seed="1:$count:lin:$count" train.steps="$sweep_steps" sweep.dir="$folder" "$@" >/dev/null
  status=$?
  ended=$(date +%s.%N)
  rm -rf "$folder"
  [ $status = 0 ] || return $status
  awk -v runs=$((4 * count)) -v steps="$sweep_steps" -v from="$began" -v to="$ended" -v device="$device" 'BEGIN {
    printf "sweep %s %d runs of %d steps in %.1f s: %.0f run-steps/s\n", device, runs, steps, to - from,
      runs * steps / (to - from) }'
}

sweep() {
  sweep_steps=200
  seeds cuda 100 -j 1 || return
  two=$(taskset -cp $$ 2>/dev/null | sed 's/.*: //; s/-/,/' | cut -d, -f1,2) # two of the cores that we may use
  sweep_program=$program
  two_cores() { taskset -c "$two" "$sweep_program" "$@"; }
  program=two_cores
  seeds cpu 5 -j 2
}

run_part() {
  case $1 in
  tiny) bench 2 --stack=tiny --runs=1 ;;
  toy | small | medium | large) bench 1.5 --stack="$1" ;;
  costs) bench 0.6 --costs ;; # some fifty figures
  *) "$1" ;;
  esac
}

if [ "${MEASURE_PART:-}" ]; then # called by `try`, below
  run_part "$MEASURE_PART"
  exit
fi

# --- what is there

missing=
for file in maxlogit maxlogit_cuda.so; do [ -e $file ] || missing="$missing $file"; done
if [ -z "${MAXLOGIT:-}${MAXLOGIT_CUDA:-}${MAXLOGIT_BUNDLE:-}" ] && [ -n "$missing" ]; then
  # shellcheck disable=SC2086 # a list of files
  make -s -j "$(nproc)" $missing >/dev/null || echo "measure.sh:$missing cannot be built here" >&2
fi
[ -n "${MAXLOGIT_CUDA:-}" ] || MAXLOGIT_CUDA=$PWD/maxlogit_cuda.so
export MAXLOGIT_CUDA
doctor=$($program doctor --json 2>&1)
lacks=$(echo "$doctor" | sed -n 's/.*"gpu_lacks": "\(.*\)".*/\1/p')
if [ -n "$lacks" ] || ! echo "$doctor" | grep -q '"gpu": "'; then
  echo "measure.sh: SKIPPED: ${lacks:-no GPU that $program can use}" | tee ${to:+"$to/log.txt"}
  exit 77
fi
mkdir -p "$kept" || exit 1
$program doctor >"$kept/doctor" 2>&1
[ "$*" = table ] || cat "$kept/doctor"

# --- one part under its limit

failed=0
try() {
  limit=$(awk "BEGIN { print $longer * $(limit_of "$1") }") began=$(date +%s)
  echo "measure.sh: $1, at most $limit s ..." >&2
  MEASURE_PART=$1 timeout -k 5 "$limit" sh "$source/cuda/measure.sh" >"$kept/$1.txt" 2>&1
  status=$?
  took=$(($(date +%s) - began))
  case $status in
  0) end="done in $took s" ;;
  77) end="SKIPPED: $(tail -n 1 "$kept/$1.txt")" ;;
  124 | 137) end="OUT OF TIME after $took s: what it had found until then counts" failed=1 ;;
  *) end="FAILED with status $status: $(grep -aE 'FAILED|:[FE]:|maxlogit: ' "$kept/$1.txt" | head -n 1 | grep . ||
      grep . "$kept/$1.txt" | tail -n 1)" failed=1 ;;
  esac
  echo "$end" >"$kept/$1.end"
  echo "measure.sh: $1: $end" >&2
  [ $status != 0 ] && [ $status != 77 ] && tail -n 60 "$kept/$1.txt" >&2
  hand_over
}

# Two files, whole at any instant.
hand_over() {
  [ -n "$to" ] || return 0
  {
    cat "$kept/doctor"
    for part in $parts; do
      [ ! -f "$kept/$part.txt" ] || printf '\n=== %s: %s\n' "$part" "$(cat "$kept/$part.end")"
      [ ! -f "$kept/$part.txt" ] || cat "$kept/$part.txt"
    done
  } >"$to/log.tmp"
  table >"$to/table.tmp"
  mv "$to/log.tmp" "$to/log.txt"
  mv "$to/table.tmp" "$to/table.txt"
}

# --- the table

# Rows of the bench, and beside them PyTorch's of the same stack and number of runs
stacks_table() {
  awk '
    FILENAME ~ /(eager|compiled|func).txt$/ {
      if (NF == 5 && $2 == "muon" && $5 + 0 > 0) { theirs[$1, $4, $3] = $5; if ($5 > best[$1, $4]) best[$1, $4] = $5 }
      next
    }
    function rate(x) { return x ? sprintf("%.1f", x) : "-" }
    $1 == "stack" && !head++ {
      printf "%-7s %-5s %5s %12s %9s %9s %6s %10s | PyTorch: eager %10s %10s   ratio to the best\n", "stack", "math",
        "runs", "run-steps/s", "TFLOP/s", "of limit", "waits", "host idle", "graph", "compiled"
    }
    $1 ~ /^(tiny|toy|small|medium|large)$/ && NF == 10 && $7 == "%" {
      b = best[$1, $3]
      printf "%-7s %-5s %5d %12s %9s %7s %% %6d %8s %% | %14s %10s %10s   %s\n", $1, $2, $3, $4, $5, $6, $8, $9,
        rate(theirs[$1, $3, "eager"]), rate(theirs[$1, $3, "graph"]), rate(theirs[$1, $3, "compiled"]),
        b ? sprintf("%.2f", $4 / b) : "not measured"
    }
    / more than the device has$/ { print }' "$@"
}

# What attention alone does, in PyTorch's as 1
attention_table() {
  awk '
    /^attention alone: .* tokens/ { there[$3, $5, $10, $11] = $13; back[$3, $5, $10, $11] = $15; next }
    $2 == "x" && $4 == "tokens," && $6 == "heads" {
      k = $1 SUBSEP $3 SUBSEP $8 SUBSEP $9 ":"
      if (there[k] > 0 && back[k] > 0)
        printf "attention alone, heads of %d, %s: forward %.2f, backward %.2f of the best of PyTorch\n", $8, $9,
          $10 / there[k], $13 / back[k]
    }' "$@"
}

table() {
  echo "maxlogit on a GPU, $(date -u +%Y-%m-%d): every figure by cuda/measure.sh on this machine"
  echo "$doctor" | sed -n 's/.*"\(version\|revision\|gpu\)": "\(.*\)".*/  \1: \2/p'
  cat "$kept"/*.txt 2>/dev/null | grep '^limits:' | head -n 1
  echo
  all=
  for part in eager compiled func tiny toy small medium large; do [ -f "$kept/$part.txt" ] && all="$all $kept/$part.txt"; done
  # shellcheck disable=SC2086 # a list of files
  [ -z "$all" ] || stacks_table $all
  for part in eager compiled func; do
    [ ! -f "$kept/$part.txt" ] || grep '^PyTorch \|^attention\|from maxlogit\| failed ' "$kept/$part.txt"
  done
  for part in tiny toy small medium large; do
    [ ! -f "$kept/$part.txt" ] || sed -n '/call by call/,$p' "$kept/$part.txt"
  done
  [ ! -f "$kept/costs.txt" ] || sed -n '/^costs\|^attention/,$p' "$kept/costs.txt"
  [ ! -f "$kept/costs.txt" ] || [ ! -f "$kept/eager.txt" ] || attention_table "$kept/eager.txt" "$kept/costs.txt"
  [ ! -f "$kept/sweep.txt" ] || awk '
    /^sweep / { rate[$2] = $(NF - 1); print ($2 == "cpu" ? "two CPU cores, " : "") $0 }
    END { if (rate["cuda"] && rate["cpu"]) printf "sweep: %.1f times two CPU cores\n", rate["cuda"] / rate["cpu"] }' \
    "$kept/sweep.txt"
  echo
  for part in $parts; do
    if [ -f "$kept/$part.end" ]; then echo "$part: $(cat "$kept/$part.end")"; else echo "$part: not run"; fi
    [ $part = check ] && [ -f "$kept/check.txt" ] && sed 's/^/  /' "$kept/check.txt"
  done
  return 0
}

# shellcheck disable=SC2086 # words
[ $# -gt 0 ] || set -- $parts
for part; do
  [ "$part" = table ] || try "$part"
done
hand_over
table | tee "$kept/table.txt"
exit $failed
