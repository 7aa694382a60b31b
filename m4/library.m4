# LIBRARY(NAME, OPTION, MODULES, NAMES, PACKAGE, HEADERS, BODY, SOURCES): a library that links BODY.
#
# Sets NAME_CFLAGS, NAME_LIBS and NAME_version, or else adds PACKAGE to $missing. The order: NAME_LIBS of the user,
# --with-OPTION=DIR, CMAKE_PREFIX_PATH, pkg-config's MODULES, the compiler's own folders, SOURCES (shell that prints
# lines "PLACE|CFLAGS|LIBS"), CONDA_PREFIX. NAMES: alternatives of -l, joined by commas where one needs several; flags that
# are complete need none. PC_MODULES and PC_LIBS get the flags for programs that link with this one.
AC_DEFUN([LIBRARY_PREFIX], [
library_prefix() { # PLACE|CFLAGS|LIBS of folders
  for library_dir; do
    library_lib=$library_dir/lib
    test -d "$library_lib" || library_lib=$library_dir/lib64
    test -d "$library_dir/include" && echo "$library_dir|-I$library_dir/include|-L$library_lib -Wl,-rpath,$library_lib"
  done
}
])
AC_DEFUN([LIBRARY], [AC_REQUIRE([LIBRARY_PREFIX])dnl
AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=DIR], [the library in DIR/lib, its headers in DIR/include])], [],
  [with_$2=])
AC_ARG_VAR([$1_CFLAGS], [compiler flags of $2])
AC_ARG_VAR([$1_LIBS], [linker flags of $2])
AC_MSG_CHECKING([for $2])
AS_CASE([$with_$2], [no], [AC_MSG_ERROR([--without-$2: it is needed])], [yes], [with_$2=])
{ AS_IF([test -n "$$1_LIBS"], [echo "$1_LIBS|$$1_CFLAGS|$$1_LIBS"],
    [test -n "$with_$2"], [library_prefix "$with_$2"],
    [library_prefix `echo "$CMAKE_PREFIX_PATH" | tr ':;' '  '`
     for library_module in $3; do
       ${PKG_CONFIG:-false} --exists "$library_module" 2>/dev/null &&
         echo "$library_module|`$PKG_CONFIG --cflags $library_module`|`$PKG_CONFIG --libs $library_module`|module"
     done
     echo "the compiler's folders||"
     $8
     library_prefix $CONDA_PREFIX])
} >library.sources
library_found=
library_saved="$CPPFLAGS|$LIBS"
while IFS='|' read -r library_place library_cflags library_libs library_kind; do
  for library_names in "" $4; do
    library_own=
    AS_IF([test -n "$library_names"], [library_own="-l`echo "$library_names" | sed 's/,/ -l/g'` "])
    CPPFLAGS="$library_cflags ${library_saved%%|*}"
    LIBS="$library_own$library_libs ${library_saved#*|}"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([$6], [$7])], [library_found=yes; break 2], [], [])
  done
done <library.sources
CPPFLAGS=${library_saved%%|*}
LIBS=${library_saved#*|}
rm -f library.sources
AS_IF([test -n "$library_found"], [
  $1_CFLAGS=$library_cflags
  $1_LIBS=$library_own$library_libs
  $1_version="in $library_place"
  AS_IF([test -n "$library_kind"], [
    $1_version=`$PKG_CONFIG --modversion $library_place`
    PC_MODULES="$PC_MODULES $library_place"
    PC_LIBS="$PC_LIBS$library_own"], [PC_LIBS="$PC_LIBS$$1_LIBS "])
  AC_MSG_RESULT([$$1_version ($$1_LIBS)])],
  [AC_MSG_RESULT([no])
   AS_IF([test -n "$with_$2"], [AC_MSG_ERROR([--with-$2=$with_$2: no library there that links, see config.log])])
   missing="$missing $5"])
])

# INTEGERS: the program's are int. Libraries of 64-bit ones (ILP64) have pivots of 64 bits, whatever their headers say.
AC_DEFUN([INTEGERS], [
AC_MSG_CHECKING([whether OpenBLAS and LAPACKE have 32-bit integers])
saved="$CPPFLAGS|$LIBS"
CPPFLAGS="$BLAS_CFLAGS $LAPACKE_CFLAGS $CPPFLAGS"
LIBS="$LAPACKE_LIBS $BLAS_LIBS $LIBS"
AC_RUN_IFELSE([AC_LANG_PROGRAM([#include <cblas.h>
#include <lapacke.h>
#include <string.h>], [double a@<:@@:>@ = {0, 1, 1, 0};
  int pivot@<:@@:>@ = {-1, -1, -1, -1};
  LAPACKE_dgetrf(LAPACK_ROW_MAJOR, 2, 2, a, 2, (lapack_int *)pivot);
  return strstr(openblas_get_config(), "USE64BITINT") != 0 || pivot@<:@1@:>@ != 2 || pivot@<:@2@:>@ != -1;])],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_ERROR([no, or they do not run (see config.log). The program needs the usual builds, not ILP64 ones:
    --with-openblas=DIR, --with-lapacke=DIR])],
  [AC_MSG_RESULT([not tried])])
CPPFLAGS=${saved%%|*}
LIBS=${saved#*|}
])
