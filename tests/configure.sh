#!/bin/sh
# configure's macro that finds a library (m4/library.m4), on a library that is made here: wherever it lies it is found.
# LAPACK of 64-bit integers is refused.
src=$(cd "${top_srcdir:-.}" && pwd)
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit 99
autoconf --version >/dev/null 2>&1 || { echo "configure.sh: skipped, no autoconf here"; exit 77; }
cd "$dir" || exit 99
unset CMAKE_PREFIX_PATH CONDA_PREFIX PKG_CONFIG_PATH TOY_LIBS TOY_CFLAGS CPATH LIBRARY_PATH
CC=${CC:-cc}

# toy PREFIX FOLDER NAME...: libNAME.so with one function, toy_NAME; the last one's header
toy() {
  prefix=$1 folder=$2
  shift 2
  mkdir -p "$prefix/include" "$prefix/$folder"
  for name; do
    echo "int toy_$name(void); int toy_$name(void) { return 0; }" >toy.c
    $CC -shared -fPIC toy.c -o "$prefix/$folder/lib$name.so" || exit 99
  done
  echo "int toy_$name(void);" >"$prefix/include/toy.h"
}
toy one lib toy_low toy
toy two lib64 toy
toy three hidden toy_low toy
mkdir pc
printf 'Name: toy\nDescription: -\nVersion: 7\nLibs: -L%s -ltoy_low\nCflags: -I%s\n' \
  "$dir/three/hidden" "$dir/three/include" >pc/toy.pc

cat >configure.ac <<END
m4_include([$src/m4/library.m4])
AC_INIT([toy], [1])
AC_PROG_CC
PKG_CONFIG=pkg-config
LIBRARY([TOY], [toy], [no-such toy], [toy], [toy-dev], [#include <toy.h>], [return toy_toy();],
  [test -d "\$HIDDEN" && echo "a folder of its own|-I\$HIDDEN/../include|-L\$HIDDEN"])
AS_ECHO(["version: \$TOY_version, libraries: \$TOY_LIBS, missing:\$missing, module:\$PC_MODULES, more: \$PC_LIBS"])
END
autoconf >errors 2>&1 || { cat errors; exit 99; }

status=0
# finds WANTED [NAME=VALUE | --OPTION ...]: a line that configure prints has WANTED
finds() {
  wanted=$1
  shift
  ./configure -q "$@" >out 2>&1
  grep -q -e "$wanted" out || { echo "configure $* does not print $wanted:"; cat out; status=1; }
}
finds 'missing: toy-dev, module:, more: $'
for how in --with-toy CMAKE_PREFIX_PATH CONDA_PREFIX; do
  finds "version: in $dir/one, libraries: -ltoy -L$dir/one/lib -Wl,-rpath,$dir/one/lib, missing:, module:, more: -l" \
    "$how=$dir/one"
  finds "version: in $dir/two, .*-L$dir/two/lib64 " "$how=$dir/two"
done
finds "version: in $dir/two" CMAKE_PREFIX_PATH="/none:$dir/two" CONDA_PREFIX="$dir/one"
finds "version: in $dir/one" --with-toy="$dir/one" CMAKE_PREFIX_PATH="$dir/two"
finds 'version: in a folder of its own, ' HIDDEN="$dir/three/hidden" CONDA_PREFIX="$dir/one"
finds "version: in TOY_LIBS, libraries: -L$dir/one/lib -ltoy," TOY_LIBS="-L$dir/one/lib -ltoy" \
  TOY_CFLAGS="-I$dir/one/include"
finds "with-toy=$dir/pc: no library there" --with-toy="$dir/pc"
finds 'it is needed' --without-toy
if pkg-config --version >/dev/null 2>&1; then # its flags lack a library
  finds "version: 7, libraries: -ltoy .*-ltoy_low.*, missing:, module: toy, more: -ltoy \$" PKG_CONFIG_PATH="$dir/pc"
else
  echo "configure.sh: no pkg-config here"
fi

# LAPACK of 64-bit integers, behind a header of 32-bit ones, and OpenBLAS that states its own
mkdir blas
cat >blas/cblas.h <<'END'
static char *openblas_get_config(void) { return CONFIG; }
END
cat >blas/lapacke.h <<'END'
#define lapack_int int
#define LAPACK_ROW_MAJOR 101
static int LAPACKE_dgetrf(int order, int m, int n, double *a, int lda, lapack_int *pivot) {
  for (int i = 0; i < 2; i++) ((INTEGER *)pivot)[i] = 2;
  return (order + m + n + lda) * (int)*a;
}
END
cat >configure.ac <<END
m4_include([$src/m4/library.m4])
AC_INIT([toy], [1])
AC_PROG_CC
INTEGERS
END
autoconf >errors 2>&1 || { cat errors; exit 99; }
try() {
  wanted=$1
  shift
  ./configure BLAS_CFLAGS="-I$dir/blas $*" >out 2>&1
  grep -q "32-bit integers... $wanted" out || { echo "integers, $*: not $wanted"; cat out; status=1; }
}
try yes '-DINTEGER=int -DCONFIG="\"OpenBLAS\""'
try 'configure: error: no.*ILP64' '-DINTEGER=long -DCONFIG="\"OpenBLAS\""'
try 'configure: error: no.*ILP64' '-DINTEGER=int -DCONFIG="\"OpenBLAS_USE64BITINT\""'
exit $status
