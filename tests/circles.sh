#!/bin/sh
# shellcheck disable=SC2046 # no name here has a blank
# Files whose functions call each other, in however long a way, are one file that nobody can read alone: there are
# none. A table of rows (registry.c) names data, which is no call.
for tool in nm tsort; do command -v $tool >/dev/null || { echo "circles.sh: skipped, no $tool here"; exit 77; }; done
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
# today's objects, once each: a build folder may have older ones, and others of the double library
find src -name '*.o' ! -name '*-*.o' | while read -r o; do [ ! -e "${top_srcdir:-.}/${o%.o}.c" ] || echo "$o"; done >"$folder/objects"
nm -A -g $(cat "$folder/objects") 2>/dev/null | awk '
  NF < 2 { next }
  { file = $1; sub(/:[0-9a-f]*$/, "", file); sub(/\.o$/, ".c", file); name = $NF; kind = $(NF - 1) }
  kind == "T" { home[name] = file; functions++ }
  kind == "U" { from[++n] = file; to[n] = name }
  END {
    if (functions < 300) exit 1
    for (i = 1; i <= n; i++) if (to[i] in home && home[to[i]] != from[i]) print from[i], home[to[i]]
  }' >"$folder/calls" || { echo "circles.sh: fewer functions than there must be"; exit 1; }
tsort "$folder/calls" >"$folder/order" 2>"$folder/circles" && exit 0
echo "files that call each other:"
awk '/contains a loop/ { if (way) print way; way = ""; next } { way = way " " $2 } END { print way }' "$folder/circles" | sort -u
exit 1
