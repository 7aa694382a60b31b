#!/bin/sh
# watch, on live files made here: columns by their names, whole lines only, a file that a resume cut, a writer that
# was killed. Its life beside a real run is in show.sh.
. "${top_srcdir:-.}/tests/small_runs.sh"

header='step\tloss\tval_loss\tlr\tgrad_norm\tmax_logit\tlayer\thead\n'
row() { printf '%s\t2.5\tnan\t0.01\t1\t7.5\t1\t2\n' "$1"; }

# no writer: what is there is printed, and that is the end; half a line is not there yet
{ printf "$header"; row 0; row 1; printf '2\t2.5\tnan'; } > "$dir/a.live.tsv"
timeout 60 "$program" watch "$dir/a.h5" > "$dir/out" 2> "$dir/err" || fail "no writer: exit $?: $(cat "$dir/err")"
printf 'step 0  loss 2.5000  max logit 7.5 (L1H2)\nstep 1  loss 2.5000  max logit 7.5 (L1H2)\n' |
  cmp - "$dir/out" || fail "rows: $(cat "$dir/out")"
grep -q 'no run file' "$dir/err" || fail "the end: $(cat "$dir/err")"

# a newer program may have written other columns, in another order
printf 'loss\tnew\tstep\thead\tlayer\tmax_logit\tval_loss\n1.5\t9\t4\t3\t0\tnan\t1.75\n' > "$dir/b.live.tsv"
timeout 60 "$program" watch "$dir/b.h5" > "$dir/out" 2> "$dir/err" || fail "other columns: exit $?"
echo 'step 4  loss 1.5000  val 1.7500  max logit nan (L0H3)' | cmp - "$dir/out" ||
  fail "other columns: $(cat "$dir/out")"

# every value that is one is told, zero and infinity too; a NaN alone is a validation that was not due; no head, no place
{ printf "$header"; for x in nan 0 -1 inf -inf; do printf '3\t%s\t%s\t0.01\t1\t%s\t-1\t-1\n' $x $x $x; done; } > "$dir/f.live.tsv"
timeout 60 "$program" watch "$dir/f.h5" > "$dir/out" 2> "$dir/err" || fail "special values: exit $?"
{ echo 'step 3  loss nan  max logit nan'
  for x in '0.0000 0' '-1.0000 -1' 'inf inf' '-inf -inf'; do echo "step 3  loss ${x% *}  val ${x% *}  max logit ${x#* }"; done; } |
  cmp - "$dir/out" || fail "special values: $(cat "$dir/out")"

# what is no run's live file has no steps to tell; NUL bytes, as a power cut leaves them, are no line
printf 'a\tloss\tval_loss\tmax_logit\tlayer\thead\n1\t2\t3\t4\t0\t0\n' > "$dir/d.live.tsv"
timeout 60 "$program" watch "$dir/d.h5" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 && test ! -s "$dir/out" && test "$(grep -c . "$dir/err")" -eq 1 && grep -q "d.live.tsv: .* names no column 'step'" "$dir/err" ||
  fail "another header: exit $status: $(cat "$dir/out" "$dir/err")"
{ printf "$header"; row 0; printf '\0\0\0\0'; } > "$dir/e.live.tsv"
timeout 60 "$program" watch "$dir/e.h5" > "$dir/out" 2> "$dir/err" || fail "NUL bytes: exit $?: $(cat "$dir/err")"
test "$(grep -c . "$dir/out")" -eq 1 || fail "NUL bytes: $(cat "$dir/out")"

# wait until the output has this many lines; a minute is for ever
lines() {
  tries=0
  while [ "$(grep -c . "$dir/out")" -lt "$1" ]; do
    tries=$((tries + 1))
    [ $tries -lt 3000 ] || { fail "$2: $(cat "$dir/out")"; return; }
    sleep 0.02
  done
}
if command -v flock > /dev/null; then
  # a resume cuts the file: it is read again; the lock goes: that is the end
  { printf "$header"; row 0; row 1; row 2; } > "$dir/c.live.tsv"
  exec 9> "$dir/c.lock"
  flock 9
  : > "$dir/out"
  timeout 120 "$program" watch --interval=0.01 "$dir/c.h5" > "$dir/out" 2> "$dir/err" 9>&- &
  watcher=$!
  lines 3 "three rows"
  { printf "$header"; row 0; } > "$dir/c.live.tsv"
  lines 4 "after a cut"
  row 1 >> "$dir/c.live.tsv"
  lines 5 "after a cut and a row"
  rm "$dir/c.lock"
  wait $watcher || fail "watch beside a writer: exit $?: $(cat "$dir/err")"
  awk '{ printf "%s ", $2 } END { print "" }' "$dir/out" | grep -qx '0 1 2 0 1 ' ||
    fail "a cut file: $(cat "$dir/out")"
  exec 9>&-

  # on a terminal, too: what is drawn after a cut is what a new watch of that file draws
  if command -v script > /dev/null; then
    page() { tr -d '\r' < "$dir/out" | tr '\033' '\n' | sed '/^Script /d' | awk '/^\[J/ { text = "" } { text = text $0 "\n" } END { printf "%s", text }'; }
    watch_there() { TERM=dumb timeout 120 script -qfec "$program watch --interval=0.01 $dir/g.h5" "$dir/out" < /dev/null > "$dir/err" 2>&1 9>&-; }
    { printf "$header"; for i in 0 1 2 3; do row $i; done; row 8 | sed 's/[27][.]5/99/g'; } > "$dir/g.live.tsv"
    exec 9> "$dir/g.lock"
    flock 9
    : > "$dir/out"
    watch_there &
    watcher=$!
    tries=0
    until page | grep -q 'step 8 '; do tries=$((tries + 1)); [ $tries -lt 3000 ] || { fail "drawn: $(page)"; break; }; sleep 0.02; done
    { printf "$header"; row 0; row 1; } > "$dir/g.live.tsv"
    tries=0
    until page | grep -q 'step 1 '; do tries=$((tries + 1)); [ $tries -lt 3000 ] || { fail "drawn after a cut: $(page)"; break; }; sleep 0.02; done
    rm "$dir/g.lock"
    wait $watcher
    page > "$dir/cut"
    watch_there
    page | cmp - "$dir/cut" || fail "drawn after a cut: $(cat "$dir/cut"), anew: $(page)"
    exec 9>&-
  else
    echo "script: skipped, not installed"
  fi
else
  echo "flock: skipped, not installed"
fi

# a lock that nobody holds is that of a writer that was killed
: > "$dir/a.lock"
timeout 60 "$program" watch --interval=0.01 "$dir/a.h5" > "$dir/out" 2> "$dir/err" ||
  fail "a killed writer: exit $?"
test "$(grep -c . "$dir/out")" -eq 2 || fail "a killed writer: $(cat "$dir/out")"
finish
