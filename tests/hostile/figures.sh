#!/bin/sh
# Texts of other people's run files in figures: gnuplot takes none of them for a command, a format or markup, and no title is
# lost or written otherwise.
srcdir=${srcdir:-$(dirname "$0")/../..}
. "$srcdir/tests/small_runs.sh"
python=$(python_with "h5py, xxhash") && [ "$python" ] || { echo "figures.sh: skipped, no Python with h5py and xxhash here"; exit 77; }
command -v gnuplot > /dev/null || { echo "figures.sh: skipped, no gnuplot here"; exit 77; }
texts="$(realpath "${top_srcdir:-$srcdir}")/tests/hostile/texts.py"
MAXLOGIT_PLOTS=$(realpath "${top_srcdir:-$srcdir}")/plots
export MAXLOGIT_PLOTS
small_run honest preset=muonclip qk_clip.tau=5 train.lr=0.05
cd "$dir" || exit 99
mkdir hostile
"$python" "$texts" runs honest.h5 hostile || { fail "no hostile runs"; finish; }
for file in hostile/*.h5; do
  number=$(basename "$file" .h5)
  rm -rf drawn
  for words in "honest.h5 --figure=loss" "--x arm --y train.seed --of loss"; do # one unit in a map
    # shellcheck disable=SC2086 # words
    "$program" plot "$file" --by arm $words --format=svg -o drawn > out 2>&1 || fail "plot $words of text $number: $(cat out)"
  done
  "$python" -c 'import sys, xml.dom.minidom
for name in sys.argv[1:]: xml.dom.minidom.parse(name)' drawn/*.svg || fail "text $number: a figure is not XML"
  "$python" "$texts" look drawn/*.svg out > look || fail "text $number: $(cat look)"
  case $number in [0-4] | 17 | 19) continue ;; esac # texts that are cleaned
  "$python" "$texts" title drawn/loss.svg "$number" arm= > look || fail "$(cat look)"
  "$python" "$texts" title drawn/map.svg "$number" "" > look || fail "$(cat look)"
done
# a series with more heads than the parameters state is refused: a map of them has no room for it
cp honest.h5 wide.h5
"$python" - << 'WIDE' || fail "no file with more heads"
import h5py
import numpy as np
with h5py.File("wide.h5", "r+") as f:
    x, name = f["series/attn/max_logit"][()], "series/attn/max_logit"
    kept = {k: v for k, v in f[name].attrs.items() if k not in ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME")}
    del f[name]
    f.create_dataset(name, data=np.repeat(x, 64, axis=2))
    f[name].attrs.update(kept)
WIDE
"$program" note --accept-edit wide.h5 "more heads" > out 2>&1 || fail "wide.h5: $(cat out)"
for form in -t "--format=svg -o drawn"; do
  # shellcheck disable=SC2086 # words
  "$program" plot wide.h5 --figure=heatmap $form > out 2>&1
  test $? -eq 1 && grep -q 'heads, the parameters state' out || fail "a map of other heads, $form: $(tail -n 3 out)"
done
"$program" plot wide.h5 --format=svg -o others > out 2>&1
test $? -eq 1 && test -s others/loss.svg && grep -q 'heads, the parameters state' out || fail "one figure that fails ends the others: $(tail -n 3 out)"
# the name of a file, taken for an option by a pattern, names a folder of programs for gnuplot
mkdir stranger stranger/.h5 && cp honest.h5 stranger/ && : > stranger/--scripts=.h5
for script in style page loss logits; do echo "system('touch $PWD/pwned')" > stranger/.h5/$script.gp; done
(cd stranger && "$program" plot *.h5 -o drawn) > out 2>&1 # shellcheck disable=SC2035 # on purpose
grep -q 'scripts' out || fail "scripts of a pattern: $(cat out)"
[ ! -e pwned ] || fail "a text was run"
finish
