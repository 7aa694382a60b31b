#!/bin/sh
# wheel.sh - one wheel with the program, the library and all they need, for any Linux with glibc 2.28
# Usage: python/wheel.sh [FOLDER [MACHINE]]: works in FOLDER (wheel.build), prints the wheel's path. Ordinary users may run it.
# MACHINE: x86_64 or aarch64, as uname -m prints it (this one). For another one it needs Debian's packages
# gcc-MACHINE-linux-gnu and qemu-user-static.
# gcc compiles the kernels, which are a quarter slower otherwise. Clang out of PyPI's ziglang, which has the stubs of every
# glibc, compiles and links all else. The libraries are Debian's sources, static and hidden, so that a libhdf5 of h5py in
# the same process is another one. OpenBLAS is PyPI's scipy-openblas32. Needs gcc, make, apt-get and python3 with venv.
set -eu

glibc=2.28
machine=${2:-$(uname -m)}
sources="zlib hdf5 libmicrohttpd gsl jansson xxhash"

say() { echo "wheel: $*" >&2; }

top=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-wheel.build}"
cd "${1:-wheel.build}"
work=$PWD
tools="ziglang==$(sed -n 's/^zig=//p' "$top/bootstrap") auditwheel==6.8.2 cmake==4.4.5 setuptools wheel==0.48.0"
if [ ! -e log.txt ] && [ -n "$(ls -A)" ]; then say "$work is not empty, and not of an earlier call"; exit 1; fi
case $work in *[!A-Za-z0-9/._+-]*) say "$work: the name of a folder may have letters, digits and . _ + - only"; exit 1 ;; esac
log=$work/log.txt
gcc=gcc emulator='' cross='' cmake_cross=''
if [ "$machine" != "$(uname -m)" ]; then
  gcc=$machine-linux-gnu-gcc emulator="qemu-$machine-static -L /usr/$machine-linux-gnu" cross=--host=$machine-linux-gnu
  cmake_cross="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$machine -DCMAKE_CROSSCOMPILING_EMULATOR=$(echo "$emulator" | tr ' ' ';')"
fi
cores=$(nproc)
CC="$work/cc.sh" AR="$work/ar.sh" RANLIB="$work/ar.sh s"
CFLAGS="-O2 -fPIC -fvisibility=hidden"
export CC AR RANLIB CFLAGS

# step NAME
step() {
  say "$1 ..."
  # in the background, since a function that is tested goes on after an error
  (set -e; "$1") >>"$log" 2>&1 &
  wait $! || { tail -n 30 "$log" >&2; say "$1 failed; all of the output is in $log"; exit 1; }
}

compiler() {
  python3 -m venv venv
  # shellcheck disable=SC2086 # a list of names
  venv/bin/pip install -q --disable-pip-version-check $tools
  # OpenBLAS for that machine
  venv/bin/pip download -q --disable-pip-version-check --no-deps --only-binary :all: --platform "manylinux_2_27_$machine" -d . \
    scipy-openblas32==0.3.34.481.3
  rm -rf blas && venv/bin/python -m zipfile -e scipy_openblas32-*.whl blas && rm scipy_openblas32-*.whl
  zig=$(echo "$work"/venv/lib/python3*/site-packages/ziglang/zig)
  cat >cc.sh <<END
#!/bin/sh
case " \$* " in *" -march=x86-64-v"* | *" -fno-trapping-math "*" -c "*) exec $gcc "\$@" ;; esac # kernels, and the question for them
exec "$zig" cc -target $machine-linux-gnu.$glibc "\$@"
END
  printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$zig" >ar.sh
  chmod +x cc.sh ar.sh
}

fetch() {
  mkdir -p apt/lists/partial apt/cache/archives/partial sources
  sed -n 's/^URIs: *//p; s/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.sources \
    /etc/apt/sources.list.d/*.list 2>/dev/null | grep -m 1 'debian/*$' | sed 's/.*/deb-src & trixie main/' >apt/sources.list
  set -- -q -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/apt/lists" \
    -o Dir::Cache="$work/apt/cache"
  apt-get "$@" update
  cd sources
  # shellcheck disable=SC2086
  apt-get "$@" source --tar-only $sources
  for archive in *.orig.tar.*z *.orig.tar.bz2; do [ ! -f "$archive" ] || tar xf "$archive"; done
}

# from NAME: its folder of sources
from() { echo "$work/sources/$1"*/; }

libraries() {
  prefix=$work/libraries
  cmake=$work/venv/bin/cmake
  mkdir -p "$prefix/lib" "$prefix/include"
  (cd "$(from zlib)" && CHOST=$machine-linux-gnu ./configure --static --prefix="$prefix" && make -j"$cores" install)
  # shellcheck disable=SC2086 # a list of options
  "$cmake" -S "$(from hdf5)" -B hdf5.build $cmake_cross -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DBUILD_TESTING=OFF -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_CPP_LIB=OFF -DHDF5_BUILD_HL_LIB=OFF \
    -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_ENABLE_SZIP_SUPPORT=OFF -DZLIB_ROOT="$prefix" -DZLIB_USE_EXTERNAL=OFF
  "$cmake" --build hdf5.build -j "$cores" --target install
  # shellcheck disable=SC2086
  "$cmake" -S "$(from jansson)" -B jansson.build $cmake_cross -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
  "$cmake" --build jansson.build -j "$cores" --target install
  (cd "$(from libmicrohttpd)" && ./configure -q $cross --prefix="$prefix" --disable-shared --enable-static --disable-https --disable-doc \
    --disable-examples --disable-curl && make -s -j"$cores" && make -s install)
  # the parts of GSL that are called: all of it takes six minutes
  parts="gsl utils sys err block vector matrix permutation sort statistics fit complex poly specfunc rng randist cdf"
  (
    set -e
    cd "$(from gsl)"
    ./configure -q $cross --prefix="$prefix" --disable-shared
    for part in $parts; do make -s -j"$cores" -C "$part"; done
    make -s version.lo
    # shellcheck disable=SC2086
    find version.o $parts -name '*.o' -exec "$AR" rcs "$prefix/lib/libgsl.a" {} +
    cp -RL gsl "$prefix/include"
  )
  cp "$(from xxHash)xxhash.h" "$prefix/include"
}

