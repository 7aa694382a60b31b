#!/bin/sh
# runs that failed: blown-up beside diverged wherever runs are counted; show --why, show --dead, and the last lines of a run
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
cd "$dir" || exit 1
small='model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4 train.steps=40 train.warmup=5 train.val_every=10
  device.threads=1'
show() { "$program" show "$@" 2> err || fail "show $*: $(cat err)"; }
has() { grep -q -e "$1" out || fail "$2: $(cat out)"; }
hasnt() { grep -q -e "$1" out && fail "$2: $(cat out)"; }
hint() { sed -n '/^try next$/,$p' out; }

# the last lines name the outcome, and their hints fit it
run() { file=$1; shift; "$program" run $small record.path="$file.h5" "$@" > out 2> err || fail "run $file: $(cat err)"; }
run ok preset=muon train.lr=0.01
has '^finished after 40 steps' "a healthy run"
hint | grep -q '^  maxlogit show ok.h5$' && ! hint | grep -q tau || fail "a healthy run's hints: $(cat out)"
run high preset=muon train.lr=0.01 train.plant=1:0:30
hint | grep -q '^  maxlogit run preset=muonclip qk_clip.tau=30$' || fail "hints of a run with logits above 30: $(cat out)"
run clipped preset=muonclip qk_clip.tau=2 train.lr=0.01
hint | grep -q '^  maxlogit show --events clipped.h5$' && ! hint | grep -q tau || fail "hints of a run with a clip: $(cat out)"
run blown preset=muon train.lr=10 train.seed=2
has '^blown up after 40 steps' "a run that blew up"
hint | grep -q '^  maxlogit show --why blown.h5$' && ! hint | grep -q tau || fail "hints of a run that blew up: $(cat out)"
run lost preset=adam train.lr=1e30 train.warmup=0 train.seed=3
has '^diverged after' "a run that diverged"
hint | grep -q '^  maxlogit show --why lost.h5$' && ! hint | grep -q tau || fail "hints of a run that diverged: $(cat out)"
cp blown.h5 again.h5

# the definition, from the losses alone: the mean of the last tenth, a tenth above the first, or above a guess once beaten
for name in ok blown; do
  "$program" export $name.h5 loss | awk -v name=$name '!/^#/ { x[n++] = $2; if (!low || $2 < low) low = $2 }
    END { for (i = 36; i < n; i++) mean += x[i] / 4; guess = log(64)
      print name, (mean > 1.1 * x[0] || (low < guess && mean > 1.1 * guess)) ? "blown-up" : "finished" }'
done > wanted
show --csv --of loss ok.h5 blown.h5 | tail -n +2 | awk -F, '{ sub(/\.h5/, "", $1); print $1, $5 }' | sort > out
sort wanted | cmp -s - out && grep -q '^blown blown-up$' out && grep -q '^ok finished$' out || fail "the definition: $(cat wanted out)"

# blown-up runs are counted beside diverged ones, and left out of means
show ok.h5 blown.h5 lost.h5 > out
grep 'blown.h5' out | grep -q ' blown-up ' && grep 'lost.h5' out | grep -q ' diverged ' && grep 'ok.h5' out | grep -q ' finished ' ||
  fail "states: $(cat out)"
