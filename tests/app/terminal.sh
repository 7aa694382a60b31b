#!/bin/sh
# What is shown on a terminal and nowhere else: bars with shares and times left, one line that is overwritten, colours.
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
has_terminal || exit 77
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

# plot -t: no line is wider than the terminal; colors where there are several groups and the terminal has them, and never
# black or white; without UTF-8 all is ASCII; gnuplot is not needed
small_run b preset=adam checkpoint.every=20 train.steps=20
small_run c preset=adam train.seed=3 train.steps=20
mkdir -p none && printf '#!/bin/sh\nexit 1\n' > none/gnuplot && chmod +x none/gnuplot
escape=$(printf '\033')
PATH=$PWD/none:$PATH "$program" plot -t a.h5 b.h5 c.h5 > plain 2> err || fail "plot -t: $(cat err)"
grep -q "$escape" plain && fail "colors in a pipe"
grep -q '^a adam *b muon' plain || fail "the groups' letters: $(cat plain)"
drawn_at() { LC_ALL=$2 TERM=$3 timeout 300 script -qfec "stty cols $1 rows 40; $4" typed < /dev/null > /dev/null 2>&1; sed -i '/^Script /d; s/\r//' typed; }
# the widest line, in characters
widest() { sed "s/$escape\[[0-9;]*m//g" typed | LC_ALL=C.UTF-8 awk '{ gsub(/[\200-\277]/, ""); if (length($0) > n) n = length($0) } END { print n + 0 }'; }
for width in 60 80 120; do
  for figure in logits heads heatmap loss spectra; do
    for locale in C.UTF-8 C; do
      test $locale$width != C60 && test $locale$width != C120 || continue
      drawn_at $width $locale xterm "'$program' plot -t --figure=$figure a.h5 b.h5 c.h5" || fail "plot -t $figure, $width columns: $(cat typed)"
      test "$(widest)" -le $((width - 1)) && { test $figure = heatmap || test "$(widest)" -ge $((width - 3)); } || fail "$figure, $width columns: $(widest): $(cat typed)"
      test $locale != C || ! sed "s/$escape\[[0-9;]*m//g" typed | LC_ALL=C grep -q '[^ -~]' || fail "$figure is not ASCII: $(cat typed)"
      ! grep -q "$escape\[3[07]m" typed || fail "$figure is black or white"
    done
  done
done
# lines that are wrapped have at most that many columns, at any width
for width in 40 41 42 43 44 45 46 47 48 49 50 51 52 53; do
  LC_ALL=C COLUMNS=$width "$program" plot -t a.h5 b.h5 c.h5 > typed 2> err || fail "plot -t, $width columns: $(cat err)"
  test "$(widest)" -le $width || fail "$width columns: $(widest): $(cat typed)"
done
# names of other scripts: two cells for each wide letter, '?' without UTF-8, and a label of a map that is too wide is cut
mkdir wide && for n in 1 2; do
  text=wide/$n$(printf '\344\270\255\346\226\207%.0s' 1 2 3 4 5)
  seq "$((n * 1000))" > "$text"
  for lr in 0.01 0.02; do small_run "wide/$n-$lr" data=bytes data.path="$text" train.lr=$lr train.steps=5; done
