#!/bin/sh
# shellcheck disable=SC2046,SC2086,SC2044 # no name here has a blank
# Floors: a file includes only from its own folder's floor or from one below; only storage/h5.c and h5_gate.c include hdf5.h, only comm/mpi.c
# mpi.h; the
# devices' folders in numerics know nothing of each other; what a folder keeps to itself stays there; every source is in
# a list.am, and what a list.am names exists.
cd "${top_srcdir:-.}" || exit 99
status=0
complain() { echo "$1"; status=1; }

awk '
  BEGIN { n = split("base comm numerics model training observe config storage library run play zoo analysis ledger app", name); for (i = 1; i <= n; i++) floor[name[i]] = i }
  FNR == 1 { split(FILENAME, part, "/"); mine = part[1] == "experiments" ? floor["ledger"] : part[2] in floor ? floor[part[2]] : n; files++ }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\""); path = quoted[2]
    split(path, to, "/"); includes++
    if (to[1] in floor && index(path, "/") && floor[to[1]] > mine) {
      print FILENAME ":" FNR ": " name[mine] " includes " path ", which is a floor above"; bad = 1
    }
  }
  /^[ \t]*#[ \t]*include[ \t]*<hdf5/ && FILENAME !~ /^src\/storage\/h5(_gate)?[.]c$/ {
    print FILENAME ":" FNR ": only src/storage/h5.c includes the HDF5 library"; bad = 1
  }
  /^[ \t]*#[ \t]*include[ \t]*[<"]mpi\.h/ && FILENAME != "src/comm/mpi.c" {
    print FILENAME ":" FNR ": only src/comm/mpi.c includes mpi.h"; bad = 1
  }
  END { print files " files, " includes " includes"; if (files < 20 || includes < 50) bad = 1; exit bad }
' $(find src experiments -name '*.[ch]' ! -name build.h) || status=1

for device in ref cpu; do
  other=$(grep -lE "numerics/(ref|cpu)/" src/numerics/$device/* | xargs grep -hoE '"numerics/(ref|cpu)/' | grep -v "/$device/")
  [ -z "$other" ] || complain "numerics/$device includes of another device"
done
outside=$(grep -rlE '"numerics/(ref|cpu)/' src --include='*.[ch]' | grep -vE '^src/numerics/(ref|cpu)/')
[ -z "$outside" ] || complain "a device's own header is included by $outside"

# the inside of a room, which its files share, is nobody else's
outside=$(grep -rnE '#include "[a-z]+/([a-z]+_)?(state|parts)\.h"' src experiments --include='*.[ch]' |
  awk -F'[:/"]' '{ for (i = 1; i <= NF; i++) if ($i ~ /#include /) if ($(i + 1) != $2) print }')
[ -z "$outside" ] || complain "the inside of a room is included from outside: $outside"

lists=$(find src tests plots experiments -name list.am)
named=$(sed 's/#.*//' $lists | grep -oE '(src|tests|plots|experiments)/[A-Za-z0-9_/.-]+\.(c|cpp|h|def|sh|gp)' | sort -u)
for source in $(find src experiments -name '*.[ch]' ! -name build.h); do
  echo "$named" | grep -qxF "$source" || complain "$source is in no list.am"
done
for source in $named; do
  case $source in src/plugins.def|src/build.h) continue ;; esac
  [ -f "$source" ] || complain "a list.am names $source, which does not exist"
done
exit $status