show --by data ok.h5 blown.h5 lost.h5 > out
loss=$(show --json ok.h5 | sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' | awk '{ printf "%.4f", $1 }')
has " 3  *1  *1  *$loss " "groups"
has 'diverged or blew up are counted, and left out of every mean' "groups"
show --by data --json ok.h5 blown.h5 lost.h5 > out
has '"seeds": 3, "diverged": 1, "blown_up": 1, "unfinished": 0, "loss": {"n": 1' "groups as JSON"
show --by data --of loss ok.h5 blown.h5 lost.h5 > out
has ' 3 *1 *1 *[0-9.]* n=1$' "metrics of groups"
show --by data --csv --of loss ok.h5 blown.h5 lost.h5 > out
head -1 out | grep -q ',blown_up,train' && tail -1 out | grep -q ',1,,$' || fail "metrics of groups as CSV: $(cat out)"
show --json --of loss blown.h5 > out
has '"state": "blown-up"' "metrics of a run as JSON"
show --where state=blown-up ok.h5 blown.h5 lost.h5 > out
test "$(grep -c '\.h5' out)" = 1 && has 'blown.h5' "--where" || fail "--where state=blown-up: $(cat out)"
show --where state=finished ok.h5 blown.h5 lost.h5 > out
test "$(grep -c '\.h5' out)" = 1 && has 'ok.h5' "--where" || fail "--where state=finished: $(cat out)"
mkdir seeds
for seed in 1 2; do run seeds/$seed preset=muon train.lr=10 train.seed=$seed; done
run seeds/3 preset=muon train.lr=10 train.seed=3 train.steps=80
"$program" export --band seeds/1.h5 seeds/2.h5 loss > out 2>&1 || fail "export --band: $(cat out)"
has 'runs 0, 2 blown up and left out' "export --band"
MAXLOGIT_PLOTS=$(cd "$OLDPWD" && cd "$srcdir/plots" && pwd); export MAXLOGIT_PLOTS
"$program" plot --script --figure=loss ok.h5 blown.h5 seeds/1.h5 lost.h5 > out 2>&1 || fail "plot: $(cat out)"
has 'all 2 blown up; seed 1' "the note of a group"
has "(diverged)" "the note of a group"
"$program" compare ok.h5 blown.h5 train.lr=0.01 train.lr=10 --of loss > out 2>&1
"$program" run $small -q preset=muon train.lr=0.01 train.seed=2 record.path=ok2.h5 > out 2>&1
"$program" compare ok2.h5 blown.h5 --of loss > out 2>&1
has 'blown up  *1 pair with a run that blew up, left out' "compare"
"$program" compare --json ok2.h5 blown.h5 --of loss > out 2>&1
has '"pairs_diverged": 0, "pairs_blown_up": 1' "compare as JSON"
"$program" report seeds -o page > out 2>&1 || fail "report: $(cat out)"
grep -q '"state":"blown-up"' page/data/index.js || fail "the page has no blown-up run"

# sweep and tune: the fate stays, and is called by its name
printf 'optimizer = muon\ntrain.lr = 0.01, 10\ntrain.seed = 2\n' > s.conf
# shellcheck disable=SC2086
"$program" sweep s.conf $small sweep.dir=swept > out 2> err || fail "sweep: $(cat err)"
grep -q ' blown-up .*train.lr=10' out && grep -q ' finished .*train.lr=0.01' out || fail "sweep: $(cat out)"
grep -q '/2 .* blown-up train.lr=10' err || fail "progress of a sweep: $(cat err)"
printf 'optimizer = muon\ntrain.lr = 10\n' > t.conf
# shellcheck disable=SC2086
"$program" tune t.conf --seeds 1 -q $small sweep.dir=tuned > out 2> err
has '  1 blown up$' "tune"
# shellcheck disable=SC2086
"$program" tune t.conf --seeds 1 -q --json $small sweep.dir=tuned > out 2> err
has '"blown_up": 1' "tune as JSON"

# why: one sentence of a run that is well
show --why ok.h5 > out
test "$(wc -l < out)" = 1 && has '^ok.h5: nothing failed: finished after 40 steps, every loss, gradient norm and max logit is finite, loss ' "why of a healthy run"
# a diverged run: the first value that is not finite, all heads that share it, and the steps before
# a finite run whose logits pass 100: the first step of that, its head, and the largest; not where a clip holds them
run exploded preset=muon train.lr=1 train.weight_decay=0
show --why exploded.h5 > out
"$program" export exploded.h5 attn/max_logit 2> err | awk '!/^#/ {
    largest = $2; at = 0
    for (i = 3; i <= NF; i++) if ($i > largest) { largest = $i; at = i - 2 }
    if (!n && largest > 100) { n = 1; printf "above 100 for the first time at step %d; the largest is", $1; head = sprintf(" %d .* L%dH%d$", $1, at / 2, at % 2) }
    if (largest > peak) peak = largest
  } END { printf " %.4g\n%s\n", peak, head }' > wanted
