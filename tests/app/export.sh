#!/bin/sh
# export: columns, header rules, statistics over seeds against awk, thinning keeps extremes
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
for seed in 1 2 3; do small_run "muon-$seed" preset=muon train.seed=$seed; done
small_run adam-1 preset=adam

# one series, one run: a row a step, the step first
"$program" export "$dir/muon-1.h5" loss > "$dir/loss" || fail "export loss"
awk '!/^#/ { if (NF != 2 || $1 != n++) bad = 1 } END { exit bad || n != 40 }' "$dir/loss" ||
  fail "rows of loss"
"$program" export "$dir/muon-1.h5" attn/max_logit > "$dir/heads"
grep -q '^# step l0h0 l0h1 l1h0 l1h1$' "$dir/heads" || fail "names of the heads' columns"
awk '!/^#/ && NF != 5 { bad = 1 } END { exit bad }' "$dir/heads" || fail "heads' columns"

# the lines of # tell nothing about the place, the time or the machine
grep '^#' "$dir/heads" | grep -e "$dir" -e "$(uname -n)" -e '[0-9][0-9][0-9][0-9]-[0-9][0-9]-' -e thread &&
  fail "header tells too much"
small_run again preset=muon train.seed=1 device.threads=2
"$program" export "$dir/again.h5" attn/max_logit | cmp - "$dir/heads" || fail "same run, other text"
rm "$dir/again.h5"

# filters and formats
"$program" export "$dir/muon-1.h5" attn/max_logit --layer=1 --head=0 | awk '!/^#/ { print $1, $2 }' > "$dir/a"
awk '!/^#/ { print $1, $4 }' "$dir/heads" | cmp - "$dir/a" || fail "--layer --head"
"$program" export "$dir/muon-1.h5" attn/max_logit --reduce=max | awk '!/^#/ { print $2 }' > "$dir/a"
awk '!/^#/ { m = $2; for (i = 3; i <= NF; i++) if ($i + 0 > m + 0) m = $i; print m }' "$dir/heads" |
  cmp - "$dir/a" || fail "--reduce=max"
"$program" export "$dir/muon-1.h5" loss --every=7 |
  awk '!/^#/ { if ($1 % 7) bad = 1; n++ } END { exit bad || n != 6 }' || fail "--every"
"$program" export "$dir/muon-1.h5" loss --every=7 --steps=7-21 |
  awk '!/^#/ { s = s " " $1 } END { exit s != " 7 14 21" }' || fail "--steps"
"$program" export "$dir/muon-1.h5" loss --steps=21-7 2> "$dir/csv"; test $? -eq 2 || fail "--steps backwards"
"$program" export "$dir/muon-1.h5" "$dir/adam-1.h5" loss --format=csv |
  awk -F, 'NR == 1 { if ($0 != "step,run,loss") bad = 1; next } { n++; if (NF != 3) bad = 1 }
    END { exit bad || n != 80 }' || fail "csv of two runs: it begins with its names"
"$program" export "$dir/muon-1.h5" "$dir/adam-1.h5" loss --csv > "$dir/csv" &&
  "$program" export "$dir/muon-1.h5" "$dir/adam-1.h5" loss --format=csv | cmp - "$dir/csv" || fail "--csv"
"$program" export "$dir/muon-1.h5" loss --csv --format=tsv > "$dir/csv" 2>&1; test $? -eq 2 || fail "--csv --format=tsv"
"$program" export "$dir/muon-1.h5" attn/max_logit --long --format=tsv |
  awk -F'\t' '!/^#/ { n++; if (NF != 3) bad = 1 } END { exit bad || n != 1 + 40 * 4 }' || fail "--long"
"$program" export "$dir/muon-1.h5" loss val_loss |
  awk '!/^#/ { n++; if ($1 % 10 == 0 && $3 == "NaN") bad = 1; if ($1 % 10 == 5 && $3 != "NaN") bad = 1 }
    END { exit bad || n < 40 }' || fail "joined series"

# statistics over seeds, computed again
for seed in 1 2 3; do
  "$program" export "$dir/muon-$seed.h5" attn/max_logit --reduce=max | grep -v '^#' > "$dir/max-$seed"
