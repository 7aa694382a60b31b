#!/bin/sh
# rerun: the same run again with more recorded; what it had is there to the bit, else the run stays as it was
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
run=$dir/run.h5
small_run run preset=muonclip qk_clip.tau=2 record.spectra_every=0 checkpoint.every=20
old() { for s in loss lr grad_norm val_loss attn/max_logit attn/entropy qk_clip/gamma; do "$program" export "$run" $s || fail "export $s"; done
  "$program" show --events "$run" | awk '$2 == "clip"'; }
old > "$dir/first"
test "$(grep -c clip "$dir/first")" -gt 3 || fail "nothing was clipped"
cp "$run" "$dir/kept.h5"

refused() { # STATUS WHAT-IT-SAYS WORD ...
  wanted=$1; says=$2; shift 2
  "$program" rerun -q "$run" "$@" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq "$wanted" && grep -q -- "$says" "$dir/err" || fail "rerun $*: exit $status, $(cat "$dir/err")"
  cmp -s "$run" "$dir/kept.h5" || fail "rerun $* has changed the run"
}
refused 2 'train.lr would make another run' train.lr=0.02
refused 2 'train.steps would make another run' train.steps=50
refused 2 'the run keeps its file' record.path="$dir/x.h5"
refused 2 "did you mean 'record.probe_every'" record.probe_evry=1
refused 1 'attn/entropy: the row of step 1 was recorded the first time' record.every=2
grep -q 'run.h5 is kept as it was' "$dir/err" || fail "it is not said what is where: $(cat "$dir/err")"
test -e "$dir/run.rerun.h5" || fail "a rerun that differs has left nothing"
refused 2 'b.rerun.h5, as it does what a stopped one left: give another name' -o "$dir/b.rerun.h5"
cp "$dir/run.rerun.h5" "$dir/left.h5"
echo mine > "$dir/run.rerun.h5"
refused 2 'run.rerun.h5 exists, and is not of a rerun of this run' record.probe_every=10
test "$(cat "$dir/run.rerun.h5")" = mine || fail "rerun has replaced a file that is not its own"
mv "$dir/left.h5" "$dir/run.rerun.h5"
"$program" rerun "$dir/nothing.h5" 2> /dev/null; test $? -eq 2 || fail "rerun of nothing"

# the first time's limit of time is not this one's; a run that diverged and failed by it is the same again, too
"$program" run -q train.max_time=1e-9 train.steps=9 model.width=16 model.heads=2 data=markov record.path="$dir/short.h5" 2> /dev/null
test $? -eq 75 || fail "no limit of time"
"$program" rerun "$dir/short.h5" -o "$dir/long.h5" > "$dir/out" 2> "$dir/err" || fail "rerun under a limit of time: exit $?, $(cat "$dir/err")"
"$program" run -q train.lr=1e30 train.steps=9 train.on_nonfinite=fail model.width=16 model.heads=2 data=markov record.path="$dir/fell.h5" 2> /dev/null
test $? -eq 3 || fail "no divergence"
"$program" rerun "$dir/fell.h5" > "$dir/out" 2> "$dir/err" || fail "rerun of a divergence: exit $?, $(cat "$dir/err")"
grep -q 'the same to the bit' "$dir/out" || fail "rerun of a divergence says nothing"
test -z "$(find "$dir" -name 'fell.rerun*')" || fail "left behind: $(find "$dir" -name 'fell.rerun*')"

# refused because its text has changed: nothing is left, and it can be repeated when the text is back
text=$dir/text.txt
seq 2000 > "$text"
"$program" run -q train.steps=5 model.width=16 model.heads=2 checkpoint.every=2 checkpoint.keep=all data=bytes data.path="$text" record.path="$dir/texts.h5" || fail "a run of a text"
seq 2001 > "$text"
for more in "" "--from=2"; do
  # shellcheck disable=SC2086 # none or one word
  "$program" rerun -q "$dir/texts.h5" $more 2> "$dir/err" && fail "a rerun of another text"
  grep -q 'makes other numbers\|not the data of this run' "$dir/err" || fail "another text: $(cat "$dir/err")"
  test -z "$(find "$dir" -name 'texts.rerun*')" || fail "left by a refused rerun: $(find "$dir" -name 'texts.rerun*')"
