#!/bin/sh
# The tarball of make dist, built in another folder than its read-only sources, below a folder with a space and an
# umlaut, and installed: the program runs wherever its tree is moved, and make uninstall leaves nothing.
: "${CC:=cc}" "${MAKE:=make}" "${top_builddir:=.}"
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR
cd "$top_builddir" || exit 99
name=tarball.build
$MAKE -s dist-gzip distdir=$name > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
at="$dir/a release ä"
mkdir "$at" "$at/built" && mv $name.tar.gz "$at" && cd "$at" && tar xzf $name.tar.gz && cd built || exit 99
chmod -R a-w ../$name
sources() { (cd ../$name && find . -printf '%p %T@ %m\n' | sort); } # root writes into them all the same
sources > "$dir/before"

must() { what=$1; shift; "$@" > "$dir/log" 2>&1 || { tail -n 20 "$dir/log"; fail "$what"; chmod -R u+w "$at"; finish; }; }
# as fast as it compiles: the program is the one of the other tests, its speed is not asked for
must configure ../$name/configure -q --without-cuda --without-mpi CC="$CC" CFLAGS=-O0
must make "$MAKE" -s -j2
must "make install" "$MAKE" -s install DESTDIR="$at/installed ö"
must "make uninstall" "$MAKE" -s uninstall DESTDIR="$at/installed ö"
left=$(find "$at/installed ö" ! -type d -o -name 'maxlogit*')
test -z "$left" || fail "left by make uninstall: $left"
must "make install again" "$MAKE" -s install DESTDIR="$at/installed ö"
must "make distclean" "$MAKE" -s distclean
left=$(find . ! -type d)
test -z "$left" || fail "left by make distclean: $left"
sources | diff "$dir/before" - > "$dir/log" || fail "the sources were changed: $(cat "$dir/log")"
chmod -R u+w ../$name && rm -rf ../$name ../built

mv "$at/installed ö" "$at/moved ü" && cd "$at" && program="$at/moved ü/usr/local/bin/maxlogit" || exit 99
small_run moved
"$program" show "$dir/moved.h5" > out 2>&1 || fail "show: $(cat out)"
"$program" report "$dir/moved.h5" -o page > out 2>&1 && test -s page/index.html || fail "report: $(cat out)"
if command -v gnuplot > /dev/null; then
  "$program" plot -o figures "$dir/moved.h5" > out 2>&1 || fail "plot: $(cat out)"
fi
if imports; then
  printf 'step,loss\n0,2.5\n' > log.csv
  "$program" import log.csv > out 2>&1 || fail "import: $(cat out)"
fi
finish
