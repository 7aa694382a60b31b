#!/bin/sh
# Installed into a folder: every part is there, the program runs, and a stranger's program drives a run
# through the library, found by pkg-config; the manual's example records through the shared one, killed once.
set -e
: "${CC:=cc}" "${MAKE:=make}" "${top_builddir:=.}"
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
prefix=$(sed -n 's/^prefix=//p' "$top_builddir/maxlogit.pc")
libdir=$(pkg-config --variable=libdir "$top_builddir/maxlogit.pc")
lib=${libdir#"$prefix/"} # Debian's packages have lib/x86_64-linux-gnu
unset MAKEFLAGS MFLAGS MAKELEVEL
$MAKE -s -C "$top_builddir" install DESTDIR="$to" >"$to/log" 2>&1 || { cat "$to/log"; exit 1; }
at=$to$prefix
for part in bin/maxlogit "$lib/libmaxlogit.a" "$lib/pkgconfig/maxlogit-static.pc" include/maxlogit/maxlogit.h \
    "$lib/libmaxlogit.so" "$lib/pkgconfig/maxlogit.pc" include/maxlogit/record.h share/man/man1/maxlogit.1 \
    share/bash-completion/completions/maxlogit share/maxlogit/plots/style.gp \
    share/maxlogit/page/runs.js share/maxlogit/python/maxlogit/importer/__init__.py; do
  [ -s "$at/$part" ] || { echo "$part was not installed"; exit 1; }
done
"$at/bin/maxlogit" --version
printf 'step,loss\n0,2.5\n' >"$to/log.csv"
if (cd "$to" && "$at/bin/maxlogit" import log.csv >said 2>&1) || ! grep -q 'numpy\|cannot be started' "$to/said"; then
  "$at/bin/maxlogit" export "$to/log.h5" loss | grep -q '^0 2.5' || { cat "$to/said"; exit 1; }
fi

cat >"$to/driver.c" <<'END'
#include <maxlogit.h>
#include <stdio.h>

int main(void)
{
  struct error error = {0};
  struct trainer *trainer;
  struct config *config = config_new();
  if (config_assign(config, "train.steps=3", &error) || config_finish(config, &error) ||
      trainer_init(&trainer, config, TRAINER_NO_RECORD, &error))
    return fprintf(stderr, "%s\n", error.text), 1;
  while (trainer_more(trainer))
    if (trainer_step(trainer, &error)) return 1;
  printf("%ld steps, loss %.3f\n", trainer_status(trainer).done, trainer_status(trainer).loss);
  int status = trainer_done(trainer, &error);
  config_free(config);
  return status;
}
END
flags=$(sed -n 's/^SANITIZER_FLAGS = //p' "$top_builddir/Makefile")
found=$(PKG_CONFIG_PATH="$at/$lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}" \
  pkg-config --define-variable=prefix="$at" --cflags --libs maxlogit-static)
# shellcheck disable=SC2086 # lists of flags
$CC $flags -Wall -Werror -o "$to/driver" "$to/driver.c" $found
"$to/driver" | tee "$to/said"
grep -q '^3 steps, loss [0-9]' "$to/said"

# the program of doc/library.md
awk '/<!-- record.c -->/ { found = 1 } /^```/ && inside { exit } inside { print } /^```c/ && found { inside = 1 }' \
  "${top_srcdir:-.}/doc/library.md" >"$to/mine.c"
[ "$(wc -l <"$to/mine.c")" -gt 20 ] || { echo "doc/library.md has no example of a recording"; exit 1; }
found=$(PKG_CONFIG_PATH="$at/$lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}" \
  pkg-config --define-variable=prefix="$at" --cflags --libs maxlogit)
# shellcheck disable=SC2086 # lists of flags
$CC $flags -Wall -Werror -o "$to/mine" "$to/mine.c" $found -lm
(cd "$to" && LD_LIBRARY_PATH="$at/$lib" ./mine)
"$at/bin/maxlogit" show "$to/mine.h5" | tee "$to/said"
grep -q '^muon .* 0.02 .* 1 finished .* 100 .*71.3 L1H3' "$to/said"
"$at/bin/maxlogit" export "$to/mine.h5" attn/max_logit --every=99 | grep -q '^99 2 11.9 '
[ "$("$at/bin/maxlogit" export --follow "$to/mine.h5" | wc -l)" = 101 ] || { echo "not a line per step"; exit 1; }
cp "$to/mine.h5" "$to/other.h5"
"$at/bin/maxlogit" compare "$to/mine.h5" "$to/other.h5" --of loss:last:mean >"$to/said" || { cat "$to/said"; exit 1; }
"$at/bin/maxlogit" plot -t "$to/mine.h5" >"$to/said"
if "$at/bin/maxlogit" resume "$to/mine.h5" train.steps=200 >"$to/said" 2>&1; then cat "$to/said"; exit 1; fi
grep -q 'another program' "$to/said" || { cat "$to/said"; exit 1; }

$MAKE -s -C "$top_builddir" uninstall DESTDIR="$to" >"$to/log" 2>&1
left=$(find "$at" ! -type d)
[ -z "$left" ] || { echo "left by uninstall: $left"; exit 1; }
