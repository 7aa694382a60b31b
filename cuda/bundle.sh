#!/bin/sh
# bundle.sh [FILE] - one archive with all that cuda/measure.sh needs on a machine that has a GPU's driver and little else:
# no network, no HDF5, OpenBLAS, GSL, jansson, no compiler. Called in a build folder that has maxlogit_cuda.so (make cuda).
#
#   cuda/bundle.sh                       writes maxlogit-gpu.tar.xz, below 60 MiB
#   there: tar xf maxlogit-gpu.tar.xz && maxlogit-gpu/start            all parts of measure.sh, or those that are named
#
# Programs are stripped; libraries that they need beside the C library are in lib/, whose README says which packages they
# are of and under which licences. cuBLAS (hundreds of MiB) is not: `start` looks for the one that PyTorch brings.
# PLUGIN=FILE: another plug-in than ./maxlogit_cuda.so.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-maxlogit-gpu.tar.xz} plugin=${PLUGIN:-maxlogit_cuda.so}
tests='tests/numerics/check_ops tests/run/check_gpu tests/run/check_batched_run tests/run/check_golden tests/run/check_trainer'
for file in maxlogit "$plugin" $tests; do
  [ -f "$file" ] || { echo "bundle.sh: $file is missing: make maxlogit cuda $tests" >&2; exit 2; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
top=$folder/maxlogit-gpu
mkdir -p "$top/lib" "$top/cuda"

put() { # FILE ...: at the same place, from here or from the sources
  for file; do
    mkdir -p "$top/$(dirname "$file")"
    if [ -e "$file" ]; then cp -RL "$file" "$top/$file"; else cp -RL "$source/$file" "$top/$file"; fi
  done
}
# shellcheck disable=SC2086 # lists of files
put maxlogit $tests tests/golden tests/gpu.sh tests/pytorch cuda/measure.sh experiments/01-four-presets/sweep.conf LICENSE
cp -L "$plugin" "$top/maxlogit_cuda.so"
sh "$source/cuda/kernels.sh" "$plugin" >"$top/cuda/kernels"
# shellcheck disable=SC2086 # a list of files
for file in maxlogit "$plugin" $tests; do objdump -T "$file"; done 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV |
  tail -n 1 | cut -d_ -f2 >"$top/lib/glibc"
for file in maxlogit $tests; do strip "$top/$file"; done
strip --strip-unneeded "$top/maxlogit_cuda.so"

# --- libraries: all but those of the C library, which every machine has in its own version

needed() { # FILE ...: paths of the libraries that they need, the dynamic linker's words
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so\.[0-9]+$'
}
cd "$top"
# shellcheck disable=SC2086 # lists of files
needed maxlogit maxlogit_cuda.so $tests >"$folder/libraries"
while read -r library; do
  cp -L "$library" lib/
  strip --strip-unneeded "lib/$(basename "$library")" 2>/dev/null || :
done <"$folder/libraries"

# Of Debian's copyright files, whatever form they have: names of licences.
licences() { # PACKAGE
  file=/usr/share/doc/$1/copyright
  [ -f "$file" ] || { echo "see the package"; return; }
  names=$(sed -n 's/^License: *//p' "$file" | sort -u | paste -sd ',' | sed 's/,/, /g')
  [ -n "$names" ] || names=$(grep -ohE 'GNU (Lesser |Library )?General Public Licen[sc]e|BSD|MIT|Apache|OpenLDAP|Public Domain' "$file" |
    sort -u | paste -sd ',' | sed 's/,/, /g')
  echo "${names:-see the package}"
}
{
  echo "Libraries that maxlogit's programs need, as Debian or Ubuntu built them; their sources are in its archive."
  while read -r library; do
    package=$(dpkg-query -S "$(readlink -f "$library")" 2>/dev/null | head -n 1 | cut -d: -f1)
    [ -n "$package" ] || package=$(dpkg-query -S "*/$(basename "$library")" 2>/dev/null | head -n 1 | cut -d: -f1)
    version=$(dpkg-query -W -f '${Version}' "${package:-none}" 2>/dev/null || :)
    echo "$(basename "$library"): ${package:-of no package} ${version:-}: $(licences "${package:-none}")"
  done <"$folder/libraries"
  echo "maxlogit_cuda.so: maxlogit (MIT), with NVIDIA's CUDA run-time library inside (CUDA Toolkit EULA, attachment A)"
} >lib/README

# Each program finds these libraries, and no other program does: Python has its own.
# shellcheck disable=SC2086 # a list of files
for file in maxlogit $tests; do
  up=$(dirname "$file" | sed 's|[^/.][^/]*|..|g')
  mv "$file" "$file.bin"
  cat >"$file" <<END
#!/bin/sh
here=\$(cd "\$(dirname "\$0")/$up" && pwd) || exit 1
LD_LIBRARY_PATH=\$here/lib\${CUBLAS_FOLDERS:-}\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "\$0.bin" "\$@"
END
  chmod +x "$file"
done

cat >start <<'END'
#!/bin/sh
# start [--to DIR] [PART ...] - cuda/measure.sh with the libraries that are here; see its first lines
here=$(cd "$(dirname "$0")" && pwd) || exit 1
MEASURE=${MEASURE:-$PWD/measure}
cd "$here" || exit 1
wanted=$(cat lib/glibc) here_is=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
if [ -n "$here_is" ] && [ "$(printf '%s\n' "$wanted" "$here_is" | sort -V | head -n 1)" != "$wanted" ]; then
  echo "start: this machine has glibc $here_is; the programs here need $wanted" >&2
  exit 2
fi
# cuBLAS is large, and not here: that of CUDA, or the one that PyTorch's packages have
for library in /usr/local/cuda/lib64 $(${PYTHON:-python3} -c '
import glob, sysconfig
for name in {sysconfig.get_path(p) for p in ("purelib", "platlib")}:
    for file in glob.glob(name + "/nvidia/*/lib/libcublas.so.1*"): print(file.rsplit("/", 1)[0])' 2>/dev/null); do
  [ -d "$library" ] && cublas=${cublas:-}:$library
done
CUBLAS_FOLDERS=${cublas:-} MAXLOGIT_CUDA=$here/maxlogit_cuda.so MAXLOGIT_BUNDLE=1
export CUBLAS_FOLDERS MAXLOGIT_CUDA MAXLOGIT_BUNDLE MEASURE
exec sh cuda/measure.sh "$@"
END
chmod +x start
cd "$OLDPWD"
tar -C "$folder" -cf - maxlogit-gpu | xz -T0 "${XZ_LEVEL:--6}" >"$out"
size=$(wc -c <"$out")
echo "$out: $((size >> 20)) MiB, $(wc -l <"$folder/libraries") libraries" >&2
[ "$size" -lt $((60 << 20)) ] || { echo "bundle.sh: more than 60 MiB" >&2; exit 1; }