# The sources as a release has them, outside of a tree that may be configured
tree() {
  rm -rf tree
  if [ -f "$top/Makefile" ]; then make -s -C "$top" distdir distdir="$work/tree" CC=cc AR=ar
  else
    mkdir tree
    (cd "$top" && tar cf - --exclude=.git --exclude="./$(basename "$work")" .) | tar xf - -C tree
    [ -f tree/configure ] || (cd tree && autoreconf -i)
  fi
}

program() {
  mkdir -p build
  cd build
  blas=$work/blas/scipy_openblas32
  # its functions have a prefix of their own
  python3 - "$blas"/lib/libscipy_openblas.so >../blas.h <<'END'
import re, sys
names = set(re.findall(rb"\0scipy_((?:cblas|LAPACKE|openblas)_\w+)(?=\0)", open(sys.argv[1], "rb").read()))
print("\n".join(f"#define {name} scipy_{name}" for name in sorted(n.decode() for n in names)))
END
  libraries=$work/libraries/lib
  LD_LIBRARY_PATH=$blas/lib ../tree/configure -q $cross --prefix=/usr/local --without-cuda --without-mpi CFLAGS=-g1 LDFLAGS=-s PKG_CONFIG=/bin/false \
    CPPFLAGS="-I$work/libraries/include" BLAS_CFLAGS="-I$blas/include -include $work/blas.h" BLAS_LIBS="-L$blas/lib -lscipy_openblas" \
    HDF5_CFLAGS=" " HDF5_LIBS="$libraries/libhdf5.a $libraries/libz.a -lm -ldl -lpthread" \
    GSL_CFLAGS=" " GSL_LIBS="$libraries/libgsl.a" XXHASH_CFLAGS=-DXXH_INLINE_ALL XXHASH_LIBS=" " JANSSON_CFLAGS=" " JANSSON_LIBS="$libraries/libjansson.a" \
    MICROHTTPD_CFLAGS=" " MICROHTTPD_LIBS="$libraries/libmicrohttpd.a"
  set -- -s -j"$cores" LDFLAGS="-s -Wl,-rpath,'\$\$ORIGIN/../lib:\$\$ORIGIN/_program/lib'"
  if [ -n "$emulator" ]; then # the manual is what the program prints; `./emulated doctor` takes minutes
    make "$@" maxlogit
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s %s "$@"\n' "$blas/lib" "$emulator" "$PWD/maxlogit" >../emulated
    chmod +x ../emulated
    # shellcheck disable=SC2046 # a list of names
    (cd ../tree && doc/manual.sh "$work/emulated" doc/maxlogit.1.in $(sed -n 's/^man_chapters = //p' Makefile.am)) >maxlogit.1
  fi
  make "$@" all
}

# Beside the program: OpenBLAS, one font for the gnuplot of PyPI, which has none, and the texts of the licenses.
package() {
  stage=$work/stage/usr/local
  rm -rf stage to wheel
  make -s -C build install DESTDIR="$work/stage" STRIP=true
  cp blas/scipy_openblas32/lib/libscipy_openblas.so "$stage/lib"
  apt-get download -q fonts-dejavu-core
  rm -rf font && dpkg -x fonts-dejavu-core_*.deb font && rm fonts-dejavu-core_*.deb
  mkdir -p "$stage/share/maxlogit/fonts" "$stage/share/maxlogit/licenses"
  cp font/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf "$stage/share/maxlogit/fonts"
  cp font/usr/share/doc/fonts-dejavu-core/copyright "$stage/share/maxlogit/licenses/DejaVu.txt"
  for folder in sources/*/; do
    text=$(find "$folder" -maxdepth 1 \( -iname 'COPYING' -o -iname 'LICENSE*' \) | sort | head -n 1)
    cp "$text" "$stage/share/maxlogit/licenses/$(basename "$folder").txt"
  done
  cat blas/scipy_openblas32*.dist-info/licenses/LICENSE* >"$stage/share/maxlogit/licenses/OpenBLAS.txt"
  cp -RL tree/python wheel
  MAXLOGIT_STAGE=$stage venv/bin/pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w to ./wheel
  venv/bin/wheel tags --remove --platform-tag "manylinux_$(echo $glibc | tr . _)_$machine" to/*.whl
  venv/bin/auditwheel show to/*.whl
  venv/bin/auditwheel show to/*.whl | grep -q "manylinux_$(echo $glibc | tr . _)_$machine"
}

for part in compiler fetch libraries; do # of the same versions as before
  [ -e done.$part ] || step $part
  : >done.$part
done
for part in tree program package; do step $part; done
echo "$work"/to/*.whl