done
# nothing is written before that: a checkpoint of weights from elsewhere could be read by others meanwhile
for n in 1 2 3 4 5; do
  MAXLOGIT_FAULT=io:$n:eio "$program" rerun -q "$dir/texts.h5" 2> "$dir/err" && fail "a rerun of another text"
  grep -q 'makes other numbers\|cannot lock' "$dir/err" || fail "a rerun of another text has written before: $(cat "$dir/err")"
done
seq 2000 > "$text"
# a journal of another program, such as hledger's, stays; and no part of a name is a command for the terminal
echo '2026-01-01 rent' > "$dir/texts.journal"
name=$dir/$(printf 'a\033[31m.h5')
cp "$dir/texts.h5" "$name"
"$program" rerun "$name" > "$dir/out" 2> "$dir/err" || fail "a rerun of a strange name: $(cat "$dir/err")"
! grep -q "$(printf '\033')" "$dir/out" || fail "an escape sequence of a name: $(cat "$dir/out")"
"$program" rerun -q "$dir/texts.h5" 2> "$dir/err" || fail "a rerun of the same text: $(cat "$dir/err")"
cp "$dir/texts.h5" "$dir/texts.kept"
for command in "resume -q $dir/texts.h5 train.steps=7" \
  "run -q record.overwrite=1 train.steps=5 model.width=16 model.heads=2 data=markov record.path=$dir/texts.h5"; do
  # shellcheck disable=SC2086 # words
  "$program" $command > "$dir/out" 2> "$dir/err"; test $? -eq 2 || fail "$command: not refused"
  grep -q 'texts.journal is of another program' "$dir/err" || fail "$command: $(cat "$dir/err")"
done
test "$(cat "$dir/texts.journal")" = '2026-01-01 rent' || fail "a journal of another program is lost"
cmp -s "$dir/texts.h5" "$dir/texts.kept" || fail "a run was changed although its journal is of another program"
rm "$dir/texts.journal" "$dir/texts.kept" "$name"
# numbers that a user has added stay: no file is written anew without them
if "$PYTHON" -c 'import h5py' 2> /dev/null; then
  for place in mine/analysis series/mine parameters/mine; do
    cp "$dir/texts.h5" "$dir/mine.h5"
    "$PYTHON" -c 'import h5py, sys; h5py.File(sys.argv[1], "r+", libver=("v110", "v110"))[sys.argv[2]] = [1.0, 2.0]' "$dir/mine.h5" $place
    "$program" note --accept-edit "$dir/mine.h5" "my analysis" > /dev/null || fail "an edit"
    for command in "rerun -q" "resume -q"; do
      more=; test "$command" = "rerun -q" || more=train.steps=9
      # shellcheck disable=SC2086 # words
      "$program" $command "$dir/mine.h5" $more 2> "$dir/err"; test $? -eq 2 || fail "$command loses what was added"
      grep -q "/$place, which maxlogit did not write" "$dir/err" || fail "$command: $(cat "$dir/err")"
    done
  done
  "$program" rerun -q "$dir/mine.h5" -o "$dir/added.h5" || fail "a rerun of what has additions into another file"
  rm -rf "$dir"/mine.* "$dir"/added.*
fi
# a text that others cannot read is not copied into a run that they can
chmod 600 "$text"
chmod 755 "$dir"
"$program" rerun -q "$dir/texts.h5" || fail "a rerun of a private text"
"$program" rerun -q "$dir/texts.h5" record.batches=1 > "$dir/out" 2> "$dir/err"; test $? -eq 2 || fail "a private text in an open run"
grep -q 'text.txt is closed to users who could read its copy' "$dir/err" || fail "a private text: $(cat "$dir/err")"
(umask 022; "$program" run -q train.steps=5 model.width=16 model.heads=2 data=bytes data.path="$text" record.path="$dir/copies.h5" record.batches=1)
test "$(stat -c %a "$dir/copies.h5")" = 600 || fail "a private text in a new run"
if test "$(id -u)" -eq 0; then # the text is open to another group than that of new files; a folder's default ACL puts the umask out of use
  chgrp 4242 "$text" && chmod 640 "$text"
  (umask 022; "$program" run -q train.steps=5 model.width=16 model.heads=2 data=bytes data.path="$text" record.path="$dir/gid.h5" record.batches=1)
  test "$(stat -c %a "$dir/gid.h5")" = 600 || fail "a text of a group in a run of another: $(stat -c %a "$dir/gid.h5")"
  mkdir "$dir/team" && chgrp 4242 "$dir/team" && chmod 2775 "$dir/team"
  (umask 022; "$program" run -q train.steps=5 model.width=16 model.heads=2 data=bytes data.path="$text" record.path="$dir/team/new/it.h5" record.batches=1)
  test "$(stat -c %a "$dir/team/new/it.h5")" = 640 || fail "a text of a group in a run of that group: $(stat -c %a "$dir/team/new/it.h5")"
  chgrp 0 "$text" && chmod 600 "$text"
  mkdir "$dir/acl"
  if python3 -c 'import os, struct, sys