done
for mean in arithmetic geometric; do
  test $mean = arithmetic && geometric=0 || geometric=1
  "$program" export "$dir"/muon-?.h5 attn/max_logit --reduce=max --band=$mean > "$dir/band"
  grep -q "^# $mean mean and 95 % interval" "$dir/band" || fail "band: its mean is not named"
  grep -q '^# step n mean lo hi$' "$dir/band" || fail "band: names of columns"
  # Student's t, 97.5 %, 2 degrees of freedom
  paste -d' ' "$dir/max-1" "$dir/max-2" "$dir/max-3" | awk -v geometric=$geometric '
    { for (i = 1; i <= 3; i++) x[i] = geometric ? log($(2 * i)) : $(2 * i)
      m = (x[1] + x[2] + x[3]) / 3
      h = 4.302652729911275 * sqrt(((x[1]-m)^2 + (x[2]-m)^2 + (x[3]-m)^2) / 2 / 3)
      if (geometric) printf "%s %.12g %.12g %.12g\n", $1, exp(m), exp(m - h), exp(m + h)
      else printf "%s %.12g %.12g %.12g\n", $1, m, m - h, m + h }' > "$dir/wanted"
  grep -v '^#' "$dir/band" | paste -d' ' - "$dir/wanted" | awk '
    function near(a, b) { d = a - b; if (d < 0) d = -d; s = b < 0 ? -b : b; return d <= 1e-6 * (s + 1e-3) }
    { n++; if ($1 != $6 || $2 != 3 || !near($3, $7) || !near($4, $8) || !near($5, $9)) bad = 1 }
    END { exit bad || n != 40 }' || fail "band: $mean statistics"
done
test "$("$program" export "$dir" loss --band | grep -c '^# group')" -eq 2 || fail "two groups"
"$program" export "$dir"/muon-?.h5 "$dir"/adam-1.h5 loss --band | grep '^# group' | tr '\n' ' ' |
  grep -qx "# group adam: runs 1 # group muon: runs $(ls "$dir"/muon-?.h5 | wc -l) " || fail "runs of each group"
"$program" export "$dir"/muon-?.h5 "$dir"/adam-1.h5 loss --band --format=csv |
  awk -F, -v muon="$(ls "$dir"/muon-?.h5 | wc -l)" 'NR == 1 { if ($1 != "step" || $2 != "group" || $3 != "n") bad = 1; next }
    $3 != ($2 == "muon" ? muon : 1) { bad = 1 } END { exit bad || NR < 3 }' || fail "runs of each group, csv"

# thinning keeps the extremes, and the ends
"$program" export "$dir/muon-1.h5" grad_norm > "$dir/full"
"$program" export "$dir/muon-1.h5" grad_norm --bins=4 > "$dir/thin"
for f in full thin; do
  awk '!/^#/ { if (!n++) { low = high = $2 + 0; first = $0 }
    if ($2 + 0 < low) low = $2 + 0
    if ($2 + 0 > high) high = $2 + 0
    last = $0 } END { print low, high, first, last }' "$dir/$f" > "$dir/$f.extremes"
done
cmp "$dir/full.extremes" "$dir/thin.extremes" || fail "thinning loses extremes"
test "$(grep -vc '^#' "$dir/thin")" -eq 10 || fail "thinning: number of rows"

# every number reads back: the run file, read by another program
if command -v h5dump > /dev/null; then
  h5dump -d /series/loss -y -w 1 -m %.17g "$dir/muon-1.h5" |
    awk '/^ *DATA {/ { on = 1; next } /}/ && on { exit } on { sub(",", ""); print $1 }' > "$dir/h5"
  awk '!/^#/ { print $2 }' "$dir/loss" | paste -d' ' - "$dir/h5" | awk '
    { n++; d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-7 * $2)) bad = 1 } END { exit bad || n != 40 }' ||
    fail "differs from h5dump"
else echo "no h5dump: not compared with it"; fi

# an expert's column and metric; every shape is named
small_run experts model.ffn=moe moe.experts=4 moe.active=2
"$program" export "$dir/experts.h5" moe/load | awk '/^#/ && /step/ { for (i = 3; i <= NF; i++) if ($i == "l1e2") c = i - 1 } !/^#/ { v = $c } END { printf "%.4g\n", v }' > "$dir/load"
"$program" show --of moe/load@l1e2:last:max --csv "$dir/experts.h5" | tail -n 1 | tr ',' '\n' | awk '$1 + 0 == $1 { printf "%.4g\n", $1 }' |
  grep -qxF "$(cat "$dir/load")" || fail "the load of an expert: $(cat "$dir/load"), not $("$program" show --of moe/load@l1e2:last:max --csv "$dir/experts.h5")"
"$program" export "$dir/experts.h5" --list > "$dir/out" || fail "--list of experts"
for shape in 'loss .*.step.' 'moe/max_vio .*.step, layer.' 'attn/max_logit .*.step, layer, head.' 'moe/load .*.step, layer, expert.' 'weight/spectral_norm .*.step, tensor.'; do
  grep -q "^$shape " "$dir/out" || fail "--list: $shape: $(grep "^${shape%% *}" "$dir/out")"
done
rm "$dir/experts.h5"

# every file's series are named
"$program" export "$dir/muon-1.h5" "$dir/adam-1.h5" --list > "$dir/out" || fail "--list"
test "$(grep -c '^loss ' "$dir/out")" -eq 2 && test "$(grep -c '^# .*-1.h5$' "$dir/out")" -eq 2 || fail "--list of two: $(cat "$dir/out")"

