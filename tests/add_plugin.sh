#!/bin/bash
# README's example of a new optimiser: one file and one row in a copy of the sources. It must be listed,
# explained, trained with, and resumable.
set -e
src=${top_srcdir:-.}
command -v automake >/dev/null 2>&1 || { echo "no automake here"; exit 77; }
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
file=src/training/optimizers/lion.c
list=src/training/optimizers/list.am

for part in $(cd "$src" && ls); do
  case $part in
    src | plots | tests | doc | experiments | notebooks-c | *.am | *.ac | *.in | README.md | LICENSE | CITATION.cff | bootstrap)
      cp -r "$src/$part" "$to/" ;;
  esac
done
chmod -R u+w "$to"
mkdir -p "$to/.ci" && cp "$src/.ci/run" "$to/.ci/"
find "$to" -name '*.o' -delete
cd "$to"
awk -v file="$file" 'index($0, "<!-- " file " -->") { found = 1 } /^```/ && inside { exit }
  inside { print } /^```c/ && found { inside = 1 }' README.md >"$file"
[ "$(wc -l <"$file")" -gt 20 ] || { echo "README.md has no example for $file"; exit 1; }
sed -i "s,^optimizers = .*,&\n\t$file \\\\," "$list"
rm -f src/plugins.def src/build.h
{ autoreconf -i && ./configure -q CFLAGS='-O0 -Wall -Werror' &&
  make -j2 src/plugins.def src/build.h && make -j2 maxlogit; } >log 2>&1 || { tail -n 30 log; exit 1; }
./maxlogit list optimizer | grep '^  lion '
./maxlogit help lion | grep 'lion.beta2 = 0.99'
run="optimizer=lion model.width=16 model.heads=2 train.batch=2 train.warmup=2"
# shellcheck disable=SC2086 # a list of settings
./maxlogit run -q $run train.steps=20 record.path=whole.h5
# shellcheck disable=SC2086
./maxlogit run -q $run train.steps=10 record.path=half.h5
./maxlogit resume -q half.h5 train.steps=20
./maxlogit export whole.h5 loss >whole.txt
./maxlogit export half.h5 loss >half.txt
cmp whole.txt half.txt
echo "one file and one row: $file, $list"