os.setxattr(sys.argv[1], "system.posix_acl_default", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", t, 7, 2**32 - 1) for t in (1, 4, 32)))' "$dir/acl" 2> /dev/null; then
    "$program" run -q train.steps=5 model.width=16 model.heads=2 data=bytes data.path="$text" record.path="$dir/acl/new/it.h5" record.batches=1
    open=$(find "$dir/acl/new" -perm /077)
    "$program" resume -q "$dir/acl/new/it.h5" train.steps=7 || fail "a private run in a folder with a default ACL, resumed"
    test -e "$dir/acl/new/it.ckpt" && test -z "$open" || fail "in a folder with a default ACL others have rights in: $open"
    chmod 640 "$text" # as its list's mask has it: another user than the owner may read it, its group may not
    python3 -c 'import os, struct, sys
os.setxattr(sys.argv[1], "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *x)
  for x in ((1, 6, 2**32 - 1), (2, 4, 4242), (4, 0, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1))))' "$text"
    "$program" run -q train.steps=5 model.width=16 model.heads=2 data=bytes data.path="$text" record.path="$dir/list.h5" record.batches=1
    test "$(stat -c %a "$text" "$dir/list.h5" | tr '\n' ' ')" = "640 600 " || fail "a text with an access list: $(stat -c %a "$text" "$dir/list.h5")"
    cp "$dir/texts.h5" "$dir/listed.h5" && rm -rf "$dir/listed.ckpt" && cp -r "$dir/texts.ckpt" "$dir/listed.ckpt" && chmod 640 "$dir/listed.h5"
    python3 -c 'import os, sys; os.setxattr(sys.argv[2], "system.posix_acl_access", os.getxattr(sys.argv[1], "system.posix_acl_access"))' \
      "$text" "$dir/listed.h5"
    "$program" resume -q "$dir/listed.h5" train.steps=8 record.batches=1 2> "$dir/err" && fail "a private text in a run with an access list"
    grep -q 'text.txt is closed' "$dir/err" || fail "a run with an access list: $(cat "$dir/err")"
    python3 -c 'import os, sys; os.removexattr(sys.argv[1], "system.posix_acl_access")' "$text" && chmod 600 "$text"
  else echo "no access control lists in $dir: not tested"; fi
fi
chmod 644 "$dir/copies.h5"
"$program" run -q train.steps=5 model.width=16 model.heads=2 data=bytes data.path="$text" record.path="$dir/copies.h5" record.batches=1 record.overwrite=1
test "$(stat -c %a "$dir/copies.h5")" = 600 || fail "a private text in a new run over an open one"
"$program" resume -q "$dir/copies.h5" train.steps=7 || fail "a private text in its private run, resumed"
"$program" resume -q "$dir/texts.h5" train.steps=8 record.batches=1 2> "$dir/err"; test $? -eq 2 || fail "a private text in a resumed run"
grep -q 'text.txt is closed' "$dir/err" || fail "a private text, resumed: $(cat "$dir/err")"
chmod 600 "$dir/texts.h5"
"$program" rerun -q "$dir/texts.h5" record.batches=1 || fail "a private text in a private run"
test "$(stat -c %a "$dir/texts.h5")" = 600 || fail "a private run is now open"

# killed between its last checkpoint and its end, then extended: no row stays that was there only for that end
for k in 26 28 30 32 34 36; do
  rm -rf "$dir"/ended.*
  MAXLOGIT_FAULT=io:$k:kill "$program" run -q model.layers=1 model.width=16 train.steps=6 record.every=2 checkpoint.every=4 record.path="$dir/ended.h5" 2> /dev/null
  "$program" resume -q "$dir/ended.h5" train.steps=10 || fail "an extension of what was killed at call $k"
  "$program" export "$dir/ended.h5" loss | awk '!/#/ { printf "%s ", $1 }' > "$dir/out"
  grep -qx '0 2 4 6 8 9 ' "$dir/out" || fail "killed at call $k and extended, it has rows $(cat "$dir/out")"
  "$program" rerun -q "$dir/ended.h5" || fail "a rerun of what was killed at call $k and extended"
