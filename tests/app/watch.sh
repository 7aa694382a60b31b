#!/bin/sh
# watch and export --follow read the files of a killed run: only whole pieces, a journal that a resume has cut, no writer.
# tests/app/show.sh tests them beside a writer.
. "${top_srcdir:-.}/tests/small_runs.sh"

tiny="data=copy model.width=8 model.layers=1 model.heads=2 model.context=8 model.ffn_width=16 train.batch=1 train.val_every=0
  record.spectra_every=0 device.threads=1 checkpoint.seconds=0"
# shellcheck disable=SC2086 # a list of settings
"$program" run -q $tiny train.steps=100000000 record.path="$dir/a.h5" 2> "$dir/err" &
runner=$!
tries=0
until [ "$(cat "$dir/a.journal" 2> /dev/null | wc -c)" -gt 60000 ]; do
  tries=$((tries + 1))
  [ $tries -lt 3000 ] || { fail "no rows: $(cat "$dir/err")"; finish; }
  sleep 0.02
done
kill -9 $runner
wait $runner 2> /dev/null

# a lock file without a holder: the writer was killed; all rows are printed, then watch ends
timeout 60 "$program" watch --interval=0.01 "$dir/a.h5" > "$dir/out" 2> "$dir/err" || fail "a killed writer: exit $?: $(cat "$dir/err")"
rm -f "$dir/a.lock"
timeout 60 "$program" watch "$dir/a.h5" 2> "$dir/err" | cmp - "$dir/out" || fail "no writer: $(cat "$dir/err")"
grep -q 'no writer any more; `maxlogit resume' "$dir/err" || fail "the end: $(cat "$dir/err")"
awk '{ if ($1 != "step" || $2 != n++) bad = 1 } END { exit bad || n < 50 }' "$dir/out" || fail "rows: $(head -n 3 "$dir/out")"
all=$(grep -c . "$dir/out")

# export --follow: eight columns, the same rows
timeout 60 "$program" export --follow "$dir/a.h5" > "$dir/lines" 2> "$dir/err" || fail "export --follow: exit $?: $(cat "$dir/err")"
printf 'step\tloss\tval_loss\tlr\tgrad_norm\tmax_logit\tlayer\thead\n' > "$dir/header"
head -n 1 "$dir/lines" | cmp - "$dir/header" || fail "export --follow begins with $(head -n 1 "$dir/lines")"
sed 1d "$dir/lines" | awk -F '\t' '{ printf "step %s  loss %.4f  max logit %.4g (L%sH%s)\n", $1, $2, $6, $7, $8 }' | cmp - "$dir/out" ||
  fail "export --follow: $(sed -n 2,4p "$dir/lines")"
for words in "loss" "--list" "$dir/a.h5"; do
  "$program" export --follow "$dir/a.h5" $words > /dev/null 2> "$dir/err" && fail "export --follow with $words"
  grep -q 'export --follow: takes one run, and no series' "$dir/err" || fail "export --follow with $words: $(cat "$dir/err")"
done

