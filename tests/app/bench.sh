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
{ test $status -eq 2 && grep -q '^maxlogit: bench --against=' "$dir/err"; } || fail "bench against what is no JSON: exit $status"
sed 's/step_seconds/seconds/g' "$dir/json" > "$dir/old.json"
"$program" bench --against="$dir/old.json" > "$dir/old" 2> "$dir/err"; status=$?
{ test $status -eq 2 && grep -q 'no step_seconds' "$dir/err"; } || fail "bench against an old file: exit $status"
grep -qE '"newton_schulz": \{"seconds": [^,]*, "flops": [1-9]' "$dir/json" || fail "bench: what newton_schulz computes is not counted"
finish
