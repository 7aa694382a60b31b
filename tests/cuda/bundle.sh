#!/bin/sh
# cuda/bundle.sh: what it makes starts in a root that has nothing but a C library, a shell and its tools: no library of ours,
# no network. The CPU stands in for the GPU. Skipped (77) where that root cannot be had (not root, no chroot).
# shellcheck source=cuda_host.sh
. "${top_srcdir:-.}/tests/cuda/cuda_host.sh"
[ "$(id -u)" = 0 ] || { echo "skipped: only root can change the root"; exit 77; }
for tool in chroot xz strip; do # dash's `command -v` looks at one alone
  command -v $tool >/dev/null || { echo "skipped: no $tool here (packages coreutils, xz-utils, binutils)"; exit 77; }
done
if [ -n "$(sed -n 's/^SANITIZER_FLAGS = //p' Makefile)" ]; then
  echo "skipped: a sanitizer's library would have to come along"
  exit 77
fi
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
root=$folder/root status=0
complain() { echo "$1"; status=1; }
PLUGIN=$MAXLOGIT_CUDA XZ_LEVEL=-0 sh "${top_srcdir:-.}/cuda/bundle.sh" "$folder/bundle.tar.xz" 2>"$folder/err" ||
  { cat "$folder/err"; exit 1; }
cat "$folder/err"

# the root: tools, and what the C library's package has
mkdir -p "$root/bin" "$root/tmp" "$root/dev" "$root/proc"
mknod -m 666 "$root/dev/null" c 1 3 || { echo "skipped: no /dev/null can be made"; exit 77; }
take() { # FILE ...: where they are
  for file; do
    mkdir -p "$root/$(dirname "$file")" && cp -L "$file" "$root/$file"
  done
}
for tool in sh sed grep awk date timeout nproc tee head tail cat mkdir mktemp rm mv dirname tr cut wc find sleep env ls sort seq comm; do
  path=$(readlink -f "$(command -v $tool)") || continue
  cp "$path" "$root/bin/$tool"
  # shellcheck disable=SC2046 # a list of files
  take $(ldd "$path" | grep -oE '/[^ ]+\.so[^ ]*')
done
# shellcheck disable=SC2046 # a list of files
take $(ldd ./maxlogit | grep -oE '/[^ ]+/(libc|libm|libresolv|libdl|librt|libpthread|ld-linux[^/ ]*)\.so\.[0-9]+')
tar -C "$root/tmp" -xf "$folder/bundle.tar.xz"
! find "$root" -name 'libhdf5*' ! -path '*/maxlogit-gpu/*' | grep . || complain "the root is not empty"

inside() { chroot "$root" /bin/env -i PATH=/bin LONGER=100 SECONDS_EACH=0.001 CHECK_SECONDS=1 "$@" >"$folder/out" 2>&1; }
inside /tmp/maxlogit-gpu/start --to /tmp/handed tiny || complain "start: $(cat "$folder/out")"
grep -q 'gpu .*this CPU in the place of a GPU' "$root/tmp/handed/log.txt" || complain "doctor is not told: $(cat "$folder/out")"
grep -qE '^tiny +fp32 +1 +[0-9.]+ ' "$root/tmp/handed/table.txt" || complain "nothing was measured: $(cat "$folder/out")"
# tests begin, too; what they do not finish is told
inside /bin/env MEASURE=/tmp/m /tmp/maxlogit-gpu/start --to /tmp/handed check && complain "nothing takes so short"
for name in identities device launch goldens trainer; do
  grep -qE "^check-gpu: $name .*(OUT OF TIME|passed) after" "$root/tmp/handed/log.txt" ||
    complain "$name does not begin: $(cat "$root/tmp/handed/log.txt")"
done
grep -qE '^check-gpu: [0-9]+ of [0-9]{2,} operations passed' "$root/tmp/handed/log.txt" || complain "no operation begins"
grep -q 'libhdf5.*: libhdf5' "$root/tmp/maxlogit-gpu/lib/README" || complain "no licences: $(cat "$root/tmp/maxlogit-gpu/lib/README")"
exit $status
