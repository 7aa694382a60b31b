#!/bin/sh
# The module of WebAssembly under Node: its imports, the table of bits, presets for 50 steps beside the
# program, and the module without a fused form, which has the bits of the kernels base.
cd "${top_builddir:-.}" || exit 99
here=${top_srcdir:-.}/tests/play
[ -f play.wasm ] || { echo "no play.wasm: $(sed -n 's/^BROWSER_WHY = //p' Makefile)"; exit 77; }
command -v node >/dev/null || { echo "no node (package nodejs)"; exit 77; }
flag=
node -e 'process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)' || flag=--experimental-wasm-relaxed-simd
run() { node $flag "$@"; }
run -e 1 2>/dev/null || { echo "this node has no relaxed SIMD"; exit 77; }
"${MAKE:-make}" -s tests/play/native >/dev/null || exit 99
status=0
fail() { echo "$*"; status=1; }

for module in play play-exact; do
  run --input-type=module -e "
    import { readFileSync } from 'node:fs'
    for (const i of WebAssembly.Module.imports(new WebAssembly.Module(readFileSync('$module.wasm')))) console.log(i.module + '.' + i.name)" |
    sort >play.imports
  for i in clock_time_get environ_get environ_sizes_get fd_close fd_fdstat_get fd_seek fd_write proc_exit; do
    echo wasi_snapshot_preview1.$i
  done | diff - play.imports || fail "$module.wasm asks for other functions than those listed"
done
rm -f play.imports

run "$here/bits.mjs" play.wasm "$here/../bits.txt" 0 2 &
run "$here/bits.mjs" play.wasm "$here/../bits.txt" 1 2 || status=1
wait $! || status=1

# the same bits where the kernels fuse, on one thread as on several
small='model.width=32 train.batch=2 model.context=24 train.steps=50 train.val_every=25 record.spectra_every=20'
[ -z "$MAXLOGIT_TEST_LONG" ] || small='train.steps=50 record.spectra_every=20'
sample() {
  for preset in $(./maxlogit list preset | awk '/^  / { print $1 }'); do
    words="preset=$preset $small"
    bits=$(tests/play/native bits "$words" 2>/dev/null) && echo "$bits $words"
  done
}
if [ "$(tests/play/native level)" = base ]; then
  echo "this processor does not fuse: its bits are not the module's"
else
  sample | run "$here/presets.mjs" play.wasm || status=1
fi
small="$small train.steps=5"
MAXLOGIT_KERNELS=base
export MAXLOGIT_KERNELS
[ "$(tests/play/native level)" != base ] || sample | run "$here/presets.mjs" play-exact.wasm || status=1
exit $status
