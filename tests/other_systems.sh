#!/bin/sh
# Every source file compiles for Linux with musl and for macOS on ARM, as far as a compiler with their headers can tell:
# zig cc (PyPI: ziglang; ./bootstrap browser installs one). Nothing is linked or run. Headers of libraries are this machine's.
cd "${top_builddir:-.}" || exit 99
src=${top_srcdir:-.}
for zig in ${ZIG:+"$ZIG"} "$src/.browser/bin/python3 -m ziglang" "python3 -m ziglang" zig; do
  $zig version >/dev/null 2>&1 && break
  zig=
done
[ -n "$zig" ] || { echo "other_systems.sh: skipped, no zig here (./bootstrap browser gets one)"; exit 77; }
case $zig in *" -m ziglang") zig=$(${zig%% *} -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__) + "/zig")') ;; esac
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit 99

# the headers of libraries, without those of this machine's C library; what they state of Linux is left out
flags=$(sed -n 's/^\(HDF5\|BLAS\|LAPACKE\|XXHASH\|GSL\|JANSSON\|MICROHTTPD\)_CFLAGS = //p' Makefile | tr '\n' ' ')
find "$src/src" "$src/experiments" -name '*.[ch]' -exec grep -hE '^#include <(hdf5|cblas|lapacke|xxhash|gsl/.*|jansson|microhttpd)\.h>' {} + |
  sort -u >"$dir/all.c"
mkdir -p "$dir/libraries/gsl" "$dir/macos" "$dir/musl"
# shellcheck disable=SC2086 # lists of words
${CC:-cc} $flags -M "$dir/all.c" >"$dir/list" 2>"$dir/log" || { echo "other_systems.sh: skipped, headers are missing: $(head -n 1 "$dir/log")"; exit 77; }
tr ' \\' '\n\n' <"$dir/list" | grep -E '/(H5[^/]*|hdf5|cblas|openblas_config|lapack[^/]*|xx[^/]*|gsl/[^/]*|jansson[^/]*|microhttpd)\.h$' |
  while read -r file; do case $file in */gsl/*) cp "$file" "$dir/libraries/gsl" ;; *) cp "$file" "$dir/libraries" ;; esac; done
sed -i '/define OPENBLAS_OS_LINUX/d' "$dir/libraries/openblas_config.h"
sed -i '/define H5_HAVE_FEATURES_H/d' "$dir/libraries"/H5pubconf*.h
cp config.h "$dir/musl" && sed '/HAVE_X86_LEVELS/d' config.h >"$dir/macos/config.h"

cat >"$dir/try" <<'END'
#!/bin/sh
# try ZIG TARGET OPTIONS... FOLDER FILE
zig=$1 target=$2 flags=$3 folder=$4 file=$5
object=$folder/$(echo "$file" | tr -c 'a-z0-9_\n' _).o
# shellcheck disable=SC2086
"$zig" cc -target "$target" $flags -I"$folder" -c -o "$object" "$file" >"$object.log" 2>&1 || { echo "$target: $file"; cat "$object.log"; rm -f "$object.log" "$object"; exit 1; }
END
options="-std=gnu11 -fno-sanitize=all -Wall -Wextra -Wshadow -Werror -Wno-missing-field-initializers -Wno-format-zero-length
  -D_GNU_SOURCE -DHAVE_CONFIG_H -DLEVEL=base -DPKGDATADIR=\"\" -DPKGLIBDIR=\"\" -DLIB=\"\" -I$src/src -I$src/src/library -Isrc -isystem $dir/libraries"
status=0
for as in musl:x86_64-linux-musl macos:aarch64-macos; do
  # not those that need the headers of MPI
  find "$src/src" "$src/experiments" -name '*.c' ! -exec grep -qE '^#include <(mpi|smpi/.*)\.h>' {} \; -print | sort >"$dir/files"
  xargs -d '\n' -P 2 -n 1 sh "$dir/try" "$zig" "${as#*:}" "$options" "$dir/${as%%:*}" <"$dir/files" >"$dir/out" 2>&1 || status=1
  bad=$(grep -c "^${as#*:}: " "$dir/out")
  cat "$dir/out"
  echo "${as#*:}: $(($(wc -l <"$dir/files") - bad)) of $(wc -l <"$dir/files") files compile"
done

# the rule of the shared library, with all objects of the library as they are on macOS
objects=$(ls "$dir"/macos/*.o | grep -vE 'src_(app|ledger|play|comm_mpi)')
rule=$(sed -n "s/.*SYMBOL_PREFIX=_ SHARED_LDFLAGS='\\(.*\\)'.*/\\1/p" "$src/configure.ac" | sed 's/$(shared_library)/libmaxlogit.so.1/')
# shellcheck disable=SC2086
"$zig" cc -target aarch64-macos -shared -o "$dir/libmaxlogit.so.1" $rule -Wl,-u,_maxlogit_record -Wl,-undefined,dynamic_lookup $objects ||
  { echo "macos: the shared library is not linked"; status=1; }
exit $status
