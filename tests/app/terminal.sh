#!/bin/sh
# What is shown on a terminal and nowhere else: bars with shares and times left, one line that is overwritten, colours.
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
command -v script > /dev/null || { echo "terminal.sh: skipped, no script here"; exit 77; }
plots=$(realpath "${top_srcdir:-$srcdir}/plots")
cd "$dir" || exit 99
on_terminal() { TERM=dumb timeout 300 script -qfec "stty cols 100 rows 40; $1" typed < /dev/null > /dev/null 2>&1; }
# the states of a line that is overwritten, one a line; -o so that two in one write are two
states() { tr '\r' '\n' < typed | sed 's/\x1b\[K//g' | grep "$@"; }

# sweep: [====    ] over/all, as full as the work that is done, with the time that is left
printf 'model.layers = 1\nmodel.width = 16\nmodel.heads = 2\nmodel.context = 16\ntrain.batch = 4\ntrain.steps = 1500\ntrain.seed = 1, 2, 3, 4\ndevice.threads = 1\nrecord.spectra_every = 0\n' > s.conf
"$program" sweep s.conf train.seed=1 -j1 > out 2> err || fail "sweep: $(cat err)"
grep -q '\[' err && fail "a bar where there is no terminal: $(cat err)"
on_terminal "'$program' sweep s.conf -j1" || fail "sweep on a terminal"
states -oE '^([0-9:]+ left  )?[0-9]+/[0-9]+  \[[= ]*\]$' > bars
test "$(grep -c . bars)" -ge 3 || fail "no bars: $(cat typed)"
awk '{ eta = /left/; left = $1; if (eta) { sub(/^[^ ]* left  /, ""); split(left, t, /:/); left = t[1] * 60 + t[2]; etas++ } else left = 0
    split($0, n, /[\/ ]/); bar = $0; sub(/^[^[]*\[/, "", bar); sub(/\]$/, "", bar); full = bar; sub(/ *$/, "", full)
    bad = length(bar) != 30 || full ~ / / || n[2] != 4 || n[1] < 0 || n[1] > 4 || length(full) < int(30 * n[1] / 4) || length(full) > 30 * (n[1] + 1) / 4 + 1
    if (length(full) < before) bad = 1
    before = length(full); if (bad) { print; wrong = 1 } }
  END { exit wrong || !etas || left > 0 }' bars || fail "bars: $(cat bars)"
states -cE '^maxlogit: [2-4]/4 [0-9a-f]{12} finished train\.seed=[2-4]' | grep -qx 3 || fail "beside the bar: $(cat typed)"
states -q '^maxlogit: 4 runs, 1 of them done before' || fail "what was done: $(cat typed)"
on_terminal "'$program' sweep s.conf -q train.seed=5,6 -j1" || fail "sweep -q"
states -qE '^\[|^maxlogit: [0-9]' && fail "sweep -q is not quiet: $(cat typed)"

# run: the time left comes first; what does not fit into the window is left out from the right
columns() { timeout 300 script -qfec "stty cols $1 rows 20; '$program' run s.conf train.seed=1 record.path=w.h5 record.overwrite=1" typed < /dev/null > /dev/null 2>&1; }
for width in 12 40 60 80 120; do
  columns $width || fail "run in $width columns: $(cat typed)"
  states -E '^[0-9:]+ left' > lines
  awk -v width=$width 'length($0) >= width { print; bad = 1 } END { exit bad || NR < 2 }' lines || fail "$width columns: $(cat lines)"
done
grep -qE '^[0-9:]+ left  step [0-9]+/1500  loss [0-9.]+  max logit [0-9.e+-]+ L0H[01]  [0-9.e+-]+ steps/s$' lines || fail "a line of a run: $(cat lines)"

# spectra: a share and the time left, gone at the end; nothing of it in a pipe
small_run a preset=muon checkpoint.every=20 train.steps=20
on_terminal "'$program' spectra a.h5 > spectra.out" || fail "spectra"
states -oE '^[0-9]+:[0-9]{2} left  spectra [0-9]+ %' > bars
tail -n 1 bars | grep -qE '^0:00 left  spectra 100 %$' || fail "spectra's bar: $(cat typed)"
"$program" spectra a.h5 > again.out 2> err && test ! -s err && cmp -s spectra.out again.out || fail "spectra in a pipe: $(cat err)"
tail -c 5 typed | od -An -c | grep -q . || fail "spectra: nothing was typed"

# plot -t: colours on a terminal that may have them
if command -v gnuplot > /dev/null; then
  "$program" plot -t a.h5 --scripts="$plots" > plain 2> err || fail "plot -t: $(cat err)"
  grep -q "$(printf '\033')" plain && fail "colours in a pipe"
  on_terminal "'$program' plot -t a.h5 --scripts='$plots'" || fail "plot -t on a terminal"
  grep -q "$(printf '\033')\[" typed || fail "no colours on a terminal"
  on_terminal "NO_COLOR=1 '$program' plot -t a.h5 --scripts='$plots'"
  grep -q "$(printf '\033')\[[0-9;]*m" typed && fail "colours in spite of NO_COLOR"
fi

# bench: one line, overwritten and then gone
on_terminal "'$program' bench --stack=toy --seconds=0.001 > bench.out" || fail "bench"
states -q '^toy, muon \.\.\.' || fail "bench does not say what it does: $(cat typed)"
states -q '^bench: ' && fail "bench prints lines on a terminal"
finish
