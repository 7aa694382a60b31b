#!/bin/sh
# groups of runs: what is one group, what it is called, which runs count in its means
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
tiny() { name=$1; shift; small_run "$name" train.steps=2 train.val_every=1 "$@"; }
labels() { "$program" show --group "$@" > "$dir/out" 2> "$dir/err" || fail "show --group $*: $(cat "$dir/err")"
  sed -e '1d' -e '$d' -e 's/  *[0-9][0-9]*  *[0-9][0-9]*  .*//' "$dir/out"; }

# every preset is shown by its own name, also where later keys leave it as it is
mkdir "$dir/presets"
presets=$("$program" list preset | awk '{ print $1 }')
test "$(echo "$presets" | grep -c .)" -ge 12 || fail "list preset"
for preset in $presets; do
  tiny "presets/$preset" preset="$preset" train.lr=0.02
  "$program" show "$dir/presets/$preset.h5" | awk 'NR == 2 { print $1 }' | grep -qx "$preset" ||
    fail "$preset is called $("$program" show "$dir/presets/$preset.h5")"
done
labels "$dir/presets" | sort > "$dir/a"
echo "$presets" | sort | cmp -s - "$dir/a" || fail "a group of every preset: $(cat "$dir/a")"
"$program" show --json "$dir/presets/muon_split.h5" | grep -q '"preset": "muon_split", "kind": "muon_split"' ||
  fail "JSON does not tell the preset"

# stabilizers put on top of a preset are said; a preset that was overridden is not claimed
tiny on-top preset=muon_split stabilizers=qk_norm
tiny overridden preset=adam optimizer=muon stabilizers=soft_cap
labels "$dir/on-top.h5" | grep -qx 'muon_split+qk_norm' || fail "a stabilizer on top: $(cat "$dir/out")"
labels "$dir/overridden.h5" | grep -qx 'muon+soft_cap' || fail "an overridden preset: $(cat "$dir/out")"

# the same settings by a preset or by its keys: one group
mkdir "$dir/same"
tiny same/preset preset=muonclip train.seed=1
tiny same/keys optimizer=muon stabilizers=qk_clip train.seed=2
test "$("$program" show --group "$dir/same" | grep -c '^muonclip  *2 ')" -eq 1 || fail "a preset and its keys"

mkdir "$dir/given"
tiny given/whole preset=muon train.seed=1
tiny given/heads preset=muon muon.per_head=qkv train.seed=1
tiny given/clip preset=muonclip
tiny given/keys optimizer=muon muon.per_head=qkv train.seed=2
labels "$dir/given" > "$dir/a"
printf 'muon\nmuon per_head=qkv\nmuonclip\n' | cmp -s - "$dir/a" || fail "a preset with more: $(cat "$dir/out")"
grep -q 'per_head=qkv  *2 ' "$dir/out" || fail "a preset with more, and its keys: $(cat "$dir/out")"

# labels: the keys that differ, short unless they clash; none-values say nothing
mkdir "$dir/keys"
tiny keys/a preset=muon train.lr=0.01
tiny keys/b preset=muon train.lr=0.02
labels "$dir/keys" > "$dir/a"
printf 'muon lr=0.01\nmuon lr=0.02\n' | cmp -s - "$dir/a" || fail "labels: $(cat "$dir/a")"
tiny keys/c preset=muon train.lr=0.01 'override.lr=w_q:0.5'
labels "$dir/keys" > "$dir/a"
printf 'muon override.lr=w_q:0.5 train.lr=0.01\nmuon train.lr=0.01\nmuon train.lr=0.02\n' | sort > "$dir/b"
sort "$dir/a" | cmp -s - "$dir/b" || fail "labels that clash: $(cat "$dir/a")"

# data count by content: two texts are two groups whatever their names, one text under two names is one
mkdir "$dir/texts"
for i in 1 2; do
  seq 1 400 > "$dir/text$i"
  tiny "texts/$i" preset=muon data=bytes data.path="$dir/text$i" train.seed=$i
done
"$program" show --group "$dir/texts" | grep -q '^muon  *2 ' || fail "one text, two names: $("$program" show --group "$dir/texts")"
seq 2 401 > "$dir/text2"
tiny texts/2 preset=muon data=bytes data.path="$dir/text2" train.seed=2 record.overwrite=1
labels "$dir/texts" > "$dir/a"
printf 'muon text1\nmuon text2\n' | cmp -s - "$dir/a" || fail "two texts: $(cat "$dir/a")"

# so does what a run starts from; groups that no key tells apart are told apart all the same, each from all others
mkdir "$dir/starts"
tiny from checkpoint.every=1
cp "$dir/from.ckpt/step-00000001.h5" "$dir/first.h5"
cp "$dir/from.ckpt/step-00000001.h5" "$dir/copied.h5"
tiny starts/first preset=muon train.init_from="$dir/first.h5" train.seed=1
tiny starts/copied preset=muon train.init_from="$dir/copied.h5" train.seed=2
"$program" show --group "$dir/starts" | grep -q '^muon  *2 ' || fail "one start, two names: $("$program" show --group "$dir/starts")"
tiny starts/later preset=muon train.init_from="$dir/from.ckpt/step-00000002.h5" train.seed=1
labels "$dir/starts" | sort > "$dir/a"
[ "$(sort -u "$dir/a" | grep -c '^muon start of ')" = 2 ] || fail "two starts: $(cat "$dir/a")"
mkdir "$dir/in1" "$dir/in2" "$dir/both"
mv "$dir/text1" "$dir/in1/text"
mv "$dir/text2" "$dir/in2/text"
tiny on-text data=bytes data.path="$dir/in1/text" checkpoint.every=1
for i in 1 2; do
  for step in 1 2; do
    tiny both/$i$step preset=muon data=bytes data.path="$dir/in$i/text" train.init_from="$dir/on-text.ckpt/step-0000000$step.h5"
  done
done
labels "$dir/both" > "$dir/a"
[ "$(sort -u "$dir/a" | grep -c .)" = 4 ] || fail "four groups, not as many names: $(cat "$dir/a")"

# a copy is no second seed
cp "$dir/same/keys.h5" "$dir/same/copy.h5"
for command in "show --group" "show --group --json" "export --band"; do
  # shellcheck disable=SC2086
  "$program" $command "$dir/same" $(test "$command" = "export --band" && echo loss) > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 || fail "$command takes a copy: exit $status"
  grep -q 'same/copy.h5.*same/keys.h5.* same run' "$dir/err" || fail "$command of a copy: $(cat "$dir/err")"
done
"$program" show "$dir/same" > /dev/null || fail "show of a copy, one line a run"

# a group of which nothing is left has no mean
mkdir "$dir/broken"
tiny broken/1 preset=adam train.lr=1e4 train.warmup=0 train.steps=40
"$program" show --group --json "$dir/broken" > "$dir/json"
"$program" show --group "$dir/broken" > "$dir/out"
grep -q '^adam  *1  *1  *0  *-  *-  *-  *-  *-$' "$dir/out" || fail "only diverged: $(cat "$dir/out")"
grep -q '"seeds": 1, "diverged": 1, "blown_up": 0, "unfinished": 0, "loss": {"n": 0, "mean": null' "$dir/json" || fail "only diverged: $(cat "$dir/json")"
finish