has "^exploded.h5: logits exploded: finished after 40 steps"  "logits that exploded"
has "^  max logit         $(head -n 1 wanted)$" "why of logits that exploded"
has "^ *$(tail -n 1 wanted)" "the head of that step"
has '^  try .*show --parameters exploded.h5' "what to try"
show --why --json exploded.h5 > out
has '"what": "logits exploded", "step": [0-9]*,.*"head": "L[01]H[01]"' "logits that exploded, as JSON"
run held preset=muonclip qk_clip.tau=100 train.lr=1 train.weight_decay=0
show --why held.h5 > out
hasnt 'logits exploded' "logits that a clip holds"
show --why lost.h5 > out
step=$(show --events lost.h5 | awk '$2 == "nonfinite" { print $1; exit }')
heads=$(show --events lost.h5 | awk -v at="$step" '$1 == at && $2 == "nonfinite" && $3 != "-" { printf " L%dH%d", $3, $4 }')
test "$heads" = ' L0H0 L0H1 L1H0 L1H1' || fail "which heads: $(show --events lost.h5)"
has "first non-finite  step $step: loss NaN, gradient norm NaN, logits of 4 heads:$heads\$" "why"
before=$("$program" export lost.h5 loss grad_norm | awk -v at="$((step - 1))" '$1 == at { printf "%d %.4g %.4g", $1, $2, $3 }')
awk '$1 + 0 == $1 && NF == 5 { print $1, $2, $3 }' out | grep -qxF "$before" || fail "before it: $before, not $(cat out)"
has '^  clips  *none$' "no clip"
has "^  try  *maxlogit show --parameters lost.h5 > again.conf$" "try"
has "maxlogit run again.conf record.path= train.lr=3.333e+29$" "a third of the rate"
has "maxlogit run again.conf record.path= train.grad_clip=1$" "a clip of the gradient"
has "maxlogit rerun lost.h5 record.spectra_every=1 record.probe_every=1$" "a rerun that records more"
run bare preset=adam train.lr=1e30 train.warmup=0 record.spectra_every=0 record.probe_every=1
show --why bare.h5 > out
has "maxlogit rerun bare.h5 record.spectra_every=1$" "a rerun with spectra, where there were none"
# a blown-up run: the step at which the loss rose for good, and the series that grew most
show --why blown.h5 > out
has '^  loss rose  *for good at step [0-9]*; it began at ' "why of a run that blew up"
hasnt 'non-finite' "why of a run that blew up"
rose=$(sed -n 's/^  loss rose.*at step \([0-9]*\);.*/\1/p' out)
"$program" export blown.h5 loss | awk -v rose="$rose" '!/^#/ { if (!n++) limit = $2 < log(64) ? $2 : log(64)
  if ($1 >= rose && $2 <= limit) bad = 1; if ($1 == rose - 1 && $1 && $2 > limit) bad = 1 } END { exit bad || rose == "" }' ||
  fail "where it rose: step $rose, of $("$program" export blown.h5 loss)"
"$program" export blown.h5 attn/max_logit | awk '!/^#/ { for (i = 2; i <= NF; i++) { if (!n) first[i] = $i; last[i] = $i } n++ }
  END { for (i = 2; i <= NF; i++) if (last[i] / first[i] > most) { most = last[i] / first[i]; at = i }
  printf "L%dH%d %.4g %.4g %.4g\n", int((at - 2) / 2), (at - 2) % 2, first[at], last[at], most }' > wanted
awk '{ sub(/^  grew most /, "") } $1 == "attn/max_logit" { gsub(",", ""); print $2, $3, $7, $NF }' out | cmp -s - wanted ||
  fail "growth: $(cat wanted), not $(cat out)"
has 'maxlogit run again.conf record.path= stabilizers=qk_clip qk_clip.tau=30$' "a clip of logits"
sed -n 's/.*\(maxlogit .*\)/\1/p' out > hints
while read -r _ hint; do
  set -f
  # shellcheck disable=SC2086
  eval "\"$program\" $hint" > ran 2> err || fail "a hint: $hint: $(cat err)"
  set +f
