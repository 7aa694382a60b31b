#!/bin/sh
# help.sh - each sentence of a command's --help has a test (help_sentences), and those that no other test has are here
srcdir=${srcdir:-$(dirname "$0")/..}
srcdir=$(realpath "$srcdir")
. "$srcdir/tests/small_runs.sh"
table=$srcdir/tests/app/help_sentences
cd "$dir" || exit 99

# every sentence begins a row, every row is a sentence, and its test exists and has these words
for command in $("$program" list command | sed -n 's/^  \([^ ]*\) .*/\1/p'); do
  "$program" "$command" --help | awk -v command="$command" -f "$srcdir/tests/app/help_sentences.awk"
done > sentences
grep -v '^#' "$table" > rows
test "$(grep -c . sentences)" -gt 50 || fail "few sentences: $(cat sentences)"
awk -F ' [|] ' 'FNR == NR { row[$1] = 1; next }
  { found = 0; for (r in row) if (index($0, r) == 1) { found = 1; used[r] = 1 } if (!found) print "no test owns: " $0 }
  END { for (r in row) if (!(r in used)) print "is in no help: " r }' rows sentences > missing
test ! -s missing || fail "tests/app/help_sentences: $(cat missing)"
while IFS='|' read -r row test words; do
  test=$(echo "$test" | tr -d ' ') words=$(echo "$words" | sed 's/^ *//; s/ *$//') file=$srcdir/$(echo "$test" | tr -d ' ')
  test -f "$file" && test -s "$file.c" && file=$file.c
  test -f "$file" || file=$file.c
  grep -qF -e "$words" "$file" 2> /dev/null || fail "$row: $test has no '$words'"
  case $test in *.py) ;; *) grep -q "$test\\b" "$srcdir/tests/list.am" || fail "$test is in no list" ;; esac
done < rows

small_run a
# eval: keys that leave the shapes change what is evaluated; others are refused
loss() { "$program" eval --json --context=2x a.h5 "$@" 2> err | grep -o '"loss": [^,]*'; }
plain=$(loss)
for key in model.rope_base=500 model.rope_scale=4 train.val_batches=1; do
  test "$(loss $key)" && test "$(loss $key)" != "$plain" || fail "eval $key: $(loss $key), $plain without"
done
loss model.width=32; grep -q 'another model' err || fail "eval model.width: $(cat err)"

# list: whatever it names is explained
"$program" list --json > list.json || fail "list --json"
for kind in attention ffn stabilizer optimizer schedule data observable preset command; do
  for name in $("$program" list $kind | sed -n 's/^  \([^ ]*\) .*/\1/p'); do
    "$program" help "$name" > out 2> err && test -s out || fail "help $name, a $kind: $(cat err)"
  done
done

# ... so is every series that is computed when a run is read, with its source
derived=$(sed -n 's/^  {"\([a-z_]*\/[a-z_]*\)", "[a-z_/]*",.*/\1/p' "$srcdir/src/storage/derived.c")
test "$(echo $derived | wc -w)" -ge 2 || fail "series that are computed: $derived"
for name in $derived; do
  "$program" help "$name" > out 2> err && sed -n 1p out | grep -q "^  series $name" && grep -q '^  computed when' out && grep -q '^  recorded by' out || fail "help $name: $(cat out err)"
done
"$program" help drive/som 2> err; grep -q "did you mean 'drive/sum'" err || fail "help drive/som: $(cat err)"

# run: the default, and its source, want no file
"$program" run --dry-run > out 2> err && grep -q 'data' out && ! grep -q 'data.path *= *"*[a-z/]' out || fail "run without arguments: $(cat out err)"
# ... and what it states is what a run takes: parameters, bytes of a checkpoint, and more memory than the parts alone
wide="preset=muon model.width=128 model.layers=1 model.heads=4 model.vocab=300 train.steps=4 device.threads=1"
mkdir dry && cd dry || exit 99
# shellcheck disable=SC2086 # a list of settings
"$program" run --dry-run $wide > ../out 2> ../err || fail "run --dry-run: $(cat ../err)"
test -z "$(ls -A)" || fail "run --dry-run writes $(ls -A)"
cd .. || exit 99
# shellcheck disable=SC2086 # a list of settings
"$program" run --quiet $wide record.path=wide.h5 || fail "the same run"
bytes=$(wc -c < wide.ckpt/step-00000004.h5)
awk -v bytes="$bytes" '/^# memory: / { parts = $3 } /^# parameters: / { n = $3 + 0; disk = $7 }
  /^# time: / { time = $3 * 4 } /^# memory of the whole process/ { whole = $(NF - 1) }
  END { exit !(n == 4 * 128 ^ 2 + 3 * 128 * 336 + 2 * 300 * 128 + 3 * 128 && disk * 9.5e5 < bytes && bytes < disk * 1.15e6 + 1e5 && time > 0 && whole > parts) }' out ||
  fail "run --dry-run states other numbers than a run has, $bytes bytes: $(grep '^#' out)"

