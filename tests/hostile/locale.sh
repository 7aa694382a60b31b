#!/bin/sh
# locale.sh - another language, decimal comma and a narrow window: what the program writes and prints has the same bytes,
# and reading it gives the same numbers
srcdir=${srcdir:-$(dirname "$0")/../..}
. "$srcdir/tests/small_runs.sh"
checkpoint=$(realpath "${top_srcdir:-$srcdir}")/tests/checkpoints/llama
cd "$dir" || exit 99
mkdir locales && localedef -i de_DE -f UTF-8 locales/de_DE.UTF-8 > log 2>&1 || { echo "locale.sh: skipped, no localedef with de_DE here"; exit 77; }
test "$(LOCPATH=$PWD/locales LC_ALL=de_DE.UTF-8 locale decimal_point)" = , || { echo "locale.sh: skipped, the locale is not taken"; exit 77; }
mkdir c de
with() { # FOLDER WORD...: there, in its locale
  (cd "$1" || exit 99
    shift
    test "${PWD##*/}" = c || export LOCPATH="$dir/locales" LC_ALL=de_DE.UTF-8 LANGUAGE=de COLUMNS=40
    "$@")
}
small='preset=muonclip qk_clip.tau=2 train.lr=0.05 model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4
  train.steps=9 train.warmup=2 train.val_every=4 record.spectra_every=4 device.threads=1'
printf 'step,loss,eta\n0,2.5,1e-3\n1,2.25,0.125\n' > c/log.csv; cp c/log.csv de
page='import sys, urllib.request
for name in ("data/index.js", "data/events.js", "data/0.max.js"): print(urllib.request.urlopen(sys.argv[1] + name).read())'
served() { # the page's data
  timeout 60 "$program" serve run.h5 > address 2> err &
  server=$!
  for _ in $(seq 200); do test -s address && break; sleep 0.05; done
  if test -s address; then python3 -c "$page" "$(head -n 1 address)"; else grep -q 'no HTTP\|libmicrohttpd' err && echo none; fi
  kill $server 2> /dev/null; wait $server 2> /dev/null
}
for at in c de; do
  # shellcheck disable=SC2086 # settings
  with $at "$program" run -q $small record.path=run.h5 > log 2>&1 || fail "$at: run: $(cat log)"
  with $at "$program" note run.h5 '0.5' || fail "$at: note"
  for command in 'show --events run.h5' 'export --follow run.h5' 'export run.h5 loss attn/max_logit' 'watch run.h5' \
    'spectra run.h5' "spectra $checkpoint" 'spectra --json run.h5' 'show --parameters run.h5'; do
    # shellcheck disable=SC2086 # words
    with $at "$program" $command < /dev/null > out 2> err || fail "$at: $command: $(cat err)"
    { echo "$command"; sed -E 's/20[0-9-]+T[0-9:]+Z/DATE/; /wall|seconds/d' out err; } >> $at/printed
  done
  with $at served > out; sed -E 's/20[0-9-]+T[0-9:]+Z/DATE/g; s/"(wall|seconds|speed|stamp)[a-z_]*":[^],}]*//g' out > $at/served
  if imports; then
    with $at "$program" import -q log.csv -o import.h5 > log 2>&1 || with $at "$program" import log.csv -o import.h5 > log 2>&1 || fail "$at: import: $(cat log)"
    with $at "$program" export import.h5 loss eta >> $at/printed || fail "$at: export of what is imported"
  fi
done
grep -q '[0-9]\.[0-9]' c/printed || fail "nothing was printed: $(cat c/printed)"
sed -E 's/# run [0-9a-f]{12}/# run ID/' c/printed > c/same; sed -E 's/# run [0-9a-f]{12}/# run ID/' de/printed > de/same
cmp -s c/same de/same || fail "a German locale changes what is printed: $(diff c/same de/same | head -n 8)"
cmp -s c/served de/served || fail "a German locale changes the page: $(tr , '\n' < c/served > a; tr , '\n' < de/served | diff a - | head)"
# each reads the other's
test "$(with de "$program" export "$dir/c/run.h5" loss)" = "$(with c "$program" export "$dir/de/run.h5" loss)" || fail "a run of another locale is read otherwise"
finish