# half a piece, a journal of another recording, and a link have no rows
size=$(wc -c < "$dir/a.journal")
part() { cp "$dir/a.h5" "$dir/$1.h5"; head -c "$2" "$dir/a.journal" > "$dir/$1.journal"; }
count() { timeout 60 "$program" watch "$dir/$1.h5" 2> "$dir/err" | grep -c .; }
part half $((size - 9))
some=$(count half)
test "$some" -lt "$all" && test "$some" -gt 0 || fail "half a piece: $some rows of $all"
part none 53
test "$(count none)" = 0 || fail "rows of an empty journal"
cp "$dir/a.h5" "$dir/other.h5"
sed '1s/journal 2 ./journal 2 g/' "$dir/a.journal" > "$dir/other.journal"
test "$(count other)" = 0 || fail "rows of another recording"
cp "$dir/a.h5" "$dir/link.h5"
ln -s a.journal "$dir/link.journal"
test "$(count link)" = 0 || fail "rows through a link"

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
  # the journal is cut: it is read again, and rows that are the same are not printed twice; the lock goes: that is the end
  part c "$size"
  exec 9> "$dir/c.lock"
  flock 9
  : > "$dir/out"
  timeout 120 "$program" watch --interval=0.01 "$dir/c.h5" > "$dir/out" 2> "$dir/err" 9>&- &
  watcher=$!
  lines "$all" "all rows"
  cp "$dir/half.journal" "$dir/new" && mv "$dir/new" "$dir/c.journal"
  sleep 0.3
  cp "$dir/a.journal" "$dir/new" && mv "$dir/new" "$dir/c.journal"
  lines $((all + all - some)) "after a cut and rows"
  rm "$dir/c.lock"
  wait $watcher || fail "watch beside a writer: exit $?: $(cat "$dir/err")"
  awk -v all="$all" -v some="$some" '{ if ($2 != (NR > all ? NR - all + some : NR) - 1) bad = 1 } END { exit bad || NR != 2 * all - some }' "$dir/out" ||
    fail "a cut journal: $(awk '{ printf "%s ", $2 }' "$dir/out")"
  exec 9>&-

  # on a terminal, too: what is drawn after a cut is what a new watch of these files draws
  if has_terminal; then
    page() { tr -d '\r' < "$dir/out" | tr '\033' '\n' | sed '/^Script /d' | awk '/^\[J/ { text = "" } { text = text $0 "\n" } END { printf "%s", text }'; }
    watch_there() { TERM=dumb timeout 120 script -qfec "$program watch --interval=0.01 $dir/g.h5" "$dir/out" < /dev/null > "$dir/err" 2>&1 9>&-; }
    drawn() {
      tries=0
      until page | grep -q "step $1 "; do tries=$((tries + 1)); [ $tries -lt 3000 ] || { fail "drawn, step $1: $(page)"; break; }; sleep 0.02; done
    }
    part g "$size"
    exec 9> "$dir/g.lock"
    flock 9
    : > "$dir/out"
    watch_there &
    watcher=$!
    drawn $((all - 1))
    cp "$dir/half.journal" "$dir/new" && mv "$dir/new" "$dir/g.journal"
    drawn $((some - 1))
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