done < hints
show --why blown.h5 > out
hasnt 'maxlogit rerun' "a hint to repeat a rerun"
show --why clipped.h5 --json > out
is_json out "why"
has '"what": "nothing failed"' "why as JSON"
show --why --json lost.h5 > out
is_json out "why"
has '"what": "not finite", "step": '"$step"', "loss": "NaN", "grad_norm": "NaN", "heads": \[{"layer": 0, "head": 0}' "why as JSON"
run both preset=muonclip train.lr=10 qk_clip.tau=1e-3
show --why both.h5 > out
n=$(show --events both.h5 | awk '$2 == "clip" { n++; seen[$3 " " $4] = 1; if (n == 1) from = $1; to = $1 }
  END { for (i in seen) k++; print n, "of", k, from, to }')
awk '$1 == "clips" { gsub(",", ""); print $2, $3, $4, $8, $11 }' out | grep -qxF "$n" || fail "clips: $n, not $(cat out)"
hasnt 'qk_clip.tau=30' "a clip for a run that has one"

# NaN has no sign, and an event without a layer or head has a -
show --events lost.h5 ok.h5 blown.h5 > out
hasnt ' -1 ' "events"
"$program" run $small -q preset=adam train.lr=1e30 train.warmup=0 train.on_nonfinite=continue record.path=on.h5 > out 2>&1
"$program" watch on.h5 > out 2> err || fail "watch: $(cat err)"
has 'loss nan  max logit nan' "watch"
hasnt '-nan' "watch"
"$program" watch lost.h5 2>&1 | grep -q 'maxlogit show --why .*lost.h5' || fail "watch names no post-mortem"

# dead heads: equal to those found in export's output; exact for a series made by hand
if imports; then
printf 'step,loss,attn/max_logit/l0h0,attn/max_logit/l0h1,attn/max_logit/l1h0,attn/max_logit/l1h1\n' > dead.csv
printf '%s\n' '0,4,10,10,10,10' '1,4,2,0.99,1,-1' '2,4,1.01,0.5,1,0.1' '3,4,5,1.99,1,2' '4,4,5,2,1,0.9' '5,4,5,0.7,1,1.9' >> dead.csv
"$program" import dead.csv -o dead.h5 > out 2>&1 || fail "import: $(cat out)"
show --dead dead.h5 > out
printf '%s\n' '0 1 attn/max_logit 1 10 0.5 4' '0 1 attn/max_logit 5 10 0.7 no' '1 1 attn/max_logit 1 10 -1 3' '1 1 attn/max_logit 4 10 0.9 no' > wanted
grep -v '^#' out | cmp -s - wanted || fail "dead heads: $(cat out)"
has '^# dead: below 0.1 of its start; back: at 0.2 of it again$' "the share"
show --dead=0.05 dead.h5 | grep -v '^#' > out
echo '1 1 attn/max_logit 1 10 -1 3' | cmp -s - out || fail "another share: $(cat out)"
show --dead --json dead.h5 > out
is_json out "dead heads"
has '"dead_heads": \[{"layer": 0, "head": 1, "series": "attn/max_logit", "died": 1, "start": 10, "least": 0.5, "back": 4}' "dead heads as JSON"
has '"died": 5, "start": 10, "least": 0.7[^}]*, "back": null}' "dead heads as JSON"
printf 'step,loss\n0,1\n1,1\n' > none.csv; "$program" import none.csv -o none.h5 > out 2>&1
# ... and marked in the figure of heads, each in its panel, at its step and height
show --dead dead.h5 | awk '!/^#/ { print $4, $1 * 2 + $2 + 1 }' | sort > wanted
"$program" plot --script --figure=heads dead.h5 2> /dev/null > script
awk '/^\$deaths/ { on = 1; next } /^EOD/ { on = 0 } on { print $1, $3 }' script | sort | cmp -s - wanted || fail "deaths in the figure: $(cat wanted; grep -A5 '^.deaths' script)"
grep -q "^array kind\[1\] = \['dead'\]" script || fail "a run without options has not the name of its file: $(grep '^array kind' script)"
grep -q '^1 0.99 2 1$' script || fail "the height of a death: $(grep -A5 '^.deaths' script)"
LC_ALL=C COLUMNS=60 "$program" plot -t --figure=heads dead.h5 2> err > out && grep -q 'x: a head died' out || fail "deaths in the terminal: $(cat err out)"
show --dead none.h5 | grep -q 'no series by head' || fail "no series of heads"
fi
show --dead ok.h5 > out
has '^ok.h5: no head died: none fell below 0.1 of its start in 3 series$' "no dead head"
# a max logit that clips lower is not a death; the norms still count
run tamed preset=muonclip qk_clip.tau=10 train.plant=0:1:30 record.spectra_every=10
"$program" export tamed.h5 attn/max_logit | awk '!/^#/ { if (!n++) start = $3; last = $3 } END { exit !(last < start / 10) }' || fail "no clip lowers a max logit"
show --dead tamed.h5 > out
hasnt '^0 1 attn/max_logit' "a clipped head"
has '^0 1 head_q/frobenius_norm 10 ' "the norms of a clipped head"
"$program" show --why --dead ok.h5 > out 2> err; test $? -eq 2 || fail "--why and --dead"
"$program" show --why --of loss ok.h5 > out 2> err; test $? -eq 2 || fail "--why and --of"
# clips of a layer's output are not clips of a head: the last head of the layer before may die, too
run fading preset=muon stabilizers=max_output_clip max_output_clip.tau=0.01 train.lr=0.02 train.weight_decay=5 train.steps=200
show --dead=0.5 fading.h5 | awk '$3 == "attn/max_logit" { printf "L%dH%d ", $1, $2 }' > out
test "$(cat out)" = 'L0H0 L0H1 L1H0 L1H1 ' || fail "deaths beside clips of layers: $(cat out)"
finish
