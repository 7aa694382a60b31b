#!/bin/sh
# note: remarks in the file, through kills, resume and rerun; a file that was edited is refused until it is accepted
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
run=$dir/run.h5
small_run run preset=muonclip qk_clip.tau=2 record.spectra_every=0 checkpoint.every=10
note() { "$program" note "$@" > "$dir/out" 2> "$dir/err"; }
numbers() { for s in loss attn/max_logit; do "$program" export "$1" $s || fail "export $1 $s"; done; "$program" show --events "$1"; }
numbers "$run" > "$dir/first"
id() { "$program" show --json "$1" | sed -n 's/.*"id": "\([0-9a-f]*\)".*/\1/p'; }
first=$(id "$run")

note "$run" && test ! -s "$dir/out" || fail "notes of a run without any: $(cat "$dir/out" "$dir/err")"
note "$run" 'head 3 looks odd' && note "$run" "second
line" || fail "note: $(cat "$dir/err")"
note "$run" || fail "notes are not printed: $(cat "$dir/err")"
lines() { tr '\n' '|' | grep -qx "$1"; }
date='20[0-9-]*T[0-9:]*Z'
lines "$date  head 3 looks odd|$date  second|                      line|" < "$dir/out" || fail "notes: $(cat "$dir/out")"
"$program" show "$run" | grep -A9 '^note' > "$dir/out"
lines "note  run.h5  $date  head 3 looks odd|note  run.h5  $date  second|                                    line|" < "$dir/out" ||
  fail "show has not a notes: $(cat "$dir/out")"
"$program" show --json "$run" | grep -A3 '"notes"' | grep -q '"text": "head 3 looks odd"' || fail "show --json has not a notes"
# every byte that may stand in a text is kept, but for those that steer a terminal
cp "$run" "$dir/bytes.h5"
LC_ALL=C awk 'BEGIN { for (i = 1; i < 128; i++) if (i != 10 && i != 127) printf "%c", i }' > "$dir/bytes"
note "$dir/bytes.h5" "$(cat "$dir/bytes")µ" && note "$dir/bytes.h5" || fail "bytes: $(cat "$dir/err")"
{ LC_ALL=C tr '\001-\010\013-\037' '?' < "$dir/bytes"; echo µ; } > "$dir/wanted"
tail -n 1 "$dir/out" | sed "s/^$date  //" | cmp -s - "$dir/wanted" || fail "bytes: $(tail -n 1 "$dir/out" | od -c | head)"
numbers "$run" | cmp -s - "$dir/first" || fail "a note has changed the numbers"
test "$(id "$run")" = "$first" || fail "a note has changed the id"

# killed at any call that reaches the disk: the old file or the new one
cp "$run" "$dir/before.h5"
for k in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
  cp "$dir/before.h5" "$run"; rm -f "$dir/run.lock"
  MAXLOGIT_FAULT=io:$k:kill "$program" note "$run" 'third' > /dev/null 2>&1; status=$?
  cmp -s "$run" "$dir/before.h5" && old=1 || old=0
  note "$run" || fail "killed at call $k: $(cat "$dir/err")"
  grep -q 'third' "$dir/out" && new=1 || new=0
  test $((old + new)) -eq 1 || fail "killed at call $k: neither the old file nor the new one"
  test $status -eq 0 && break
done
test $status -eq 0 && test $k -gt 3 || fail "never killed, or always: $k"
test $new -eq 1 || fail "a note that was told done is not there"
MAXLOGIT_FAULT=io:1:enospc "$program" note "$run" 'fourth' > /dev/null 2>&1; test $? -eq 1 || fail "a full disk"

# who goes on, and who runs again, keeps them; what rerun leaves tells where it is
path() { "$program" show --parameters "$1" | grep '^record.path'; }
path "$run" > "$dir/path"
"$program" resume -q "$run" train.steps=45 2> "$dir/err" || fail "resume: $(cat "$dir/err")"
note "$run"; grep -q 'third' "$dir/out" || fail "resume has lost the notes"
"$program" rerun -q "$run" record.probe_every=10 > /dev/null 2> "$dir/err" || fail "rerun: $(cat "$dir/err")"
note "$run"; test "$(grep -c 'third\|odd' "$dir/out")" -eq 2 || fail "rerun has lost the notes: $(cat "$dir/out")"
path "$run" | cmp -s - "$dir/path" || fail "after rerun: $(path "$run"), not $(cat "$dir/path")"
"$program" rerun -q "$run" -o "$dir/again.h5" > /dev/null 2> "$dir/err" || fail "rerun -o: $(cat "$dir/err")"
note "$dir/again.h5"; grep -q 'third' "$dir/out" || fail "rerun -o has lost the notes"
path "$dir/again.h5" | grep -q 'again.h5$' || fail "rerun -o: $(path "$dir/again.h5")"

# a byte of a series under the checksum as it was: damage, which the chunk's own checksum tells; then an edit
refused() { # STATUS WHAT-IT-SAYS WORD ...
  wanted=$1; says=$2; shift 2
  "$program" "$@" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq "$wanted" && grep -q -- "$says" "$dir/err" || fail "$*: exit $status, $(cat "$dir/err")"
}
refused 2 'nobody has edited it' note --accept-edit "$run"
edit() { # PLACE: another byte there, whatever it was
  test "$(od -An -tx1 -j "$1" -N 1 "$dir/edited.h5" | tr -d ' ')" = 78 && byte=y || byte=x
  printf '%s' "$byte" | dd of="$dir/edited.h5" bs=1 seek="$1" conv=notrunc 2> /dev/null
}
size=$(wc -c < "$run")
cp "$run" "$dir/edited.h5"
edit $((size / 2))
for command in export show resume rerun plot note; do
  series=; test $command = export && series=loss
  # shellcheck disable=SC2086
  refused 1 "maxlogit note --accept-edit $dir/edited.h5" $command "$dir/edited.h5" $series
