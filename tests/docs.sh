#!/bin/sh
# README and manual: every command runs and prints what is documented, README and CONTRIBUTING stay short, every plug-in
# has a section, links lead somewhere. MAXLOGIT_TEST_LONG=1 also compares README's table of the demonstration.
# DOCS_RENEW=1 writes the actual output into the files. tests/docs.py explains the marks of blocks.
command -v python3 >/dev/null 2>&1 || { echo "python3 is not installed"; exit 77; }
src=$(cd "${top_srcdir:-.}" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
export top_srcdir="$src" top_builddir="$build"
. "${top_srcdir:-.}/tests/small_runs.sh"
cd "$src" || exit 99

# shorter FILE LINES
shorter() { [ "$(wc -l <"$1")" -le "$2" ] || fail "$1 has more than $2 lines"; }
shorter README.md 200
shorter CONTRIBUTING.md 80

python3 doc/html.py --sources "$build/maxlogit" "$src" "$dir/html" || fail "the generated parts of the manual"
for python in ${PYTHON:-python3} python3 /usr/bin/python3; do
  "$python" -c 'import sphinx, myst_parser' 2>/dev/null || continue
  # shellcheck disable=SC2015 # fail never fails
  "$python" doc/html.py "$build/maxlogit" "$src" "$dir/html" >"$dir/log" 2>&1 && [ -s "$dir/html/searchindex.js" ] &&
    ! grep -q WARNING "$dir/log" || fail "make manual: $(cat "$dir/log")"
  break
done
[ -e "$dir/html" ] || echo "python3-sphinx and python3-myst-parser are not installed: the manual is not rendered"

for f in README.md CONTRIBUTING.md CHANGELOG.md python/README.md doc/*.md; do
  grep -o '](\([^):]*\))' "$f" | sed 's/^](//; s/)$//; s/#.*//' | while read -r to; do
    [ -z "$to" ] || [ -e "$(dirname "$f")/$to" ] || echo "$f: no $to"
  done
done >"$dir/links"
[ ! -s "$dir/links" ] || fail "links: $(cat "$dir/links")"
for f in doc/*.md; do
  name=$(basename "$f" .md)
  [ "$name" = index ] || grep -q "^$name\$" doc/index.md || fail "doc/index.md lacks $name"
done

# the examples of plug-ins compile; tests/add_plugin.sh also builds and runs them
for f in $(sed -n 's,^<!-- \(src/[a-z_/]*\.c\) -->$,\1,p' doc/developer.md); do
  awk -v file="$f" 'index($0, "<!-- " file " -->") { found = 1 } /^```/ && inside { exit }
    inside { print } /^```c/ && found { inside = 1 }' doc/developer.md >"$dir/example.c"
  ${CC:-cc} -std=gnu11 -Wall -Werror -fsyntax-only -I"$build" -Isrc -Isrc/library "$dir/example.c" || fail "the example $f"
done

# in two halves, for two cores
python3 tests/docs.py doc/recipes.md >"$dir/recipes" 2>&1 &
set -- README.md CONTRIBUTING.md python/README.md
for f in doc/*.md; do [ "$f" = doc/recipes.md ] || set -- "$@" "$f"; done
python3 tests/docs.py "$@" || fail "commands"
wait $! || fail "commands"
cat "$dir/recipes"

if [ -n "$MAXLOGIT_TEST_LONG" ] && command -v bible >/dev/null 2>&1; then
  bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* //' >"$dir/kjv.txt"
  "$build/maxlogit" sweep experiments/01-four-presets/sweep.conf data=bytes data.path="$dir/kjv.txt" sweep.dir="$dir/demo" -q \
    >/dev/null && "$build/maxlogit" show --group "$dir/demo" >"$dir/table"
  awk '/^<!-- demo -->/ { wait = 1; next } wait && /^```/ { if (inside) exit; inside = 1; next } inside' README.md |
    cmp - "$dir/table" || fail "the demonstration prints another table: $(cat "$dir/table")"
else
  echo "README's table of the demonstration: compared with MAXLOGIT_TEST_LONG=1 where bible-kjv is installed"
fi
finish
