#!/bin/sh
# The Python package over the shared library of this build: python.sh recorder and reader, with Python and numpy alone;
# torch.sh (this file by another name) PyTorch, import.sh the importer. PYTHON says which Python; skipped where it has not what is needed.
cd "${top_builddir:-.}" || exit 99
src=$(cd "${top_srcdir:-.}" && pwd)
name=$(basename "$0" .sh)
case $name in torch) needs='numpy, torch; assert tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 5)' tests='test_[!air]*.py' ;; import) needs=numpy tests=test_import.py ;; *) needs=numpy tests='test_record.py test_arguments.py test_docs.py' ;; esac
if [ -n "$(sed -n 's/^SANITIZER_FLAGS = //p' Makefile)" ]; then
  echo "$name.sh: skipped, Python does not load a library with sanitizers"
  exit 77
fi
. "$src/tests/small_runs.sh"
found=$(python_with "sys, $needs; assert sys.version_info >= (3, 9)")
if [ -z "$found" ]; then
  echo "$name.sh: skipped, no Python (3.9 or later) with ($needs) here; PYTHON=... names one"
  exit 77
fi
MAXLOGIT_LIBRARY=$PWD/libmaxlogit.so.1 MAXLOGIT_PROGRAM=$PWD/maxlogit PYTHONPATH=$src/python/src PYTHONDONTWRITEBYTECODE=1
export MAXLOGIT_LIBRARY MAXLOGIT_PROGRAM PYTHONPATH PYTHONDONTWRITEBYTECODE
status=0
set -f # a pattern is theirs
for test in $tests; do # in one process, whose imports take seconds
  "$found" -m unittest discover -s "$src/python/tests" -t "$src/python/tests" -p "$test" || status=1
done
# The wheel has library and program: without the sources and MAXLOGIT_LIBRARY, the package uses its own.
can_install='
import setuptools
try: import setuptools.command.bdist_wheel
except ImportError: import wheel.bdist_wheel
import pip'
if [ "$name" = python ] && "$found" -c "$can_install" 2>/dev/null; then
  wheel=$(MAKEFLAGS= PYTHON=$found ${MAKE:-make} -s --no-print-directory wheel WHEEL_TO="$dir" 2>"$dir/errors") && [ -f "$wheel" ] &&
    "$found" -m pip install -q --no-index --no-deps --target "$dir/there" "$wheel" 2>>"$dir/errors" || cat "$dir/errors"
  (cd "$dir" && unset MAXLOGIT_LIBRARY && PYTHONPATH=$dir/there "$found" -c '
import maxlogit, os
assert os.path.samefile(maxlogit.library_path(), "there/maxlogit/libmaxlogit.so.1"), maxlogit.library_path()
with maxlogit.Recorder("a.h5") as recorder: recorder.log(0, loss=1.5)
assert maxlogit.open("a.h5")["loss"].values.tolist() == [1.5]' &&
    printf 'step,loss\n0,2.5\n' >b.csv && PYTHONPATH=$dir/there there/bin/maxlogit import b.csv >/dev/null &&
    PYTHONPATH=$dir/there there/bin/maxlogit export b.h5 loss | grep -qx '0 2.5') || { echo "the installed package does not work"; status=1; }
elif [ "$name" = python ]; then
  echo "no pip with setuptools here: the package was not installed"
fi
exit $status
