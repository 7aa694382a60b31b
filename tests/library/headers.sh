#!/bin/sh
# Each public header compiles alone, as C and as C++; the shared library has the functions that they declare, with their
# version, and no others; the list of them is the one that was released.
cd "${top_builddir:-.}" || exit 99
src=${top_srcdir:-.}
status=0
complain() { echo "$*"; status=1; }
to=$(mktemp -d) || exit 99
trap 'rm -rf "$to"' EXIT
headers=$(cd "$src/src/library" && ls maxlogit/*.h)
for header in $headers; do
  echo "#include <$header>" >"$to/one.c"
  for standard in c99 c11; do
    ${CC:-cc} -std=$standard -pedantic -Wall -Wextra -Werror -I"$src/src/library" -fsyntax-only "$to/one.c" ||
      complain "$header does not compile alone as $standard"
  done
  if c++ --version >/dev/null 2>&1; then
    c++ -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -I"$src/src/library" -fsyntax-only "$to/one.c" ||
      complain "$header does not compile alone as C++"
  fi
done
sed -nE 's/.*[* ](maxlogit_[a-z_0-9]+)\(.*/\1/p' "$src"/src/library/maxlogit/*.h | sort -u >"$to/declared"
nm -D --defined-only libmaxlogit.so.1 | sed -nE 's/.* [TDRB] ([^@]*)@@(.*)/\1 \2/p' | sort >"$to/there"
sed 's/$/ MAXLOGIT_1/' "$to/declared" | diff - "$to/there" || complain "declared in the headers (<), in libmaxlogit.so.1 (>)"
# A function leaves this list, or changes what it takes, only with a new library_abi.
diff "$src/tests/library/abi.txt" "$to/declared" || complain "tests/library/abi.txt (<) is not what is declared (>)"
readelf -d libmaxlogit.so.1 | grep -q 'SONAME.*libmaxlogit.so.1' || complain "no soname"
exit $status
