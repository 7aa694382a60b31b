#!/bin/sh
# sweeps: arms beside products; longer runs go on from shorter ones, to the same bits; checkpoints that are dropped
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
cd "$dir" || exit 99
tiny='model.layers=1 model.width=16 model.heads=2 model.context=8 train.batch=2 train.steps=12 train.val_every=5 train.warmup=3 device.threads=1'
# shellcheck disable=SC2086
sweep() { "$program" sweep "$@" $tiny $more > out 2> err; }
more=

cat > a.conf <<'END'
train.seed = 1, 2
[arm muon]
optimizer = muon
train.lr = 0.01, 0.02
[arm clip]
preset = muonclip
qk_clip.tau = 30
[record]
spectra_every = 6
END
sweep a.conf --list || fail "--list: $(cat err)"
cut -f 4 out > labels
printf '%s\n' 'arm=muon train.seed=1 train.lr=0.01' 'arm=muon train.seed=1 train.lr=0.02' 'arm=muon train.seed=2 train.lr=0.01' \
  'arm=muon train.seed=2 train.lr=0.02' 'arm=clip train.seed=1' 'arm=clip train.seed=2' | cmp -s - labels || fail "the points: $(cat labels)"
sweep a.conf || fail "sweep: $(cat err)"
grep -q 'finished .*arm=clip train.seed=2$' out || fail "the table has no arms: $(cat out)"
"$program" show runs/a --by arm > out || fail "--by arm"
grep -q '^arm=clip  *2 ' out && grep -q '^arm=muon  *4 ' out || fail "--by arm: $(cat out)"
"$program" show runs/a --where arm=clip --by arm,qk_clip.tau | grep -q 'tau=30' || fail "an arm's key is not set"
"$program" show runs/a --where arm=muon --of loss --csv | grep -c . | grep -qx 5 || fail "--where arm"
sweep a.conf train.lr=0.03 --list; test "$(cut -f 2 out | sort -u | grep -c .)" -eq 4 || fail "a later key counts in every arm: $(cat out)"
sed 's/arm clip/arm other/' a.conf > b.conf
sweep b.conf sweep.dir=runs/a --list; grep -c 'lacks arm=other (has clip)' out | grep -qx 2 || fail "another name: $(cat out)"

wrong() { # WHAT-IT-SAYS FILE-TEXT
  printf "$2" > w.conf
  sweep w.conf --list; status=$?
  test $status -eq 2 && grep -q -- "$1" err || fail "$2: exit $status, $(cat err)"
}
wrong 'w.conf:3: there is this arm already: a' '[arm a]\ntrain.lr=1\n[arm a]\n'
wrong 'w.conf:1: the name of an arm is' '[arm a b]\n'
wrong 'w.conf:3: train.lr: given twice (first in line 2)' '[arm a]\ntrain.lr=1\ntrain.lr=2\n'
wrong "w.conf:2: lr: unknown key; did you mean 'train.lr'" '[arm a]\nlr=1\n'
wrong 'w.conf:2: arm: .arm NAME. sets it' '[arm a]\narm=b\n'
wrong "point 2 (arm=b)" '[arm a]\ntrain.lr=1\n[arm b]\ntrain.micro_batches=3\n'
# what an arm sets takes no values from the others
printf 'train.lr = 0.01, 0.02\n[arm x]\ntrain.warmup = 3\n[arm y]\ntrain.lr = 0.5\n' > f.conf
sweep f.conf --list; cut -f 4 out > labels
printf '%s\n' 'arm=x train.lr=0.01' 'arm=x train.lr=0.02' 'arm=y' | cmp -s - labels || fail "one arm's key in the other: $(cat out)"
"$program" run a.conf > out 2> err; test $? -eq 2 && grep -q 'for maxlogit sweep' err || fail "run takes arms: $(cat err)"