done
LC_ALL=C COLUMNS=40 "$program" plot -t --x=train.lr --y=data.path --of=val wide/*.h5 > map 2> err || fail "a map of names: $(cat err)"
grep -q '^wide/1???????~  *[0-9.][0-9.]*  *[0-9.]*$' map || fail "a map of names: $(cat map)"
LC_ALL=C "$program" plot -t --series=attn/max_logit --series=loss wide/[12]-0.01.h5 > plain
LC_ALL=C grep -q '[^ -~]' plain && fail "names are not ASCII: $(cat plain)"
grep -q '^a .*1??????????  *b .*2??????????$' plain && grep -qx '+: curves of several groups.' plain || fail "the letters of groups: $(cat plain)"
LC_ALL=C.UTF-8 COLUMNS=40 "$program" plot -t --x=train.lr --y=data.path --of=val wide/*.h5 > map
cut=$(printf '\344\270\255\346\226\207%.0s' 1 2)$(printf '\344\270\255\342\200\246')
grep -q "^wide/1$cut  *[0-9]" map || fail "a map of wide letters: $(cat map)"
# a log axis is named, and titles of panels side by side do not touch
small_run steep preset=adam train.lr=0.3 train.warmup=0 train.steps=20 train.on_nonfinite=continue
COLUMNS=120 "$program" plot -t --series=attn/max_logit --series=loss steep.h5 > plain
grep -q 'max logit, max over heads  (nat)  (log scale)' plain && grep -q 'loss  (nat)$' plain || fail "a log axis: $(head -n 3 plain)"
drawn_at 80 C.UTF-8 xterm "'$program' plot -t a.h5 b.h5"
grep -q "$escape\[36m" typed && grep -q "$escape\[33m" typed || fail "no colors of two groups: $(cat typed)"
for set in 'NO_COLOR=1 TERM=xterm' 'TERM=dumb'; do
  drawn_at 80 C.UTF-8 xterm "env $set '$program' plot -t a.h5 b.h5"
  grep -q "$escape" typed && fail "colors in spite of $set"
done
drawn_at 80 C.UTF-8 xterm "'$program' plot -t a.h5"
grep -q "$escape" typed && fail "one group is in the terminal's own foreground"
# what is drawn is what the script has: the ends of the axes, and the levels of the map
number() { sed -n "s/^$1 = //p" script; }
four() { printf '%.4g' "$1"; }
"$program" plot --script --figure=loss a.h5 > script && LC_ALL=C "$program" plot -t --figure=loss a.h5 > plain
grep ' over 1 ' plain && fail "one run is a mean"
for end in low high; do grep -q "^ *$(four "$(number $end)") |" plain || fail "the axis has no $(number $end): $(cat plain)"; done
"$program" show a.h5 --of val --csv | tail -n 1 | sed 's/.*,//' > val
grep -q "^last validation loss: $(printf %.4f "$(cat val)")" plain || fail "the last validation loss: $(cat val plain)"
"$program" plot --script --figure=heatmap a.h5 > script && LC_ALL=C "$program" plot -t --figure=heatmap a.h5 > plain
awk '/^\$data/ { on = 1; next } /^EOD/ { on = 0 } on && NF == 3 { v[$2, n[$2]++] = $3; heads = $2 > heads ? $2 : heads }
  /^low = / { low = $3 } /^high = / { high = $3 }
  END { for (h = 0; h <= heads; h++) { line = ""; for (i = 0; i < n[h]; i++) { x = v[h, i] > low ? v[h, i] : low
          line = line substr(" .:-=+*#%@", 1 + int(log(x / low) / log(high / low) * 9 + 0.5), 1) } print line } }' script > levels
each=$(awk '/^\$data/ { on = 1; next } /^EOD/ { on = 0 } on && $2 == 0 { n++ } END { e = int(68 / n); print (e > 3 ? 3 : e) }' script)
sed -n 's/^ *L[0-9]*H[0-9]* |//p' plain | awk -v each="$each" '{ line = ""; for (i = 1; i <= length($0); i += each) line = line substr($0, i, 1); print line }' > found
sed -i 's/ *$//' levels found
test -s levels && cmp -s levels found || fail "levels of the map: $(diff levels found)"

# bench: one line, overwritten and then gone
on_terminal "'$program' bench --stack=toy --seconds=0.001 > bench.out" || fail "bench"
states -q '^toy, muon \.\.\.' || fail "bench does not say what it does: $(cat typed)"
states -q '^bench: ' && fail "bench prints lines on a terminal"
finish
