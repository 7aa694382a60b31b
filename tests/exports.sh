#!/bin/sh
# shellcheck disable=SC2086 # no name here has a blank
# Exported names that nothing outside of their own file uses, tests and notebooks among it: they should be static, or go.
# Tests are asked as they are written: not all are built.
nm --version >/dev/null 2>&1 || { echo "exports.sh: skipped, no nm here"; exit 77; }
# objects of today: a build folder may have older ones
objects=$(find src/app -name '*.o' | while read -r o; do
  of=${o%.o}.c
  if [ -e "${top_srcdir:-.}/$of" ] || [ -e "${top_srcdir:-.}/${of%/*}/${of##*-}" ]; then echo "$o"; fi
done)
set -- libmaxlogit.a libanalysis.a libledger.a $objects
words=$(mktemp) || exit 99
trap 'rm -f "$words"' EXIT
(cd "${top_srcdir:-.}" && find tests notebooks-c -name '*.[ch]' -exec cat {} +) | tr -cs 'A-Za-z0-9_' '\n' | sort -u >"$words"
[ "$(wc -l <"$words")" -gt 1000 ] || { echo "exports.sh: the tests' sources are missing"; exit 99; }
dead=$(nm -A -g "$@" 2>/dev/null | awk '
  FNR == NR { used[$1] = 1; next }
  NF < 2 { next }
  { file = $1; sub(/:[0-9a-f]*$/, "", file); name = $NF; kind = $(NF - 1) }
  kind == "U" { used[name] = 1; next }
  name ~ /^__odr_asan/ { next }
  kind ~ /[TDRB]/ { defined[name] = file }
  END { for (name in defined) if (!used[name] && name != "main") print defined[name] ": " name }' "$words" - | sort)
[ -z "$dead" ] && exit 0
echo "exported, and nobody asks for it:"
echo "$dead"
exit 1