# sweep: all points are checked before the first is run
"$program" sweep model.heads=2,3 model.width=16 train.steps=2 sweep.dir=points > out 2> err; status=$?
test $status -eq 2 && test ! -e points || fail "all points are checked first: exit $status: $(cat err)"

# run: a second signal ends it at once, in a step that takes long
"$program" run --quiet train.steps=100 model.layers=12 model.width=768 model.heads=12 model.context=512 train.batch=32 device.threads=1 record.path=long.h5 > out 2> err &
pid=$!
for try in 1 2 3 4 5 6 7 8 9 10; do test -e long.journal && break; sleep 1; done
sleep 1; kill -INT $pid; sleep 1; began=$(date +%s); kill -INT $pid
wait $pid; status=$?
test $status -eq 130 && test $(($(date +%s) - began)) -le 5 || fail "a second signal ends it at once ($try): exit $status: $(cat err)"
# ... and one before the first step ends it with its state saved
"$program" run --quiet train.steps=100000 model.layers=1 model.width=16 model.heads=2 device.threads=1 record.path=early.h5 > out 2> err &
pid=$!
for try in $(seq 200); do test -e early.lock && break; sleep 0.02; done
kill -INT $pid; wait $pid; status=$?
test $status -eq 75 && test -s early.h5 && "$program" resume --quiet early.h5 train.max_time=0.01 > out 2> err; test $? -eq 75 || fail "a signal before the first step: exit $status: $(cat err)"

# serve: the port that is asked for is that of the address
port=$((10000 + $$ % 20000)) # below those that systems give away
timeout 20 "$program" serve --port=$port a.h5 > out 2> err &
pid=$!
for try in $(seq 200); do test -s out && break; sleep 0.05; done
kill $pid; wait $pid 2> /dev/null
grep -q ":$port/" out || grep -q 'no HTTP\|libmicrohttpd' err || fail "serve --port=$port: $(cat out err)"
# every command's help has two examples, and those that neither take minutes nor need other programs' files work
mkdir tour && cd tour || exit 99
for run in muon-1 muon-2 muonclip-1 muonclip-2 adam-1 adam-2 muon-3 adam-3; do
  small_run $run preset=${run%-*} train.seed=${run#*-}
done
mkdir -p runs/muon runs/muonclip
cp ../muon-[12].h5 runs/muon/; cp ../muonclip-[12].h5 runs/muonclip/; cp ../muon*-[12].h5 ../adam-[12].h5 runs/
cp ../muon-3.h5 runs/a.h5; cp ../adam-3.h5 runs/b.h5
ln -s runs demo; ln -s runs sweep
printf 'preset = muon\ntrain.lr = 0.01, 0.03\n' > rates.conf
ln -s "$program" maxlogit
PATH=.:$PATH
for command in $("$program" list command | sed -n 's/^  \([^ ]*\) .*/\1/p'); do
  COLUMNS=400 "$program" "$command" --help | grep '^maxlogit ' > examples
  test "$(grep -c . examples)" -ge 2 || fail "$command --help has less than two examples: $(cat examples)"
  cat examples >> all
done
# ... and so has every topic, whose lines fit a terminal
for topic in $("$program" help | sed -n '/or one of these:$/,/^The manual/s/^  \([a-z]*\) .*/\1/p'); do
  "$program" help "$topic" > topic || fail "help $topic"
  awk 'length($0) > 80 { exit 1 }' topic && test "$(grep -c '^maxlogit ' topic)" -eq 2 || fail "help $topic: $(cat topic)"
  chapter=$(sed -n 's/^The manual: //p' topic)
  test -s "$srcdir/$chapter" || fail "help $topic: no $chapter"
  grep '^maxlogit ' topic >> all
done
command -v gnuplot > /dev/null || { echo "no gnuplot: examples of plot not tried"; grep -v '^maxlogit plot' all > some; mv some all; }
grep -vE '^maxlogit (tune|bench|serve|import|claims [^-])' all | sed 's/sweep.dir=runs/sweep.dir=swept/' > quick # no others beside those of before
test "$(grep -c . quick)" -gt 25 || fail "few examples: $(cat quick)"
while read -r line; do
  timeout 100 sh -c "$line" > ../out 2> ../err < /dev/null || fail "an example: $line: $(tail -n 2 ../err)"
done < quick
cd .. || exit 99
finish
