#!/bin/sh
# Logs of strangers that ask for time or memory beyond their size, steer a terminal, or are no log at all: each ends in
# seconds with a status and one message.
srcdir=${srcdir:-$(dirname "$0")/../..}
. "$srcdir/tests/small_runs.sh"
python=$(python_with "sys, numpy; assert sys.version_info >= (3, 9)") && [ "$python" ] || { echo "logs.sh: skipped, no Python with numpy here"; exit 77; }
if [ -n "$(sed -n 's/^SANITIZER_FLAGS = //p' Makefile)" ]; then
  echo "logs.sh: skipped, Python does not load a library with sanitizers"
  exit 77
fi
sources=$(realpath "${top_srcdir:-$srcdir}")
PYTHON=$python
export PYTHON
cd "$dir" || exit 99
mkdir logs out
"$python" "$sources/tests/hostile/logs.py" logs || { fail "no logs"; finish; }

# import FILE ...: its status, within seconds of a processor and 3 GB
import() {
  (ulimit -v 3000000; ulimit -t 30; exec timeout 300 "$program" import "$@" -o out/ --overwrite) > printed 2> err < /dev/null
  status=$?
  case $status in 0 | 1 | 2) ;; *) fail "import $*: status $status" ;; esac
  grep -q Traceback err && fail "import $*: $(tail -n 1 err)"
  LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" printed err && fail "import $*: control characters: $(cat -v printed err)"
  LC_ALL=C grep -q "$(printf '\342\200[\252-\256]')" printed err && fail "import $*: bidirectional controls"
  [ $status = 0 ] || [ "$(wc -l < err)" = 1 ] || fail "import $*: not one message: $(cat err)"
}
for log in logs/*; do
  import "$log"
  grep -qi 'allocate\|no memory' err && fail "$log: it was stopped for want of memory only: $(cat err)"
done
# links inside a folder that lead out of it; others, and one that the user names, are followed
for folder in links/*; do
  import "$folder"
  [ $status = 2 ] && grep -q "$folder/.*: a symbolic link leads out of $folder" err || fail "$folder: status $status, $(cat err)"
done
for folder in inside named secrets/checkpoint; do
  import "$folder"
  [ $status = 0 ] || fail "$folder: status $status, $(cat err)"
done
import logs/ok.jsonl
[ $status = 0 ] || fail "an honest log: $(cat err)"
finish
