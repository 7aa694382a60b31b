#!/bin/sh
# record.dense: which rows there are follows from the maxima alone; the numbers are those of a run that records all;
# the same after kills, and in company
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
keys="preset=muonclip qk_clip.tau=2 train.steps=90 checkpoint.every=2 checkpoint.seconds=0"
dense="record.every=7 record.probe_every=25 record.spectra_every=25 record.dense=1.1 record.dense_around=3"
# shellcheck disable=SC2086
small_run all $keys record.probe_every=1 record.spectra_every=1
# shellcheck disable=SC2086
small_run run $keys $dense
of() { "$program" export "$dir/$1.h5" "$2" | grep -v '^#'; }
events() { "$program" show --events "$dir/$1.h5" | awk '$2 ~ /^dense/ { print $1, $2 }'; }
recorded() { for s in loss attn/max_logit qk_clip/gamma probe/max_logit weight/spectral_norm val_loss; do of "$1" $s || fail "export $1 $s"; done; events "$1"; }

# by the rule, from the maxima of the run that has them all: level 1.1 tau, 3 steps around, steps 0 .. 89
of all attn/max_logit | awk -v level=2.2 -v around=3 -v dir="$dir" '
  { max = $2; for (i = 3; i <= NF; i++) if ($i > max) max = $i; high[$1] = max > level }
  END {
    quiet = -1
    for (s = 0; s < 90; s++) {
      costly = quiet >= 0                  # known when the step begins
      if (costly || s % 25 == 0) probe[s] = 1
      if (high[s]) { if (quiet < 0) { print s, "dense" > (dir "/events"); for (k = s - around; k < s; k++) row[k] = 1 } quiet = 0 }
      else if (quiet >= 0 && ++quiet > around) { quiet = -1; print s, "dense_end" > (dir "/events") }
      if (costly || quiet >= 0 || s % 7 == 0 || s == 89) row[s] = 1
    }
    for (s = 0; s < 90; s++) { if (row[s]) print s > (dir "/rows"); if (probe[s]) print s > (dir "/probes") }
  }'
test "$(grep -c 'dense$' "$dir/events")" -gt 1 && grep -q dense_end "$dir/events" && test "$(wc -l < "$dir/rows")" -lt 85 ||
  fail "this run is no test: $(tr '\n' ' ' < "$dir/events"), $(wc -l < "$dir/rows") rows"
events run | cmp -s - "$dir/events" || fail "events: $(events run | tr '\n' ' '), not $(tr '\n' ' ' < "$dir/events")"
of run loss | cut -d' ' -f1 | cmp -s - "$dir/rows" || fail "rows: $(of run loss | cut -d' ' -f1 | tr '\n' ' '), not $(tr '\n' ' ' < "$dir/rows")"
of run probe/loss | cut -d' ' -f1 | cmp -s - "$dir/probes" || fail "probes: $(of run probe/loss | cut -d' ' -f1 | tr '\n' ' '), not $(tr '\n' ' ' < "$dir/probes")"
of run weight/spectral_norm | cut -d' ' -f1 | grep -vx 90 | cmp -s - "$dir/probes" || fail "spectra are not where the probes are"

# the same numbers, and not another run
for s in loss attn/max_logit attn/entropy qk_clip/gamma probe/max_logit weight/spectral_norm update/alignment; do
  of run $s > "$dir/some"
  of all $s | awk 'NR == FNR { wanted[$1] = 1; next } $1 in wanted' "$dir/some" - | cmp -s - "$dir/some" || fail "$s differs from that of the run that records all"
done
id() { "$program" show --json "$dir/$1.h5" | sed -n 's/.*"id": "\([0-9a-f]*\)".*/\1/p'; }
test "$(id run)" = "$(id all)" || fail "another id"

# killed again and again, and resumed
recorded run > "$dir/wanted"
kills=0
for k in 23 41 67 85 95 110; do
  rm -rf "$dir/killed.h5" "$dir/killed.ckpt" "$dir/killed.live.tsv" "$dir/killed.lock"
  # shellcheck disable=SC2086
  MAXLOGIT_FAULT=io:$k:kill "$program" run --quiet model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4 \
    train.warmup=5 train.val_every=10 device.threads=1 record.path="$dir/killed.h5" $keys $dense > /dev/null 2>&1
  test $? -eq 137 && kills=$((kills + 1))
  while ! MAXLOGIT_FAULT=io:$((k + 19)):kill "$program" resume -q "$dir/killed.h5" > /dev/null 2> "$dir/err"; do
    kills=$((kills + 1)); test $kills -lt 60 || { fail "no end: $(cat "$dir/err")"; break; }
  done
  recorded killed | cmp -s - "$dir/wanted" || fail "killed at call $k and resumed: other rows"
done
test $kills -gt 5 || fail "only $kills kills"

# in company
cat > "$dir/three.conf" <<END
[train]
seed = 1, 2, 3
END
# shellcheck disable=SC2086
"$program" sweep -q "$dir/three.conf" model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4 train.warmup=5 \
  train.val_every=10 device.threads=1 sweep.dir="$dir/three" sweep.together=3 -j 1 $keys $dense > "$dir/out" 2> "$dir/err" || fail "sweep: $(cat "$dir/err")"
mv "$dir/three/$(id run).h5" "$dir/company.h5"
recorded company | cmp -s - "$dir/wanted" || fail "in company: other rows"

# a level where there is no tau; off where nothing is above it
# shellcheck disable=SC2086
small_run level preset=muon train.steps=30 record.every=10 record.dense=0.02 record.dense_level=100 record.dense_around=2
events level | grep -q '^[0-9]* dense$' || fail "no level without a tau"
# shellcheck disable=SC2086
small_run never preset=muon train.steps=30 record.every=10 record.dense=1 record.probe_every=10 checkpoint.every=5
test -z "$(events never)" && test "$(of never loss | wc -l)" -eq 4 && test "$(of never probe/loss | wc -l)" -eq 3 || fail "dense without a reason"
finish
