#!/bin/sh
# aarch64.sh FOLDER ROOT TEST ...: the sources in FOLDER (as `make distdir` leaves them) are cross-built for aarch64
# there, and these of their tests run under qemu-user, with the kernels that such a machine would choose. ROOT keeps
# the libraries: packages of this Debian for arm64, unpacked there and not installed; apt sees a state of its own, so
# that nobody has to be root, and dpkg here knows of no other architecture. AARCH64_CC='clang
# --target=aarch64-linux-gnu': another compiler. Exit 77, and why, where this cannot be done.
# shellcheck disable=SC2086 # lists of words
folder=$1 root=$2
shift 2
triplet=aarch64-linux-gnu
skip() { echo "SKIPPED: aarch64 is not tested: $*"; exit 77; }

cc=${AARCH64_CC:-$triplet-gcc}
command -v ${cc%% *} >/dev/null || skip "no ${cc%% *} (package gcc-$triplet)"
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || skip "no qemu-aarch64-static (package qemu-user-static)"
command -v apt-get >/dev/null || skip "no apt-get, by which Debian's libraries for arm64 are had"

apt() {
  apt-get -qq -y --no-install-recommends -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o Dir::State="$root/apt" -o Dir::State::status="$root/apt/status" -o Dir::Cache="$root/apt" \
    -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
}
fill_root() {
  mkdir -p "$root/apt/lists/partial" "$root/apt/archives/partial" && : >"$root/apt/status" && apt update &&
    apt install --download-only libc6-dev libhdf5-dev libopenblas-pthread-dev liblapacke-dev libgsl-dev libjansson-dev \
      libxxhash-dev check || return 1
  for package in "$root"/apt/archives/*.deb; do dpkg-deb -x "$package" "$root" || return 1; done
  find "$root" -lname '/*' | while read -r link; do ln -sfn "$root$(readlink "$link")" "$link"; done
  # what update-alternatives would link
  lib=$root/usr/lib/$triplet
  (cd "$lib" && ln -sf openblas-pthread/*.so* . && cp openblas-pthread/pkgconfig/*.pc pkgconfig/ &&
    for name in blas lapack; do cp pkgconfig/$name-openblas.pc pkgconfig/$name.pc || exit 1; done) || return 1
  rm -rf "$root/apt" && : >"$root/complete"
}
mkdir -p "$root" && root=$(cd "$root" && pwd) || exit 99
[ -e "$root/complete" ] || fill_root >"$root/log" 2>&1 ||
  skip "apt-get has no libraries for arm64: $(grep -m 1 '^E:' "$root/log" || tail -n 1 "$root/log")"

cd "$folder" || exit 99
cat >under_qemu <<END
#!/bin/sh
case \$1 in *.sh) exec "\$@" ;; esac
exec $qemu -L $root "\$@"
END
chmod +x under_qemu
export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="$root/usr/lib/$triplet/pkgconfig:$root/usr/share/pkgconfig"
{ ./configure -q --host=$triplet --without-cuda CC="$cc --sysroot=$root" CXX=no && "${MAKE:-make}" -s maxlogit; } \
  >build.log 2>&1 || { tail -n 20 build.log; exit 1; }
# tests that start the program meet a script in its place
mv maxlogit maxlogit.aarch64 && printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$PWD/under_qemu" "$PWD/maxlogit.aarch64" >maxlogit &&
  chmod +x maxlogit || exit 99
./maxlogit doctor
"${MAKE:-make}" -s check LOG_COMPILER="$PWD/under_qemu" CK_TIMEOUT_MULTIPLIER=100 TESTS="$*"
