#!/bin/sh
# shellcheck disable=SC2086 # lists of settings
# What a run leaves and tells, in each situation it can be in: fresh, of no step, stopped, killed, resumed, longer, repeated
# as a whole and in part, begun from another's weights, diverged, locked, on a full disk. Of each: the exit status, both
# outputs to the letter, whose numbers are those of the file, the state, every event of its bookkeeping, its checkpoints,
# and that nothing else lies there.
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
cd "$dir" || exit 99
tiny='model.layers=2 model.width=8 model.heads=2 model.context=6 train.batch=2 train.warmup=2 train.val_every=3
  train.val_batches=1 record.spectra_every=0 device.threads=1 checkpoint.seconds=0'
described() { # LR OPTIMIZER
  echo "maxlogit: 2 layers, width 8, 2 heads, context 6 (mha); $2, lr $1, stabilizers none; built-in chain, 64 symbols, lag 4, entropy 1.5064 nat"
}
ours=$(described 0.01 muon) # what is told before the first step

# go STATUS WORD...: in `at`, out and err
go() {
  wanted=$1; shift
  "$program" "$@" > out 2> err < /dev/null; status=$?
  sed -i '/^maxlogit: warning: the base kernels /d' err
  test $status -eq "$wanted" || fail "$*: exit $status, not $wanted: $(cat out err)"
}
silent() { test ! -s out && test ! -s err || fail "$1: not silent: $(cat out err)"; }
says() { # WHAT TEXT: that alone, on standard error
  test ! -s out && test "$(cat err)" = "$2" || fail "$1: $(cat out err), not $2"
}
column() { "$program" export "$1" "$2" 2> /dev/null | sed '/^#/d'; }
# The summary of a run, from the rows of its file: HOW (finished, ...) FILE STEPS, to the end.
summary() {
  { column "$2" loss | sed 's/^/loss /'; column "$2" val_loss | sed 's/^/val /'; column "$2" attn/max_logit | sed 's/^/max /'; } |
    awk -v how="$1" -v file="$2" -v steps="$3" '
      function larger(a, b) { return tolower(b) != "nan" && (tolower(a) == "nan" || a + 0 > b + 0) }
      function number(x, form) { return tolower(x) == "nan" ? "nan" : sprintf(form, x) }
      $1 == "loss" { loss = $3; rows++ }
      $1 == "val" { val = $3 }
      $1 == "max" {
        last = $3; last_at = 0
        for (i = 4; i <= NF; i++) if (larger($i, last)) { last = $i; last_at = i - 3 }
        if ($2 == 0 || larger(last, peak)) { peak = last; peak_at = last_at; peak_step = $2 }
      }
      END {
        printf "%s after %d step%s (T s)\n", how, steps, steps == 1 ? "" : "s"
        if (rows) {
          printf "  loss       train %s  validation %s  (the source'"'"'s entropy rate is 1.506) nat/token\n", number(loss, "%.3f"), number(val, "%.3f")
          printf "  max logit  last %s (layer %d, head %d)", number(last, "%.4g"), int(last_at / 2), last_at % 2
          printf "  peak %s at step %d (layer %d, head %d)\n", number(peak, "%.4g"), peak_step, int(peak_at / 2), peak_at % 2
        }
        printf "  record     %s\n", file
        if (how == "stopped") printf "go on with\n  maxlogit resume %s\n", file
        else if (how != "finished" || tolower(loss) ~ /nan|inf/) printf "try next\n  maxlogit show --why %s\n  maxlogit plot %s\n", file, file
        else printf "try next\n  maxlogit plot %s\n  maxlogit show %s\n%s  maxlogit help\n", file, file, (peak > 30 ? "  maxlogit run preset=muonclip qk_clip.tau=30\n" : "")
      }'
}
after() { printf '%s\nmaxlogit: goes on after step %s of %s' "$ours" "$1" "$2"; }
# told NAME HOW STEPS DESCRIPTION
told() {
  summary "$2" "$1.h5" "$3" > want
  sed 's/^\([a-z]* after [0-9]* steps*\) ([0-9]*\.[0-9] s)$/\1 (T s)/' out > have
  cmp -s want have || fail "$1: it says otherwise: $(diff want have)"
  test "$(cat err)" = "$4" || fail "$1: on standard error: $(cat err)"
}
# left NAME STATE STEPS 'EVENT...' 'CHECKPOINT...': what its folder and its file have
left() {
  name=$1
  events=$("$program" show --events "$name.h5" | awk '!/^#/ && $2 !~ /^(nonfinite|spike|clip)$/ { printf "%s:%s ", $2, $1 }')
  test "$events" = "${4:+$4 }" || fail "$name: events '$events', not '$4'"
  checkpoints=
  for file in "$name".ckpt/*; do
    test -e "$file" || continue
    case $file in */step-????????.h5) checkpoints="$checkpoints $(echo "${file##*/step-}" | sed 's/^0*\(.*[0-9]\)\.h5$/\1/')" ;; *) fail "$name: $file" ;; esac
  done
  test "${checkpoints# }" = "$5" || fail "$name: checkpoints $checkpoints, not $5"
  "$program" show --json "$name.h5" > json 2> /dev/null
  grep -q "\"state\": \"$2\", \"steps\": $3," json || fail "$name: not $2 after $3 steps: $(cat json)"
  others=
  for file in "$name".*; do
    case ${file#"$name"} in .h5 | .ckpt) ;; *) others="$others $file" ;; esac
  done
  test -z "$others" || fail "$name: there are$others, too"
  # a line for each row, with its loss; and time passes, though not much
  short='NF { printf "%s %s\n", $1, ($2 ~ /[Nn]a[Nn]/ ? "NaN" : sprintf("%.6g", $2)) }'
  column "$name.h5" loss | awk "$short" > rows
  "$program" export --follow "$name.h5" | sed 1d | awk "$short" > lines
  cmp -s rows lines || fail "$name: rows and lines differ: $(diff rows lines | head -n 4)"
  wall=$(sed -n 's/.*"wall_seconds": \([^,]*\),.*/\1/p' json)
  awk -v t="$wall" -v steps="$3" 'BEGIN { exit !(t >= 0 && t < 120 && (steps == 0 || t > 0)) }' || fail "$name: $wall s"
}
rows() { test "$(column "$1.h5" "$2" | cut -d ' ' -f 1 | tr '\n' ' ')" = "$3 " || fail "$1: $2 at $(column "$1.h5" "$2" | cut -d ' ' -f 1 | tr '\n' ' '), not $3"; }

# fresh; quiet; a step; none; and what is only looked at
go 0 run $tiny train.steps=7 record.path=a.h5; told a finished 7 "$ours"; left a finished 7 checkpoint:7 7
rows a loss '0 1 2 3 4 5 6'; rows a val_loss '0 3 6 7'
go 0 run -q $tiny train.steps=7 record.path=q.h5; silent quiet; left q finished 7 checkpoint:7 7
go 0 run $tiny train.steps=1 record.path=b.h5; told b finished 1 "$ours"; left b finished 1 checkpoint:1 1
go 0 run $tiny train.steps=0 record.path=n.h5; told n finished 0 "$ours"; left n finished 0 checkpoint:0 0
go 0 run -n $tiny record.path=dry.h5; test ! -s err && ! ls dry.* > /dev/null 2>&1 || fail "a dry run: $(cat err; ls)"
go 0 run $tiny train.steps=8 record.path=c.h5 checkpoint.every=3 checkpoint.keep=all record.every=3
told c finished 8 "$ours"; left c finished 8 'checkpoint:0 checkpoint:3 checkpoint:6 checkpoint:8' '0 3 6 8'; rows c loss '0 3 6 7'
go 2 run $tiny train.steps=7 record.path=a.h5
says 'over a run' 'maxlogit: a.h5 exists: `maxlogit resume a.h5` continues it, record.overwrite=1 replaces it'
go 0 run $tiny train.steps=2 record.path=q.h5 record.overwrite=1; told q finished 2 "$ours"; left q finished 2 checkpoint:2 2
(mkdir own && cd own && "$program" run -q $tiny train.steps=1 preset=muonclip && "$program" run -q $tiny train.steps=1 && ls runs) > out 2> err
test "$(sed 's/-[0-9a-f]\{12\}\./-ID./' out | tr '\n' ' ')" = 'muon-ID.ckpt muon-ID.h5 muonclip-ID.ckpt muonclip-ID.h5 ' ||
  fail "names of runs: $(cat out err)"

# stopped by a limit of time, and by a signal; gone on with
go 75 run $tiny train.steps=7 train.max_time=1e-9 record.path=m.h5; told m stopped 0 "$ours"; left m stopped 0 checkpoint:0 0
go 75 resume m.h5; told m stopped 0 "$ours"; left m stopped 0 'resume:0 checkpoint:0' 0
go 0 resume m.h5 train.max_time=0; told m finished 7 "$ours"; left m finished 7 'resume:0 checkpoint:7' '0 7'
for s in loss grad_norm val_loss attn/max_logit lr; do test "$(column m.h5 $s)" = "$(column a.h5 $s)" || fail "m: $s is not that of a run in one go"; done
MAXLOGIT_FAULT=io:14:term; export MAXLOGIT_FAULT
go 75 run $tiny train.steps=20 checkpoint.every=5 record.path=s.h5
unset MAXLOGIT_FAULT
done=$("$program" show --json s.h5 | sed -n 's/.*"steps": \([0-9]*\),.*/\1/p')
test "$done" -gt 0 && test "$done" -lt 20 || fail "stopped after $done steps"
# points STEP FROM TO: where checkpoints of each so many steps are, from after a step to another, which has one, too
points() { { seq "$1" "$1" "$3"; echo "$3"; } | sort -nu | awk -v from="$2" '$1 > from { printf "%s%s", sep, $1; sep = " " }'; }
newest() { echo "$1" | tr ' ' '\n' | tail -n 2 | tr '\n' ' ' | sed 's/ $//'; }
events() { echo "$1" | sed 's/[0-9][0-9]*/checkpoint:&/g'; }
all=$(points 5 -1 "$done")
told s stopped "$done" "$ours"; left s stopped "$done" "$(events "$all")" "$(newest "$all")"
go 0 resume s.h5; told s finished 20 "$(after "$done" 20)"
left s finished 20 "$(events "$all" | sed "s/checkpoint:$done\$/resume:$done/") $(events "$(points 5 "$done" 20)")" '15 20'

# killed before the first checkpoint, and after it
for k in 9 21 36; do
  MAXLOGIT_FAULT=io:$k:kill; export MAXLOGIT_FAULT
  "$program" run $tiny train.steps=20 checkpoint.every=5 record.path=k$k.h5 > out 2> err
  unset MAXLOGIT_FAULT
  test ! -s out || fail "a run that was killed has told of its end: $(cat out)"
  last=$(ls k$k.ckpt 2> /dev/null | sed -n 's/^step-0*\([0-9]*\)\.h5$/\1/p' | tail -n 1)
  steps=$("$program" show --json k$k.h5 | sed -n 's/.*"steps": \([0-9]*\),.*/\1/p')
  begins=$ours
  test "$last" || test "$steps" = 0 || begins="maxlogit: warning: k$k.h5: no checkpoint is left of its $steps steps; it begins anew from step 0
$ours"
  test "${last:-0}" = 0 || begins=$(after "$last" 20)
  go 0 resume k$k.h5; told k$k finished 20 "$begins"
  before=$(points 5 0 "${last:-0}" | sed "s/ *\<${last:-0}\$//")
  left k$k finished 20 "$(test -z "$before" || echo "$(events "$before") ")resume:${last:-0} $(events "$(points 5 "${last:-0}" 20)")" '15 20'
  "$program" export --follow k$k.h5 > lines
  "$program" export --follow s.h5 | cmp -s - lines || fail "k$k: its rows are not those of another history"
done

# over; longer; shorter; a schedule that knows its end
go 0 resume a.h5; says 'resume of what is over' 'maxlogit: a.h5: nothing to do, this run is finished after 7 steps'
go 0 resume b.h5; says 'resume of a step' 'maxlogit: b.h5: nothing to do, this run is finished after 1 step'
go 0 resume a.h5 train.steps=10; told a finished 10 "$(after 7 10)"; left a finished 10 'resume:7 checkpoint:10' '7 10'
rows a val_loss '0 3 6 9 10'
go 2 resume a.h5 train.steps=9; says shorter 'maxlogit: train.steps = 9 is less than the run'"'"'s 10'
go 2 resume a.h5 train.batch=4
says 'another batch' 'maxlogit: train.batch would change the past of this run; resume takes train.steps (upwards, constant schedule), paths, threads and recording intervals; a new run from its weights: train.init_from=CHECKPOINT'
go 0 run -q $tiny train.steps=7 train.schedule=cosine record.path=w.h5
go 2 resume w.h5 train.steps=9
says 'a schedule' 'maxlogit: train.steps: the cosine schedule depends on it; only a constant schedule can be extended'
go 0 resume -q c.h5 train.steps=10; silent 'resume, quiet'; rows c loss '0 3 6 9'
left c finished 10 'checkpoint:0 checkpoint:3 checkpoint:6 resume:8 checkpoint:9 checkpoint:10' '0 3 6 8 9 10'

# once more
go 0 rerun a.h5
test "$(cat out)" = 'the same to the bit in 7 series and all events; before step 7, where it was resumed, in rows that it has
  record     a.h5' || fail "rerun: $(cat out)"
left a finished 10 checkpoint:10 '7 10'
go 0 rerun c.h5 --from 7 -o cc.h5; test "$(cat out)" = 'the same to the bit in 7 series and all events, from step 6 on; before step 8, where it was resumed, in rows that it has
  record     cc.h5' || fail "rerun in part: $(cat out)"
left cc finished 10 'checkpoint:0 checkpoint:3 rerun:6 checkpoint:9 checkpoint:10' '9 10'
go 2 rerun a.h5 --from 3; says 'rerun from nowhere' 'maxlogit: a.h5 has no checkpoint up to step 3'
go 2 rerun a.h5 --from 11; says 'rerun beyond' 'maxlogit: a.h5: nothing to repeat from step 11 on, this run ended after 10'

# from another's weights: validation begins where that one's ended
go 0 run $tiny train.steps=4 train.init_from=a.h5 record.path=i.h5; told i finished 4 "$ours"; left i finished 4 checkpoint:4 4
test "$(column i.h5 val_loss | sed -n '1s/^0 //p')" = "$(column a.h5 val_loss | sed -n '$s/^10 //p')" || fail "init_from: other weights"
mkdir seeds
for seed in 1 2; do "$program" run -q $tiny train.steps=2 train.seed=$seed record.path=seeds/$seed.h5 2> err || fail "seed $seed"; done
go 0 run -q $tiny train.steps=1 train.seed=2 train.init_from=seeds record.path=i2.h5
test "$(column i2.h5 val_loss | sed -n '1s/^0 //p')" = "$(column seeds/2.h5 val_loss | sed -n '$s/^2 //p')" || fail "a folder: not the run of this seed"
go 2 run $tiny train.seed=3 train.init_from=seeds record.path=i3.h5
says 'no such seed' 'maxlogit: train.init_from: seeds has no run with train.seed = 3 that is over'
cp seeds/2.h5 seeds/3.h5
go 2 run $tiny train.seed=2 train.init_from=seeds record.path=i3.h5
sed 's,seeds/[23]\.h5,FILE,g' err > have
test "$(cat have)" = 'maxlogit: train.init_from: FILE and FILE both have train.seed = 2' || fail "two of a seed: $(cat err)"
go 2 run $tiny model.width=16 train.init_from=a.h5 record.path=i3.h5
says 'another model' 'maxlogit: train.init_from: a.h5: embed is missing or not 64 x 16: another model'
go 2 run $tiny train.init_from=none.h5 record.path=i3.h5
says 'no weights' 'maxlogit: train.init_from: cannot read none.h5: No such file or directory'
"$program" run -q $tiny train.steps=3 train.seed=9 record.path=other.h5 2> err || fail other
go 75 run -q $tiny train.steps=9 train.max_time=1e-9 train.init_from=seeds/1.h5 record.path=i4.h5
rm -r i4.ckpt
cp other.h5 seeds/1.h5; cp other.ckpt/step-00000003.h5 seeds/1.ckpt/; rm seeds/1.ckpt/step-00000002.h5
go 2 resume i4.h5; says 'weights that are others now' 'maxlogit: train.init_from: seeds/1.h5: not the weights that this run started from'

# not finite: an end, a failure, or nothing to stop for
lost='optimizer=sgd train.lr=1e30 train.warmup=0 train.steps=7'
theirs=$(described 1e+30 sgd)
go 0 run $tiny $lost record.path=d.h5 record.every=4; rows d loss '0 1'; told d diverged 1 "$theirs"; left d diverged 1 '' 1
go 3 run $tiny $lost train.on_nonfinite=fail record.path=f.h5; told f diverged 1 "$theirs"; left f diverged 1 '' 1
go 0 run $tiny $lost train.on_nonfinite=continue record.path=g.h5; told g finished 7 "$theirs"; left g finished 7 checkpoint:7 7
go 0 resume d.h5; says 'resume of what diverged' 'maxlogit: d.h5: nothing to do, this run is diverged after 1 step'
go 2 resume d.h5 train.steps=9; says 'longer, diverged' 'maxlogit: d.h5: diverged at step 1; no step can follow'
go 0 rerun -q d.h5; silent 'rerun of a divergence'; left d diverged 1 '' 1
go 3 run -q $tiny $lost train.on_nonfinite=fail record.path=f.h5 record.overwrite=1; silent 'a failure, quiet'

# at work elsewhere; a full disk, which goes on with room; what is not a run
(flock -x 9; "$program" resume a.h5 train.steps=12 > out 2> err; echo $? > status) 9> a.lock
rm -f a.lock
test "$(cat status)" = 1; says locked 'maxlogit: a.lock is locked: another process is writing this run'
MAXLOGIT_FAULT=io:12:full; export MAXLOGIT_FAULT
go 1 run $tiny train.steps=20 checkpoint.every=2 record.path=full.h5
unset MAXLOGIT_FAULT
test ! -s out && test "$(cat err)" = "$ours
maxlogit: cannot write full.h5: No space left on device" || fail "a full disk: $(cat out err)"
go 0 resume full.h5; told full finished 20 "$ours"
left full finished 20 'resume:0 checkpoint:2 checkpoint:4 checkpoint:6 checkpoint:8 checkpoint:10 checkpoint:12 checkpoint:14 checkpoint:16 checkpoint:18 checkpoint:20' '18 20'
for s in loss val_loss attn/max_logit; do test "$(column full.h5 $s)" = "$(column s.h5 $s)" || fail "full: $s is not that of a run in one go"; done
go 2 resume none.h5; says 'no run' 'maxlogit: cannot read none.h5: No such file or directory'
echo words > words.h5
go 2 resume words.h5; test ! -s out && test "$(grep -c '^maxlogit: words.h5' err)" = 1 || fail "words: $(cat out err)"
finish
