#!/bin/sh
# swaps.sh - a folder that becomes a symbolic link between two calls of a command, at each call: nothing behind the link
# is written or removed
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
ldd "$program" 2> /dev/null | grep -q libasan && { echo "swaps.sh: skipped, the address sanitizer must be loaded first"; exit 77; }
${CC:-cc} -std=gnu11 -Wall -O1 -shared -fPIC -o "$dir/calls.so" "$srcdir/tests/storage/calls.c" || { fail "calls.c"; finish; }
LD_PRELOAD=$dir/calls.so "$program" --version > /dev/null 2>&1 || { echo "swaps.sh: skipped, nothing can be preloaded here"; exit 77; }
cd "$dir" || exit 99
small="train.steps=2 model.layers=1 model.width=16 model.heads=2 model.context=16 train.batch=4 device.threads=1 record.spectra_every=0"
# shellcheck disable=SC2086 # settings
"$program" run --quiet $small record.path=y.h5 > /dev/null 2>&1 || fail "a run"
checksums() { find home -type f -exec md5sum {} + | sort; }

# swapped FOLDER VICTIM COMMAND...: at each call of the command in turn, FOLDER becomes a link to the folder VICTIM
swapped() {
  folder=$1 victim=$2 n=0
  shift 2
  checksums > before
  while :; do
    n=$((n + 1))
    rm -rf shared; mkdir -p "$folder"; chmod 1777 shared
    LD_PRELOAD=$dir/calls.so CALLS_ROOT=$dir CALLS_SWAP="$n:$dir/$folder:$dir/$victim" timeout 60 "$@" > out 2> err; status=$?
    test $status -le 2 || fail "$folder, call $n of $*: exit $status: $(cat err)"
    checksums | cmp -s - before || { fail "$folder, call $n of $*: behind the link: $(checksums | diff - before)"; break; }
    test -L "$folder" || break
  done
  test $n -gt 2 && test $status -eq 0 || fail "$folder: $n calls of $*: exit $status: $(cat err)"
}

mkdir -p home/ckpt home/data home/page
for step in 1 2 3; do echo precious > home/ckpt/step-0000000$step.h5; done
# shellcheck disable=SC2086 # settings
swapped shared/x.ckpt home/ckpt "$program" run --quiet $small record.path=shared/x.h5 checkpoint.every=1 checkpoint.keep=1 record.overwrite=1

"$program" report y.h5 -o page > /dev/null || fail "a page"
(cd page && find . -name '*.js') | while read -r name; do mkdir -p "home/$(dirname "$name")"; echo precious > "home/$name"; done
swapped shared/data home/data "$program" report y.h5 -o shared

# a folder on the way: the link is another user's, which only root can lay here
if test "$(id -u)" -eq 0; then
  cp -r page/. home/page; cp -r home/ckpt home/page/x.ckpt
  for name in x.h5 x.lock x.journal README.md q/README.md claims.json; do mkdir -p "home/page/$(dirname $name)"; echo precious > home/page/$name; done
  # shellcheck disable=SC2086 # settings
  swapped shared/sub home/page "$program" run --quiet $small record.path=shared/sub/x.h5 checkpoint.every=1 checkpoint.keep=1 record.overwrite=1
  swapped shared/sub home/page "$program" report y.h5 -o shared/sub
  if command -v gnuplot > /dev/null; then
    echo precious > home/page/loss.svg
    swapped shared/sub home/page "$program" plot y.h5 -o shared/sub --figure=loss --format=svg
  fi
  # such a link that was there before is named
  rm -rf shared; mkdir shared; chmod 1777 shared; ln -s ../home/page shared/sub; chown -h nobody shared/sub
  "$program" report y.h5 -o shared/sub > out 2> err && fail "a page behind another user's link"
  grep -q 'shared/sub is a symbolic link' err || fail "another user's link: $(cat err)"
fi

# one's own link on the way is followed
rm -rf shared; mkdir shared real; ln -s ../real shared/own
"$program" report y.h5 -o shared/own > out 2> err && test -f real/index.html || fail "one's own link: $(cat err)"
finish