# longer
bits() { # FOLDER: every series and event of every run
  for run in "$1"/*.h5; do
    test "$("$program" show --parameters "$run" | sed -n 's/^train.steps = //p')" = "$2" || continue
    echo "${run##*/}"
    "$program" export --format=tsv "$run" loss lr grad_norm attn/max_logit attn/entropy qk_clip/gamma | grep -v '^#'
    for s in val_loss probe/max_logit weight/spectral_norm update/alignment; do "$program" export "$run" $s | grep -v '^#'; done
    "$program" show --events "$run" | awk '$2 != "checkpoint" && $2 != "resume"'
    "$program" export "$run" --safetensors=w --overwrite && cksum < w/model.safetensors
  done
}
printf 'preset = muonclip\nqk_clip.tau = 1\n[train]\nseed = 1, 2\n[arm x]\ntrain.lr = 0.03\n' > e.conf
more='record.every=7 record.probe_every=4 record.spectra_every=5'
sweep e.conf || fail "short: $(cat err)"
bits runs/e 12 > short
tiny="$tiny train.steps=29"
cp -r runs/e runs/named
cp -r runs/e runs/z
for run in runs/e/*.h5; do other=$run; done
for run in runs/e/*.h5; do cp "$run" "runs/named/${other##*/}"; break; done
sweep e.conf --list sweep.dir=runs/named; test "$(grep -c 'extends' out)" -eq 1 || fail "a run under another's name is gone on from: $(cat out)"
sweep e.conf --list; test "$(grep -c 'extends [0-9a-f]\{12\}$' out)" -eq 2 || fail "--list: $(cat out)"
sweep e.conf sweep.together=2 -j 1 || fail "longer: $(cat err)"
grep -q '2 of the runs go on from shorter ones' err || fail "it is not said: $(cat err)"
sweep e.conf sweep.dir=runs/fresh || fail "fresh: $(cat err)"
bits runs/fresh 29 > fresh
bits runs/e 29 | cmp -s - fresh || fail "longer is not what a run of the full length is: $(bits runs/e 29 | diff - fresh | head -n 5)"
test "$(grep -c 'h5$' fresh)" -eq 2 && grep -q ' clip ' fresh || fail "this is no test"
bits runs/e 12 | cmp -s - short || fail "the shorter runs are not what they were"
for run in runs/e/*.h5; do
  "$program" show --events "$run" | grep -q resume || continue
  "$program" show --parameters "$run" | grep -q "record.path = $run" || fail "a longer run tells another path"
  "$program" show --parameters "$run" | grep -q "arm = x" || fail "a longer run has lost its arm"
done
sed 's/arm x/arm z/' e.conf > z.conf
sweep z.conf sweep.dir=runs/z && grep -q '2 of the runs go on' err || fail "under another arm: $(cat err)"
for run in runs/z/*.h5; do
  "$program" show --events "$run" | grep -q resume || continue
  "$program" show --parameters "$run" | grep -q "arm = z" || fail "a longer run is of the shorter one's arm"
done
sweep e.conf; grep -q '2 runs, 2 of them done before' err || fail "again: $(cat err)"
# killed while it is made: a shorter run under the longer one's name is not a run
id=$(sweep e.conf --list; head -n 1 out | cut -f 2); seed=$("$program" show --parameters "runs/e/$id.h5" | grep '^train.seed = ')
short=$(for f in runs/e/*.h5; do "$program" show --parameters "$f" > parameters; grep -qx 'train.steps = 12' parameters && grep -qx "$seed" parameters && echo "$f"; done)
rm -r "runs/e/$id.ckpt"; cp "$short" "runs/e/$id.h5"
sweep e.conf || fail "after a kill: $(cat err)"
bits runs/e 29 | cmp -s - fresh || fail "after a kill: other bits"
# of several shorter ones the longest goes on
before=$tiny
tiny="$tiny train.steps=30"
sweep e.conf --list
for id in $(sed -n 's/.*extends //p' out); do "$program" show --parameters "runs/e/$id.h5"; done | grep -c '^train.steps = 29$' | grep -qx 2 ||
  fail "not the longest of the shorter runs: $(cat out)"
# where the past depends on the total, or the state is gone
for schedule in linear cosine; do
  tiny="$before"
  more="$more train.schedule=$schedule"
  sweep e.conf || fail "$schedule: $(cat err)"
  tiny="$tiny train.steps=31"
  sweep e.conf --list; grep -c "anew: the $schedule schedule depends on train.steps" out | grep -qx 2 || fail "$schedule: $(cat out)"
done
more="$more train.schedule=constant sweep.drop_checkpoints=1"
sweep e.conf || fail "drop: $(cat err)"
for i in $(sweep e.conf --list; cut -f 2 out); do test ! -e "runs/e/$i.ckpt" || fail "checkpoints are left: runs/e/$i.ckpt"; done
test -d "$(find runs/fresh -name '*.ckpt' | head -n 1)" || fail "others have lost theirs"
echo "train.lr = 0.01, 1e30" > l.conf
sweep l.conf optimizer=sgd checkpoint.every=1 sweep.dir=runs/lost || fail "drop of a run that diverges: $(cat err)"
grep -q diverged out && test "$(find runs/lost -name '*.h5' | wc -l)" = 2 || fail "what was dropped: $(cat out; find runs/lost)"
tiny="$tiny train.steps=33"
sweep e.conf --list; grep -c 'anew: [0-9a-f]* has lost its last checkpoint' out | grep -qx 2 || fail "dropped: $(cat out)"
finish