# a folder or a file that is called like a series
mkdir "$dir/here" "$dir/here/loss"
: > "$dir/here/val_loss"
(cd "$dir/here" && "$program" export ../muon-1.h5 loss val_loss) > "$dir/out" 2> "$dir/err"
grep -q '^# step loss val_loss$' "$dir/out" || fail "a folder called loss: $(cat "$dir/err")"

# files of another are not written over
mkdir "$dir/theirs"
echo theirs > "$dir/theirs/config.json"
"$program" export "$dir/muon-1.h5" --safetensors="$dir/theirs" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 && grep -q 'config.json exists' "$dir/err" && test "$(cat "$dir/theirs/config.json")" = theirs && test ! -e "$dir/theirs/model.safetensors" ||
  fail "--safetensors over files of another: exit $status, $(cat "$dir/err")"
cp "$dir/muon-1.h5" "$dir/private.h5"; cp -r "$dir/muon-1.ckpt" "$dir/private.ckpt"; chmod 600 "$dir/private.h5"
(umask 022; "$program" export "$dir/private.h5" --safetensors) > /dev/null || fail "--safetensors of a private run"
test "$(stat -c %a "$dir/private.safetensors/model.safetensors")" = 600 || fail "weights of a private run are open to others"
(umask 022; "$program" spectra "$dir/private.h5" -o "$dir/numbers.h5" -q || "$program" spectra "$dir/private.h5" -o "$dir/numbers.h5") > /dev/null 2>&1
test "$(stat -c %a "$dir/numbers.h5")" = 600 || fail "spectra of a private run are open to others"
rm -r "$dir"/private.* "$dir/numbers.h5"
"$program" export "$dir/muon-1.h5" --safetensors="$dir/theirs" --overwrite > "$dir/out" 2> "$dir/err" && test -s "$dir/theirs/model.safetensors" ||
  fail "--overwrite: $(cat "$dir/err")"

# pipes and wrong input
"$program" export "$dir/muon-1.h5" attn/max_logit 2> "$dir/err" | head -n 1 > /dev/null
test -s "$dir/err" && fail "noise on a closed pipe: $(cat "$dir/err")"
"$program" export "$dir/muon-1.h5" attn/maxlogit > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "unknown series: exit $status"
grep -q 'attn/max_logit' "$dir/err" || fail "unknown series: no suggestion: $(cat "$dir/err")"
"$program" export "$dir/loss" loss > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "not a run file: exit $status"
"$program" export "$dir/muon-1.h5" nosuch 2>&1 | grep -c 'muon-1.h5.*muon-1.h5' | grep -qx 0 || fail "the path stands twice in a message"
for bad in "--layer=4294967296" "--format=xls" "--overwrite"; do
  "$program" export "$dir/muon-1.h5" attn/max_logit "$bad" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && test ! -s "$dir/out" || fail "$bad: exit $status"
done
"$program" export "$dir/muon-1.h5" loss --format=xls 2>&1 | grep -q 'columns, csv, tsv' || fail "--format: what is allowed is not said"
small_run wide preset=muon model.heads=4
"$program" export --band --by optimizer "$dir/muon-1.h5" "$dir/wide.h5" attn/max_logit > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 && grep -q 'columns differ' "$dir/err" || fail "a mean over runs of two shapes: exit $status, $(cat "$dir/out" "$dir/err")"
"$program" export "$dir/muon-1.h5" attn/max_logit --layer=7 > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "no such layer: exit $status"
# one table has one header: runs of other shapes are refused, or written below each other
small_run narrow model.heads=2
small_run broad model.heads=4
# a window is none of a series
for command in "export $dir/narrow.h5 attn/max_logit:lastt:max" "export $dir/narrow.h5 loss:foo:mean" "plot $dir/narrow.h5 --series loss:5-3:mean"; do
  # shellcheck disable=SC2086 # words
  "$program" $command > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && grep -q 'series .*: the reduction is ' "$dir/err" || fail "$command: exit $status, $(cat "$dir/err")"
done
for what in "" --band; do
  # shellcheck disable=SC2086 # an option or none
  "$program" export "$dir/narrow.h5" "$dir/broad.h5" attn/max_logit --csv $what > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && grep -q 'its columns are not those of .*: --long writes both' "$dir/err" || fail "export --csv $what of two shapes: exit $status, $(cat "$dir/err")"
done
"$program" export "$dir/narrow.h5" "$dir/broad.h5" attn/max_logit --csv --long > "$dir/out" 2> "$dir/err" && grep -q ',attn/max_logit:l1h3,' "$dir/out" || fail "export --long of two shapes: $(cat "$dir/err")"
"$program" export "$dir/narrow.h5" "$dir/broad.h5" attn/max_logit > "$dir/out" 2> "$dir/err" && test "$(grep -c '^# step' "$dir/out")" = 2 || fail "export of two shapes: $(cat "$dir/err")"
finish
