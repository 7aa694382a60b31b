#!/bin/sh
# summary.sh BUILD...: the logs of failed tests, which were skipped and why, then one line for all: "N passed, N failed[, N skipped]".
# A program counts as many tests as it has checks, a script as one. Exit 1 when any failed, or none ran.
for build; do
  # shellcheck disable=SC2044 # no name here has a blank
  for result in $(find "$build" -path "$build/*.build" -prune -o -name '*.trs' -print); do
    log=${result%.trs}.log
    outcome=$(sed -n 's/^:global-test-result: //p' "$result")
    case $outcome in
      FAIL | ERROR | XPASS) { echo "== $log"; tail -n 60 "$log"; } >&2 ;;
      SKIP) echo "skipped: ${log#./}: $(sed '/^SKIP /d' "$log" | tail -n 1)" >&2 ;;
    esac
    printf '%s ' "$outcome"
    sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 \2 \3/p' "$log" |
      awk '{ checks += $1; bad += $2 + $3 } END { print checks + 0, bad + 0 }'
  done
done | awk '
  $1 == "SKIP" { skipped++; next }
  {
    checks = $2; bad = $3
    if ($1 != "PASS" && !bad) bad = 1
    if (checks < bad || !checks) checks = bad > 1 ? bad : 1
    passed += checks - bad
    failed += bad
  }
  END {
    printf "%d passed, %d failed", passed, failed
    if (skipped) printf ", %d skipped", skipped
    print ""
    exit failed > 0 || passed == 0
  }'
