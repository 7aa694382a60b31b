#!/bin/sh
# shellcheck disable=SC2086 # no name here has a blank
# Exported names that nothing outside of their own file uses, tests and notebooks among it: they should be static, or go.
nm --version >/dev/null 2>&1 || { echo "exports.sh: skipped, no nm here"; exit 77; }
# objects of today: a build folder may have older ones
objects=$(find src/app tests notebooks-c -name '*.o' ! -name '*_d-*' | while read -r o; do
  of=${o%.o}.c
  if [ -e "${top_srcdir:-.}/$of" ] || [ -e "${top_srcdir:-.}/${of%/*}/${of##*-}" ]; then echo "$o"; fi
done)
set -- libmaxlogit.a libanalysis.a libledger.a $objects
[ "$(find tests -name 'check_*.o' | wc -l)" -gt 30 ] || { echo "exports.sh: skipped, the tests have not been built"; exit 77; }
dead=$(nm -A -g "$@" 2>/dev/null | awk '
  NF < 2 { next }
  { file = $1; sub(/:[0-9a-f]*$/, "", file); name = $NF; kind = $(NF - 1) }
  kind == "U" { used[name] = 1; next }
  name ~ /^__odr_asan/ { next }
  kind ~ /[TDRB]/ && file !~ /(^|\/)(tests|notebooks-c)\// { defined[name] = file }
  END { for (name in defined) if (!used[name] && name != "main") print defined[name] ": " name }' | sort)
[ -z "$dead" ] && exit 0
echo "exported, and nobody asks for it:"
echo "$dead"
exit 1
