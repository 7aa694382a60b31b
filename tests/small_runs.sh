# small_runs.sh - sourced by tests that are scripts: a folder, small runs in it, and a Python that has what they ask
program=$(realpath "${MAXLOGIT:-./maxlogit}")
dir=$(mktemp -d "${TMPDIR:-/tmp}/maxlogit-test.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
failures=0

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
finish() { test "$failures" -eq 0 && echo "ok"; exit $((failures > 0)); }

# python_with MODULE, ...: a Python that has them
python_with() { for python in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3; do "$python" -c "import $1" 2> /dev/null && echo "$python" && return; done; }

# imports: whether `maxlogit import` has a Python with numpy
imports() { ! "$program" import /dev/null 2>&1 | grep -q 'import needs' || { echo "no Python with numpy: nothing was imported"; false; }; }

# has_terminal: whether `script` can run a program on a terminal
has_terminal() { script -qec true /dev/null < /dev/null > /dev/null 2>&1 || { echo "no script, or no /dev/pts: nothing was shown on a terminal"; false; }; }

# small_run NAME key=value ...
small_run() {
  name=$1; shift
  "$program" run --quiet model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4 \
    train.steps=40 train.warmup=5 train.val_every=10 record.spectra_every=10 device.threads=1 \
    record.path="$dir/$name.h5" "$@" > "$dir/$name.log" 2>&1 || { cat "$dir/$name.log"; fail "run $name"; finish; }
}

# is_json FILE WHAT: in which no number is NaN
is_json() {
  if command -v python3 > /dev/null; then python3 -c 'import json, sys
def strict(x): raise ValueError(x)
json.load(open(sys.argv[1]), parse_constant=strict)' "$1" || fail "$2 is not JSON"
  elif command -v jq > /dev/null; then jq . "$1" > /dev/null || fail "$2 is not JSON"
  else echo "no python3 and no jq: $2 not parsed"; fi
}
