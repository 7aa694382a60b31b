#!/bin/sh
# show, watch and spectra: tables, JSON that is JSON, a watcher that ends with the run
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
for seed in 1 2; do small_run "clip-$seed" preset=muonclip train.seed=$seed qk_clip.tau=2; done
small_run broken preset=adam train.lr=1e6 train.warmup=0

# a run whose losses are all lost says so, and where its largest logit was; a NaN has no sign
"$program" run model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4 train.steps=40 preset=adam \
  train.lr=1e30 train.warmup=0 train.val_every=1 record.path="$dir/lost/a.h5" > "$dir/out" 2> "$dir/err" || fail "lost"
grep -q '^  loss *train nan  validation nan' "$dir/out" && grep -q '^  max logit  last nan (layer' "$dir/out" ||
  fail "a run that is lost: $(cat "$dir/out")"
"$program" eval "$dir/lost/a.h5" > "$dir/lost/out" || fail "eval of a run that is lost"
grep -q -e '-nan' "$dir/out" "$dir/lost/out" && fail "a NaN with a sign: $(cat "$dir/out" "$dir/lost/out")"

# the first NaN stays the peak, of a run that goes on, too, and of one that is resumed
"$program" run model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4 train.steps=6 preset=adam checkpoint.every=3 \
  train.lr=1e30 train.warmup=0 train.on_nonfinite=continue record.path="$dir/lost/b.h5" > "$dir/out" 2> "$dir/err" || fail "lost, and goes on"