# a folder: a line for each run that has ended, also of one that begins meanwhile, and on a terminal a table that fits
mkdir "$dir/many"
short() { name=$1; shift; "$program" run -q $tiny record.path="$dir/many/$name.h5" "$@" 2> "$dir/err" || fail "a short run: $(cat "$dir/err")"; }
short first train.steps=20 preset=adam train.lr=1e-4
cp "$dir/a.h5" "$dir/many/left.h5"
cp "$dir/a.journal" "$dir/many/left.journal"
timeout 120 "$program" watch --interval=0.05 "$dir/many" > "$dir/out" 2> "$dir/err2" &
watcher=$!
lines 2 "a folder"
short second train.steps=30 preset=muon train.seed=4 train.val_every=7 train.schedule=constant
lines 3 "a run that has begun since"
"$program" resume -q "$dir/many/second.h5" train.steps=40 2> "$dir/err" || fail "resume: $(cat "$dir/err")"
echo junk > "$dir/many/öjunk.h5"
wait $watcher || fail "watch of a folder: exit $?: $(cat "$dir/err2")"
last() { "$program" export --follow "$dir/many/$1.h5" 2> /dev/null | tail -n 1 | awk -F '\t' '{ printf "step %s  loss %.4f  max logit %.4g (L%sH%s)\n", $1, $2, $6, $7, $8 }'; }
state() { "$program" show "$dir/many/$1.h5" | awk 'NR == 2 { print $5 }'; }
{ echo "first  adam  $(state first)  $(last first)"; echo "left  muon  killed  $(last left)"; } > "$dir/want"
grep -v '^second\|^öjunk' "$dir/out" | sed 's/  val [0-9.]*//' | sort | cmp - "$dir/want" || fail "watch of a folder: $(cat "$dir/out"), not $(cat "$dir/want")"
val=$("$program" export "$dir/many/second.h5" val_loss | awk 'END { printf "%.4f", $2 }')
grep -q '^second  muon  [a-z-]*  step 29 .*  val [0-9.]*  max' "$dir/out" || fail "watch of a folder, a second run: $(cat "$dir/out")"
grep -q "^second  muon  [a-z-]*  step 39 .*  val $val  max" "$dir/out" || fail "a run that was resumed, val $val: $(cat "$dir/out")"
grep -qx 'öjunk  unreadable' "$dir/out" || fail "a file that is not a run: $(cat "$dir/out")"
grep -q 'many: 4 runs: .*1 killed.*; nothing was written for 10 s' "$dir/err2" || fail "the end of a folder: $(cat "$dir/err2")"
: > "$dir/many/left.lock"
"$program" report "$dir/many/left.h5" -o "$dir/page" > /dev/null && grep -q '"state":"killed"' "$dir/page/data/index.js" || fail "a page made right after a kill"
if has_terminal; then
  TERM=dumb LC_ALL=C.UTF-8 timeout 120 script -qfec "stty cols 40 rows 20; $program watch $dir/many/second.h5" "$dir/out" < /dev/null > "$dir/err" 2>&1
  tr -d '\r' < "$dir/out" | sed '/^Script /d; s/\x1b\[[HJ]//g; /second.h5: /d; /show --why/d' | LC_ALL=C.UTF-8 awk '{ gsub(/[\200-\277]/, ""); if (length($0) > 40) { print; bad = 1 } } END { exit bad || NR < 9 }' > "$dir/wide" || fail "a screen too wide: $(cat "$dir/wide" "$dir/out")"
  TERM=dumb LC_ALL=C.UTF-8 timeout 120 script -qfec "stty cols 50 rows 7; $program watch $dir/many" "$dir/out" < /dev/null > "$dir/err" 2>&1
  tr -d '\r' < "$dir/out" | sed '/^Script /d; s/\x1b\[[HJ]//g; /nothing was written/d' > "$dir/table"
  awk 'length($0) > 50 { bad = 1 } END { exit bad }' "$dir/table" || fail "a table too wide: $(cat "$dir/table")"
  grep -q '^second  *muon  *0.01  *4  *40/40 ' "$dir/table" && grep -q '^öjunk  *-  *-  *- unreadable' "$dir/table" && grep -q '^1 more' "$dir/table" || fail "a table: $(cat "$dir/table")"
fi
# the points of the last sweep into the folder that are done; another sweep's run is none of them
: > "$dir/empty.conf"
sweep() { "$program" sweep -q "$dir/empty.conf" $tiny train.steps=3 sweep.dir="$dir/swept" "$@" > "$dir/out" 2> "$dir/err" || fail "a sweep: $(cat "$dir/err")"; }
# shellcheck disable=SC2086 # a list of settings
sweep train.seed=1,2
sweep train.seed=2,3,4
awk -F '\t' '$2 != "train.seed=" NR + 1 || $1 !~ /^[0-9a-f]+$/ { bad = 1 } END { exit bad || NR != 3 }' "$dir/swept/sweep.plan" || fail "sweep.plan: $(cat "$dir/swept/sweep.plan")"
rm "$dir/swept/$(sed -n '3s/\t.*//p' "$dir/swept/sweep.plan").h5"
timeout 60 "$program" watch "$dir/swept" > "$dir/out" 2> "$dir/err" || fail "watch of a sweep: $(cat "$dir/err")"
grep -q 'swept: 3 runs: 3 [a-z-]*; 2 of 3 points of the last sweep are done; nothing' "$dir/err" || fail "points of a sweep: $(cat "$dir/err")"
# a huge list of points is ignored
truncate -s 40G "$dir/swept/sweep.plan" || fail "a file with a hole"
timeout 60 "$program" watch "$dir/swept" > "$dir/out" 2> "$dir/err" || fail "a huge sweep.plan: $(cat "$dir/err")"
grep -q 'swept: 3 runs: 3 [a-z-]*; nothing' "$dir/err" || fail "a huge sweep.plan: $(cat "$dir/err")"
mkdir "$dir/none"
timeout 60 "$program" watch "$dir/none" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 && grep -q 'no run file' "$dir/err" || fail "watch of an empty folder: exit $status: $(cat "$dir/err")"
finish