done
# where the byte is of no account (HDF5 leaves holes) the numbers are what they were
"$program" export "$run" loss > "$dir/a"
found=0
for part in 1 2 3 4 5 6 7 8 9; do
  cp "$run" "$dir/edited.h5"
  edit $((size * part / 10))
  note --accept-edit "$dir/edited.h5"; status=$?
  if test $status -eq 0; then
    "$program" export "$dir/edited.h5" loss | cmp -s - "$dir/a" || fail "damage at $part / 10 is accepted"
  else
    grep -q 'damaged\|cannot be read\|not a run file\|are gone' "$dir/err" || fail "damage at $part / 10: exit $status, $(cat "$dir/err")"
    found=$((found + 1))
  fi
done
test $found -gt 3 || fail "damage is found $found times of 9"
python=$(python_with h5py)
if test "$python"; then
  cp "$run" "$dir/edited.h5"
  $python -c "
import h5py, sys
f = h5py.File('$dir/edited.h5', 'r+')
f['series/loss'][3] = 7.5
f['series/loss'].attrs['why'] = 'a test'
f.close()" || fail "h5py"
  refused 2 "maxlogit note --accept-edit $dir/edited.h5" export "$dir/edited.h5" loss
  note --accept-edit "$dir/edited.h5" 'the logger was wrong' || fail "accept: $(cat "$dir/err")"
  note "$dir/edited.h5"; grep -q 'edited by another program .*: the logger was wrong' "$dir/out" || fail "not a note: $(cat "$dir/out")"
  "$program" show --events "$dir/edited.h5" | tail -n 1 | grep -q '^45 edited - - ' || fail "no event of the edit"
  "$program" export "$dir/edited.h5" loss | grep -q '^3 7.5$' || fail "the edit is gone"
  "$program" export "$dir/edited.h5" attn/max_logit > "$dir/a"; "$program" export "$run" attn/max_logit | cmp -s - "$dir/a" || fail "more than the edit has changed"
  refused 1 'loss differs at step 3: 7.5 the first time' rerun -q "$dir/edited.h5" -o "$dir/third.h5"
  refused 2 'nobody has edited it' note --accept-edit "$dir/edited.h5"
  head -c $((size / 2)) "$run" > "$dir/edited.h5"
  refused 1 "cut short: $((size / 2)) bytes of at least" note --accept-edit "$dir/edited.h5"
  "$program" show --events "$run" | grep -q edited && fail "the whole file has such an event"
else
  echo "h5py: skipped, not installed"
fi

refused 2 'which run' note
refused 2 'one text' note "$run" two words
refused 2 'not a note' note "$run" ''
refused 2 'cannot read\|No such file' note "$dir/nothing.h5" text
refused 2 'not an HDF5 file' note "$dir/first" text
test ! -e "$dir/first.lock" && test ! -e "$dir/nothing.lock" || fail "something is left beside what is not a run"
checkpoint=$(find "$dir/run.ckpt" -name 'step-*.h5' | tail -n 1)
refused 2 'a checkpoint, not a run' note "$checkpoint" text
exec 9> "$dir/run.lock"
if command -v flock > /dev/null && flock -n 9; then
  cp "$run" "$dir/before.h5"
  refused 1 'another process is writing this run' note "$run" text
  cmp -s "$run" "$dir/before.h5" || fail "a run that is being written has got a note"
fi
exec 9>&-
# the parameters of a run that has replaced another do not replace it when they are run again
small_run again record.overwrite=1
"$program" show --parameters "$dir/again.h5" > "$dir/again.conf"
grep -q '^record.path = ' "$dir/again.conf" && ! grep -q overwrite "$dir/again.conf" || fail "parameters: $(cat "$dir/again.conf")"
"$program" run -q "$dir/again.conf" 2> "$dir/err"; test $? -eq 2 || fail "a run was replaced: $(cat "$dir/err")"

# without its checkpoints a run that has ended keeps its rows
cp "$dir/again.h5" "$dir/alone.h5"
"$program" resume -q "$dir/alone.h5" train.steps=99 2> "$dir/err"; test $? -eq 2 || fail "resume without checkpoints: $(cat "$dir/err")"
grep -q 'so no step can follow' "$dir/err" && cmp -s "$dir/again.h5" "$dir/alone.h5" || fail "resume without checkpoints: $(cat "$dir/err")"

# a page removes nothing where no page was, and keeps no series of the runs that it had before
mkdir -p "$dir/page/data"; touch "$dir/page/data/900.max.js"
"$program" report "$dir/again.h5" -o "$dir/page" > /dev/null 2>&1 && test -e "$dir/page/data/900.max.js" || fail "report"
printf 'step,x\n0,1\n' > "$dir/few.csv"; for name in mine 2023.sales -7.max 01.max 7.most; do touch "$dir/page/data/$name.js"; done
if "$program" import "$dir/few.csv" -o "$dir/few.h5" > /dev/null 2>&1; then
  "$program" report --bare "$dir/few.h5" -o "$dir/page" > /dev/null 2>&1 || fail "report of few series"
  test "$(LC_ALL=C ls "$dir/page/data")" = "$(printf '%s.js\n' -7.max 0.max 01.max 2023.sales 7.most events index mine | LC_ALL=C sort)" || fail "left in the page: $(ls "$dir/page/data")"
fi
finish