"$program" resume "$dir/lost/b.h5" train.steps=9 > "$dir/more" 2> "$dir/err" || fail "lost, and resumed: $(cat "$dir/err")"
first=$("$program" export "$dir/lost/b.h5" attn/max_logit --reduce=max | awk '$2 == "NaN" { print $1; exit }')
test "$(grep -h -c "peak nan at step $first (layer" "$dir/out" "$dir/more" | tr '\n' ' ')" = '1 1 ' || fail "the peak of a run that is lost is not at step $first: $(cat "$dir/out" "$dir/more")"

# show: one line a run; the numbers are those that export gives
"$program" show "$dir" > "$dir/table" || fail "show"
test "$(grep -c . "$dir/table")" -eq 4 || fail "show: one line a run, and one above"
grep 'broken.h5' "$dir/table" | grep -q diverged || fail "show: a diverged run is not called so"
peak=$("$program" export "$dir/clip-1.h5" attn/max_logit --reduce=max |
  awk '!/^#/ && $2 + 0 > m { m = $2 + 0 } END { printf "%.4g", m }')
grep 'clip-1.h5' "$dir/table" | grep -q -F " $peak L" || fail "show: peak max logit is not $peak"
clips=$("$program" show --events "$dir/clip-1.h5" | awk '$2 == "clip"' | grep -c .)
test "$clips" -gt 0 || fail "no clip seen at a threshold of 2"
# keys in which runs differ are columns; of a group whose runs differ in one it is empty
for width in 8 16; do small_run "width-$width" preset=adam model.width=$width train.lr=0.0$width; done
"$program" show "$dir"/width-*.h5 | awk '
  NR == 1 { for (i = 1; i <= NF; i++) if ($i == "width") from_end = NF - i }
  NR > 1 { if ("width-" $(NF - from_end) ".h5" != $NF) bad = 1 }
  END { exit bad || !from_end || NR != 3 }' || fail "show: no column width: $("$program" show "$dir"/width-*.h5)"
column_of() { awk -F, -v key="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == key) at = i } NR > 1 { printf "%s;", at ? $at : "none" }'; }
for key in model.width:8\;16\; train.lr:0.08\;0.016\; train.steps:none\;none\;; do
  found=$("$program" show --csv --sort model.width "$dir"/width-*.h5 | column_of "${key%%:*}")
  test "$found" = "${key#*:}" || fail "show --csv: ${key%%:*} is $found"
done
found=$("$program" show --csv --group "$dir"/width-*.h5 | column_of model.width)
test "$found" = '8;16;' || fail "show --csv --group: model.width is $found"
found=$("$program" show --csv --by kind "$dir"/width-*.h5 | column_of model.width)
test "$found" = ';' || fail "show --csv --by kind: model.width is $found"
rm -r "$dir"/width-*
# of many keys those in which only presets differ are named below; presets, and keys in which runs of one preset differ, are columns
small_run preset-1 preset=deepseek_v3 train.lr=0.01
small_run preset-2 preset=deepseek_v3 train.lr=0.01 train.weight_decay=0.3
small_run preset-3 preset=gemma2 train.lr=0.02
for of in "" "--of=loss,train.lr"; do
  # shellcheck disable=SC2086 # no word, or one
  "$program" show ${of%,*} "$dir"/preset-*.h5 > "$dir/table" || fail "show of presets"
  awk -v of="$of" 'NR == 1 { n = NF; if ($(n - 2) != "weight_decay" || $(n - 1) != "preset") bad = 1; for (i = 1; i <= n; i++) rate += $i == "lr" }
    NR > 1 && NR < 5 { if ($NF ~ /-3/ ? $(NF - 1) != "gemma2" : $(NF - 1) != "deepseek_v3" || ($NF ~ /-2/) != ($(NF - 2) == 0.3)) bad = 1 }
    NR > 4 { below = below $0; if (length($0) > 100) bad = 1 }
    END { exit bad || rate != 1 || below !~ /^The presets differ.* model.attention,.* model.window,/ || below ~ /weight_decay|train\.lr/ }' "$dir/table" ||
    fail "show $of of presets: $(cat "$dir/table")"
done
"$program" show --csv "$dir"/preset-*.h5 | head -n 1 | grep -q 'model.attention.*model.window.*train.weight_decay' || fail "show --csv of presets"
rm -r "$dir"/preset-*

# sensitivity to the rate: computed anew from the runs' losses; a run that blew up counts with its first loss
"$program" sweep -q preset=muon,adam train.lr=0.01,0.1,1000 train.seed=1,2 model.width=16 model.heads=2 model.context=16 \
  train.steps=30 sweep.dir="$dir/rates" > "$dir/out" 2> "$dir/err" || fail "sweep of rates: $(cat "$dir/err")"
"$program" show --sensitivity "$dir/rates" > "$dir/sensitivity" || fail "show --sensitivity"
"$program" show --json --sensitivity "$dir/rates" > "$dir/json" || fail "show --sensitivity --json"
is_json "$dir/json" "show --sensitivity --json"
for run in "$dir"/rates/*.h5; do
  "$program" show --json "$run" | jq -r '.[0] | [.kind, .seed, .lr, .state, .val_loss] | @tsv' | tr '\n' '\t'
  "$program" export "$run" loss | grep -v '^#' | head -n 1
done > "$dir/losses"
test "$(grep -c 'blown-up\|diverged' "$dir/losses")" -gt 1 || fail "no run at the rate 1000 failed: $(cat "$dir/losses")"
awk -F '\t' '{ split($6, start, " "); loss = $4 == "finished" && $5 < start[2] ? $5 : start[2]; at = $1 " " $2
    sum[at] += loss; if (!(at in least) || loss < least[at]) least[at] = loss }
  END { for (at in sum) { split(at, part, " "); mean[part[1]] += (sum[at] / 3 - least[at]) / 2 } for (kind in mean) printf "%s %.4f\n", kind, mean[kind] }' \
  "$dir/losses" | sort > "$dir/expected"
jq -r '.[] | "\(.group) \(.sensitivity.mean)"' "$dir/json" | awk '{ printf "%s %.4f\n", $1, $2 }' | sort | diff "$dir/expected" - ||
  fail "show --sensitivity: not what the losses of the runs give"
awk 'NR == FNR { want[$1] = $2; next } $1 in want { n += $4 == want[$1] } END { exit n != 2 }' "$dir/expected" "$dir/sensitivity" ||
  fail "show --sensitivity: $(cat "$dir/sensitivity")"
for wrong in 'trian.lr:did you mean' 'train.steps:--by names' 'kind:has no such number'; do
  "$program" show --sensitivity="${wrong%%:*}" "$dir/rates" 2>&1 | grep -q -e "${wrong#*:}" || fail "show --sensitivity=${wrong%%:*}: no '${wrong#*:}'"
done
"$program" show --sensitivity --where 'train.lr<1' "$dir/rates" 2>&1 | grep -q '2 of 2 values' || fail "show --sensitivity of two values"
# a run that failed needs no validation; runs that have not finished are noted
mkdir "$dir/few"
for rate in 0.01 0.02 1e30; do
  for seed in 1 2; do
    small_run "few/$rate-$seed" preset=adam train.seed=$seed train.lr=$rate train.warmup=0 train.val_every=0
  done
done
test "$("$program" show --json "$dir/few" | jq '[.[] | select(.val_loss == null)] | length')" = 2 || fail "a failed run has a val_loss"
counts=$("$program" show --json --sensitivity "$dir/few" | jq -r '.[] | "\(.seeds) \(.failed) \(.unfinished)"')
test "$counts" = '2 2 0' || fail "show --sensitivity: failed runs without val_loss: $counts"
rm -r "$dir"/few/0.02-*
for seed in 1 2; do
  "$program" run --quiet preset=adam train.seed=$seed train.lr=0.02 model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4 \
    train.steps=1000000 train.warmup=0 train.val_every=10 device.threads=1 train.max_time=0.5 record.path="$dir/few/stopped-$seed.h5" > /dev/null 2>&1
done
"$program" show --sensitivity "$dir/few" | tail -1 | grep -q '2 runs have not finished' || fail "show --sensitivity of runs that have not finished"
rm -r "$dir/few"
rm -r "$dir/rates"
for option in "" --group --parameters --events; do
  # shellcheck disable=SC2086
  "$program" show --json $option "$dir" > "$dir/json" || fail "show --json $option"
  is_json "$dir/json" "show --json $option"
done
for command in "list" "list preset" "doctor" "eval $dir/clip-1.h5" "eval --decode=materialised $dir/clip-1.h5"; do
  # shellcheck disable=SC2086
  "$program" ${command%% *} --json ${command#"${command%% *}"} > "$dir/json" 2> "$dir/err" || fail "$command --json"
  is_json "$dir/json" "$command --json"
done
"$program" show --json --events "$dir/broken.h5" | grep -q '"kind": "nonfinite".*"value": "\(NaN\|-*Infinity\)"' ||
  fail "JSON: a value that is not finite is not its text: $("$program" show --json --events "$dir/broken.h5")"
"$program" show --group "$dir" | grep -q '^muonclip  *2 .*\[[0-9.]*, [0-9.]*\] .*\[[0-9.]*, [0-9.]*\]' || fail "show --group: intervals of two seeds"
"$program" show --parameters "$dir/clip-1.h5" > "$dir/again.conf" || fail "show --parameters"
"$program" run --dry-run "$dir/again.conf" > "$dir/out" 2> "$dir/err" ||
  fail "its parameters are no configuration: $(cat "$dir/err")"
"$program" show "$dir/table" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "show of no run file: exit $status"

# spectra: sigma_1 <= Frobenius norm, ranks between 1 and the smaller side, entropy in [0, 1]
"$program" spectra "$dir/clip-1.h5" > "$dir/spectra" 2> "$dir/err" || fail "spectra: $(cat "$dir/err")"
awk '!/^#/ && / [0-9]+x[0-9]+ / { n++; s = $(NF-5); f = $(NF-4); h = $(NF-3); p = $(NF-2); r = $(NF-1); k = $(NF) # mawk of 2026 forgets NF after $NF
  if (!(s <= f * 1.00001 && h >= 0 && h <= 1.00001 && p >= 0.99999)) bad = 1
  if (!(r >= p * 0.99999 && k >= 0.99999 && k <= p * 1.00001)) bad = 1
  }
  /^l[0-9]h[0-9] / && NF == 6 { heads++; if (!($3 > 0 && $4 <= $3 * 1.00001 && $5 > 0 && $5 <= 1)) bad = 1 } # bounds
  END { exit bad || n < 14 || heads != 4 }' "$dir/spectra" || fail "spectra: impossible numbers: $(cat "$dir/spectra")"
for what in 'blocks.1.attn.w_q ' 'l0h0 w_q ' 'l1h1 w_k ' 'l1h0 w_q^T w_k '; do
  grep -q -F "$what" "$dir/spectra" || fail "spectra: no line $what"
done
"$program" spectra --json "$dir/clip-1.h5" "$dir/clip-2.h5" > "$dir/json" || fail "spectra --json"
is_json "$dir/json" "spectra --json"
"$program" spectra "$dir/table" > "$dir/out" 2> "$dir/err" && fail "spectra of no checkpoint"

# watch: every row once, as plain lines, and it ends by itself
"$program" run --quiet model.width=16 model.heads=2 model.context=16 train.steps=300 \
  record.path="$dir/live.h5" &
runner=$!
while ! test -e "$dir/live.h5"; do sleep 0.05; done
timeout 60 "$program" watch "$dir/live.h5" > "$dir/watched" 2> "$dir/err" || fail "watch: $(cat "$dir/err")"
wait $runner
grep -q "finished after 300 steps" "$dir/err" || fail "watch does not tell the end: $(cat "$dir/err")"
grep -q "$(printf '\033')" "$dir/watched" && fail "watch: escape codes in a pipe"
awk '{ if ($1 != "step" || $2 != n++) bad = 1 } END { exit bad }' "$dir/watched" ||
  fail "watch: rows missing or twice"
"$program" watch "$dir/nothing.h5" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "watch of no run: exit $status"

# a line a row of export --follow, also of a run in parts
small_run parts record.every=3 train.steps=20
small_run thinner record.every=30 && "$program" resume -q "$dir/thinner.h5" train.steps=42 record.every=1
"$program" show "$dir/thinner.h5" 2>&1 > "$dir/out" | grep -q '1 run has recorded not every step' || fail "a peak of some steps passes for the run's after a resume"
"$program" show "$dir/parts.h5" 2>&1 > "$dir/out" | grep -q '1 run has recorded not every step' || fail "a peak of some steps passes for the run's"
"$program" show "$dir/parts.h5" --events 2>&1 > "$dir/out" | grep -q . && fail "events are of every step"
"$program" resume -q "$dir/parts.h5" train.steps=40 || fail "resume to the end"
"$program" export "$dir/parts.h5" loss | grep -v '^#' | cut -d ' ' -f 1 > "$dir/steps"
"$program" export --follow "$dir/parts.h5" | grep -v '^step' | cut -f 1 > "$dir/lines"
cmp -s "$dir/lines" "$dir/steps" || fail "lines of the steps $(xargs < "$dir/lines"), rows of $(xargs < "$dir/steps")"
finish