done
"$program" run -q model.layers=1 model.width=16 train.steps=0 record.every=2 record.path="$dir/empty.h5" &&
  "$program" resume -q "$dir/empty.h5" train.steps=2 || fail "an extension of a run without steps"

# if it cannot take its place, both the run and the repetition stay
cp "$dir/texts.h5" "$dir/texts.kept"
lost=0
for n in $(seq 60); do
  MAXLOGIT_FAULT=io:$n:eio "$program" rerun -q "$dir/texts.h5" > /dev/null 2> "$dir/err" && { cp "$dir/texts.kept" "$dir/texts.h5"; continue; }
  grep -q 'cannot sync folder' "$dir/err" || cmp -s "$dir/texts.h5" "$dir/texts.kept" || fail "a rerun that failed at write $n has changed the run"
  grep -q 'cannot write .*texts.h5' "$dir/err" || continue
  lost=$((lost + 1))
  test -e "$dir/texts.rerun.h5" || fail "a rerun that failed at write $n is lost: $(cat "$dir/err")"
done
test $lost -gt 0 || fail "no rerun has failed at its last write"
rm -rf "$dir"/texts.rerun.* "$dir/texts.kept"

# checkpoints of another run that was at that name stay
mkdir "$dir/texts.rerun.ckpt" "$dir/other.ckpt" && cp "$dir"/texts.ckpt/* "$dir/texts.rerun.ckpt/" && cp "$dir"/texts.ckpt/* "$dir/other.ckpt/"
for more in "" "-o$dir/other.h5"; do
  # shellcheck disable=SC2086 # none or one word
  "$program" rerun -q "$dir/texts.h5" $more 2> "$dir/err"; test $? -eq 2 || fail "a rerun over checkpoints of another run"
  grep -q 'ckpt is of a run that was at .* (--output takes another name)' "$dir/err" || fail "checkpoints of another run: $(cat "$dir/err")"
done
test "$(find "$dir/texts.rerun.ckpt" "$dir/other.ckpt" -type f | wc -l)" = $((2 * $(find "$dir/texts.ckpt" -type f | wc -l))) || fail "a rerun has removed checkpoints of another run"
rm -r "$dir/texts.rerun.ckpt" "$dir/other.ckpt"

# rows that a killed run has appended to its journal do not come back in the run that takes its place
MAXLOGIT_FAULT=io:40:kill "$program" run -q train.steps=400 checkpoint.every=10 model.width=16 model.heads=2 data=markov record.path="$dir/died.h5" 2> /dev/null
test -s "$dir/died.journal" || fail "a killed run has no journal: $(ls "$dir")"
"$program" rerun -q "$dir/died.h5" 2> "$dir/err" || fail "rerun of a killed run: exit $?, $(cat "$dir/err")"
test ! -e "$dir/died.journal" || fail "the journal of a killed run is left beside its rerun"

# into another file
"$program" rerun "$run" record.probe_every=10 -o "$dir/more.h5" > "$dir/out" 2> "$dir/err" || fail "rerun -o: $(cat "$dir/err")"
cmp -s "$run" "$dir/kept.h5" || fail "rerun -o has changed the run"
"$program" export "$dir/more.h5" probe/max_logit > /dev/null || fail "rerun -o has no probe"
"$program" rerun "$run" -o "$dir/more.h5" > /dev/null 2>&1; test $? -eq 2 || fail "rerun -o over a file"

# in its place
"$program" rerun "$run" record.probe_every=10 record.spectra_every=20 device.threads=2 > "$dir/out" 2> "$dir/err" ||
  fail "rerun: $(cat "$dir/err")"
grep -q 'the same to the bit in [0-9]* series' "$dir/out" || fail "rerun says nothing: $(cat "$dir/out")"
old | cmp -s - "$dir/first" || fail "a series is not what it was"
"$program" export "$run" probe/max_logit | grep -c -v '^#' | grep -qx 4 || fail "no probe"
"$program" export "$run" weight/spectral_norm > /dev/null || fail "no spectra"
test -z "$(find "$dir" -name 'run.rerun*')" || fail "left behind: $(find "$dir" -name 'run.rerun*')"
test -d "$dir/run.ckpt" || fail "its checkpoints are gone"
"$program" resume "$run" train.steps=45 -q 2> "$dir/err" || fail "it cannot go on: $(cat "$dir/err")"

# from a checkpoint on: only what comes after it is computed, and compared
run=$dir/part.h5
small_run part preset=muonclip qk_clip.tau=2 record.spectra_every=0 checkpoint.every=10 checkpoint.seconds=0 checkpoint.keep=all record.every=3
old > "$dir/first"
cp "$run" "$dir/kept.h5"
"$program" rerun "$run" --from 25 record.probe_every=1 -o "$dir/from.h5" > "$dir/out" 2> "$dir/err" || fail "rerun --from: $(cat "$dir/err")"
grep -q 'from step 20 on' "$dir/out" || fail "--from 25: $(cat "$dir/out")"
test "$("$program" export "$dir/from.h5" probe/max_logit | grep -v '^#' | cut -d' ' -f1 | tr '\n' ' ')" = "$(seq 20 39 | tr '\n' ' ')" ||
  fail "--from 25: probes at $("$program" export "$dir/from.h5" probe/max_logit | grep -v '^#' | cut -d' ' -f1 | tr '\n' ' ')"
"$program" rerun -q "$run" --from 10 record.spectra_every=5 > "$dir/out" 2> "$dir/err" || fail "rerun --from in place: $(cat "$dir/err")"
old | cmp -s - "$dir/first" || fail "rerun --from: a series is not what it was"
"$program" export "$run" weight/spectral_norm | grep -v '^#' | head -n 1 | grep -q '^10 ' || fail "rerun --from: spectra"
test "$(find "$dir" -name 'part.ckpt' | wc -l)" -eq 1 && test "$(find "$dir/part.ckpt" -name 'step-*' | wc -l)" -eq 5 || fail "rerun --from: the checkpoints are not what they were"
"$program" rerun -q "$run" --from 40 record.probe_every=1 -o "$dir/end.h5" > "$dir/out" 2> "$dir/err" || fail "rerun --from the end: $(cat "$dir/err")"
"$program" resume "$dir/from.h5" train.steps=45 -q 2> "$dir/err" || fail "what was repeated in part cannot go on: $(cat "$dir/err")"
cp "$dir/kept.h5" "$run"
rm "$dir/part.ckpt/step-00000000.h5" "$dir/part.ckpt/step-00000010.h5"
refused 2 'no checkpoint up to step 15' --from 15
# checkpoints of another run are none of this one's; those from before it was made longer are
small_run other preset=muonclip qk_clip.tau=2 record.spectra_every=0 checkpoint.every=10 checkpoint.seconds=0 \
  checkpoint.keep=all record.every=3 train.seed=2
mv "$dir/part.ckpt" "$dir/own"
cp -r "$dir/other.ckpt" "$dir/part.ckpt"
refused 2 'part.h5: its checkpoint of step 20 is of another run' --from 25
for words in "eval $run" "spectra $run" "export --safetensors $run" "run -q train.init_from=$run record.path=$dir/third.h5"; do
  # shellcheck disable=SC2086
  "$program" $words > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && grep -q 'part.h5: its checkpoint of step 40 is of another run' "$dir/err" || fail "$words: exit $status, $(cat "$dir/err")"
done
small_run third train.init_from="$dir/part.ckpt/step-00000040.h5" # which is named itself
"$program" resume -q "$run" train.steps=45 2> "$dir/err"
test $? -eq 2 && grep -q 'part.h5: its checkpoint of step 40 is of another run' "$dir/err" || fail "resume from another's state: $(cat "$dir/err")"
cmp -s "$run" "$dir/kept.h5" || fail "resume from another's state has changed the run"
rm -r "$dir/part.ckpt"
cp -r "$dir/own" "$dir/part.ckpt"
"$program" resume -q "$run" train.steps=45 2> "$dir/err" || fail "longer: $(cat "$dir/err")"
rm -r "$dir/part.ckpt"
cp -r "$dir/own" "$dir/part.ckpt"
"$program" resume -q "$run" train.steps=50 2> "$dir/err" || fail "longer again, from before: $(cat "$dir/err")"
"$program" export "$run" loss | tail -n 1 | grep -q '^49 ' || fail "longer again: $("$program" export "$run" loss | tail -n 1)"
rm -r "$dir/part.ckpt"
mv "$dir/own" "$dir/part.ckpt"
cp "$dir/kept.h5" "$run"
for i in 1 2; do # of the same words, trained on another text
  awk -v i=$i 'BEGIN { for (k = 0; k < 999; k++) printf "%s", substr("abcabd", k * (4 * i - 3) % 6 + 1, 1) }' > "$dir/text$i"
  small_run on$i data=bytes data.path="$dir/text$i" checkpoint.every=10 checkpoint.seconds=0
done
rm -r "$dir/on1.ckpt"
mv "$dir/on2.ckpt" "$dir/on1.ckpt"
"$program" resume -q "$dir/on1.h5" train.steps=45 2> "$dir/err"
test $? -eq 2 && grep -q 'on1.h5: its checkpoint of step 40 is of another run' "$dir/err" || fail "resume from a state of other data: $(cat "$dir/err")"
# a run in a folder where nobody may write is repeated elsewhere
as=
mkdir "$dir/read-only" "$dir/open"
cp "$dir/on1.h5" "$dir/read-only/a.h5"
chmod 555 "$dir/read-only"; chmod 777 "$dir/open"; chmod 755 "$dir"
test "$(id -u)" -eq 0 && as="setpriv --reuid=65534 --clear-groups"
if $as "$program" --version > /dev/null 2>&1; then
  $as "$program" rerun -q "$dir/read-only/a.h5" -o "$dir/open/a.h5" 2> "$dir/err" || fail "rerun -o of a run that is read-only: $(cat "$dir/err")"
  $as "$program" rerun -q "$dir/read-only/a.h5" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 1 && grep -q 'cannot lock .*read-only/a.lock' "$dir/err" || fail "rerun of a run that is read-only: exit $status, $(cat "$dir/err")"
fi
chmod 755 "$dir/read-only"
refused 2 "rerun --from: 'soon' is not a whole number" --from soon
refused 2 'nothing to repeat from step 41 on, this run ended after 40' --from 41
python=$(python_with h5py)
if test "$python"; then
  # rows of a slower repetition than the checkpoint's: their time is the repetition's, too
  cp "$run" "$dir/slow.h5"
  cp -r "$dir/part.ckpt" "$dir/slow.ckpt"
  $python -c "
import h5py
f = h5py.File('$dir/slow.h5', 'r+')
f['timing/seconds'][0] += 1000" && "$program" note --accept-edit "$dir/slow.h5" 2> "$dir/err" || fail "edit: $(cat "$dir/err")"
  "$program" rerun -q "$dir/slow.h5" --from 30 -o "$dir/slower.h5" > "$dir/out" 2> "$dir/err" || fail "rerun --from of a slower one: $(cat "$dir/err")"
  "$program" show --json "$dir/slower.h5" | grep -q '"wall_seconds": 1[0-9][0-9][0-9]' || fail "after rows of 1000 s: $("$program" show --json "$dir/slower.h5" | grep -o '"wall_seconds": [^,]*')"
  # a number that is not that of the run
  $python -c "
import h5py
f = h5py.File('$run', 'r+')
f['series/loss'][-1] += 1" && "$program" note --accept-edit "$run" 2> "$dir/err" || fail "edit: $(cat "$dir/err")"
  cp "$run" "$dir/kept.h5"
  refused 1 'loss differs at step 39' --from 30
fi
# a run of no step has no row, killed and resumed too
nothing() { "$program" run -q model.layers=1 model.width=16 model.heads=2 model.context=8 train.steps=0 device.threads=1 record.path="$dir/$1.h5"; }
nothing zero || fail "a run of no step"
"$program" export "$dir/zero.h5" val_loss | grep -q '^[0-9]' && fail "a row without a step"
resumed=0
for k in 10 14 18 22 26; do
  rm -rf "$dir"/none.*
  MAXLOGIT_FAULT=io:$k:kill nothing none 2> /dev/null
  test -f "$dir/none.h5" && "$program" resume -q "$dir/none.h5" && resumed=$((resumed + 1))
  if test -f "$dir/none.h5" && "$program" export "$dir/none.h5" val_loss | grep -q '^[0-9]'; then fail "killed at call $k, resumed: a row without a step"; fi
done
test "$resumed" -gt 0 || fail "no run of no step was resumed"
finish
