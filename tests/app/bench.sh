#!/bin/sh
# bench: what it prints is JSON, a later one can be held against it, and what it says it does
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
"$program" bench --json --products --stack=toy > "$dir/json" 2> "$dir/err" || fail "bench --products --json"
is_json "$dir/json" "bench --products --json"
test "$(grep -o '"gram_seconds": [0-9]' "$dir/json" | wc -l)" -eq 3 ||
  fail "bench --products does not compare both ways of Newton-Schulz"
"$program" bench --json --stack=toy --seconds=0.001 > "$dir/json" 2> "$dir/err" || fail "bench --json"
is_json "$dir/json" "bench --json"
# steps that took 1000 s then: the ratio and its interval
sed -E 's/"step_seconds": \[[^]]*\]/"step_seconds": [1000, 999, 1001]/g' "$dir/json" > "$dir/slow.json"
"$program" bench --stack=toy --seconds=0.001 --against="$dir/slow.json" > "$dir/out" 2> "$dir/err" || fail "bench --against"
test "$(awk '/^  as fast as then .* times   \(95 %: .*\), sgemm [0-9.]+ times$/ { gsub(/[),]/, "")
  n += $5 > 1000 && $9 > 0 && $9 <= $5 && $11 >= $5 } END { print n }' "$dir/out")" = 2 || fail "bench --against: $(cat "$dir/out")"
grep -q '^bench: toy, muon$' "$dir/err" || fail "bench does not say what it does: $(cat "$dir/err")"
"$program" bench --against="$dir/out" > "$dir/old" 2> "$dir/err"; status=$?
{ test $status -eq 2 && grep -q '^maxlogit: bench --against=' "$dir/err"; } || fail "bench against what is not JSON: exit $status"
sed 's/step_seconds/seconds/g' "$dir/json" > "$dir/old.json"
"$program" bench --against="$dir/old.json" > "$dir/old" 2> "$dir/err"; status=$?
{ test $status -eq 2 && grep -q 'no step_seconds' "$dir/err"; } || fail "bench against an old file: exit $status"
# what is told of a step follows from the rest of it, whatever the machine; what a step of the toy stack computes is known
if command -v jq > /dev/null; then
  "$program" bench --json --stack=toy --seconds=0.001 --against="$dir/slow.json" > "$dir/now.json" 2> "$dir/err" || fail "bench --json --against"
  for file in json now.json; do
    jq -e 'def near($x; $y): ($x - $y | fabs) <= 1e-6 * ($y | fabs);
      (.stacks | map([.stack, .optimizer])) == [["toy", "adam"], ["toy", "muon"]] and all(.stacks[];
        ([.operations[].flops] | add) as $flops | (if .optimizer == "muon" then 437145600 else 346423296 end) as $known |
        $flops == $known and near(.gflops; $flops * .steps_per_second * 1e-9) and near(.fraction; .gflops / .sgemm_gflops) and
        near(.tokens_per_second; 512 * .steps_per_second) and .calls == ([.operations[].calls] | add) and .operations.matmul.calls == 27 and
        .allocations == 0 and .waits == 0 and .same_bits == 1 and .two_threads_least > 0 and 1 / .steps_per_second <= .step_seconds[0] * 1.000001 and
        all(.step_seconds, .maxima, .recording, .spectra, .two_threads; .[1] <= .[0] and .[0] <= .[2] and .[1] > 0)) and
      (.experts | keys) == ["toy", "toy, adam"] and all(.optimizers[], .stabilizers[], .experts[]; .[1] <= .[0] and .[0] <= .[2])' "$dir/$file" > /dev/null ||
      fail "bench tells what does not fit: $(jq -c '.stacks | map(del(.operations))' "$dir/$file")"
  done
  jq -e 'all(.stacks[]; . as $s | .step_seconds as [$m, $l, $h] | .against as [$x, $low, $high] | def near($a; $b): ($a - $b | fabs) <= 1e-6 * $b;
    def away($p; $q): ($p | log) as $p | ($q | log) as $q | ($p * $p + $q * $q | sqrt);
    near($x; 1000 / $m) and near($low; $x * (-away(1000 / 999; $h / $m) | exp)) and near($high; $x * (away(1001 / 1000; $m / $l) | exp)))' \
    "$dir/now.json" > /dev/null || fail "bench --against: $(jq -c '.stacks[] | .step_seconds, .against' "$dir/now.json")"
  "$program" list --json stabilizer | jq -r '.stabilizer[].name' | grep -vx none > "$dir/all"
  jq -r '.stabilizers | keys_unsorted[]' "$dir/now.json" | grep -vxFf "$dir/all" && fail "bench: stabilizers that there are not"
  "$program" list --json optimizer | jq -r '.optimizer[].name' | grep -vx adam > "$dir/all"
  jq -r '.optimizers | keys_unsorted[]' "$dir/now.json" | cmp - "$dir/all" || fail "bench: not the optimizers that there are"
fi
# text: of the toy stack alone, a row a product; shares of a step's time
awk '/^toy, (adam|muon): / { split($0, x, /[^0-9.]+/); s = $3; t = $5; gsub(/,/, "", t); g = $7; p = $10; l = $14; gsub(/\(/, "", l); n++
    if (t / s < 505 || t / s > 519 || 100 * g / l - p > 1.5 || p - 100 * g / l > 1.5) { print; bad = 1 } }
  /^    [a-z_]+ +[0-9.]+ % / { sum += $2; rows++ }
  /^  (maxima and entropy|recording every step|spectra every 10 steps) / { costs++; gsub(/[),]/, ""); if (!($(NF - 2) + 0 <= $(NF) + 0)) { print; bad = 1 } }
  END { if (n != 2 || rows < 10 || sum < 190 || sum > 200.6 || costs != 6) { print n, rows, sum, costs; bad = 1 }; exit bad }' "$dir/out" > "$dir/bad" ||
  fail "bench as text: $(cat "$dir/bad"; cat "$dir/out")"
grep -qE '"newton_schulz": \{"seconds": [^,]*, "flops": [1-9]' "$dir/json" || fail "bench: what newton_schulz computes is not counted"
finish
