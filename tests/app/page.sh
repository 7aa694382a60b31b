#!/bin/sh
# The page of runs, by report and serve: page.py asks, breaks and looks at it.
program=${MAXLOGIT:-./maxlogit}
python=$(command -v "${PYTHON:-python3}") || { echo "page.sh: skipped, no python3 here"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/maxlogit-test.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
small='model.width=16 model.heads=4 model.context=16 train.batch=2 train.val_every=20 record.spectra_every=0 train.lr=0.03'
for preset in muon muonclip; do
  for seed in 1 2; do
    # shellcheck disable=SC2086 # a list of settings
    "$program" run preset=$preset $small train.steps=120 train.seed=$seed qk_clip.tau=5 "record.path=$dir/runs/$preset-$seed.h5" > "$dir/out" 2>&1 ||
      { cat "$dir/out"; exit 1; }
  done
done
# shellcheck disable=SC2086
"$program" run preset=adam $small model.layers=1 train.steps=700 "record.path=$dir/long/a.h5" > "$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
printf '%s\n' preset=adam $small | sed 's/=/ = /' > "$dir/live.conf"
"$python" "$top_srcdir/tests/app/page.py" "$program" "$dir" 2>&1
status=$?
[ -z "$PAGE_PICTURES" ] || cp "$dir"/*.png "$PAGE_PICTURES"
exit $status
