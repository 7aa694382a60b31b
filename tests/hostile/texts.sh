#!/bin/sh
# Texts of other people's run files, on every way to a terminal, a table, JSON and a page: none steers a terminal, none
# becomes markup, a command or a formula.
srcdir=${srcdir:-$(dirname "$0")/../..}
. "$srcdir/tests/small_runs.sh"
python=$(python_with "h5py, xxhash") && [ "$python" ] || { echo "texts.sh: skipped, no Python with h5py and xxhash here"; exit 77; }
texts="$(realpath "${top_srcdir:-$srcdir}")/tests/hostile/texts.py"
MAXLOGIT_PAGE=$(realpath "${top_srcdir:-$srcdir}")/page MAXLOGIT_PLOTS=$(realpath "${top_srcdir:-$srcdir}")/plots
export MAXLOGIT_PAGE MAXLOGIT_PLOTS
small_run honest preset=muonclip qk_clip.tau=5 train.lr=0.05
cd "$dir" || exit 99
mkdir hostile out
"$python" "$texts" runs honest.h5 hostile || { fail "no hostile runs"; finish; }

# WORDS ...: what a command prints, and its messages, are clean, whatever it makes of the file
count=0 good=0
clean() {
  count=$((count + 1))
  "$program" "$@" > "out/$count" 2> "out/$count.err" < /dev/null
  status=$?
  [ $status = 0 ] && good=$((good + 1))
  case $status in 0 | 1 | 2) ;; *) fail "$*: exit $status: $(head -n 3 "out/$count.err")" ;; esac
  echo "$*" > "out/$count.words"
}
for file in hostile/*.h5; do
  clean show "$file"
  clean show --json "$file"
  clean show --events "$file"
  clean show --parameters "$file"
  clean show --csv "$file"
  clean show "$file" honest.h5 --by arm --csv
  clean show "$file" honest.h5 --by arm,data.path
  clean export "$file" loss
  clean export "$file" attn/entropy --format=csv --every=20
  clean export "$file" honest.h5 loss --format=csv
  clean export --list "$file"
  clean note "$file"
  clean compare "$file" honest.h5
  clean watch "$file"
  clean report "$file" honest.h5 -o page
  "$python" "$texts" look page/data/*.js page/index.html > look || fail "report $file: $(cat look)"
  command -v node > /dev/null && { echo 'function take(file, what) { if (file === "index") for (const s of what.series) if (typeof s.file !== "number" || typeof s.name !== "string") process.exit(1) }'
    cat page/data/*.js; } > all.js && { node all.js > /dev/null || fail "report $file: its data are no script"; }
done
"$python" "$texts" look out/* > look || fail "$(cat look; for n in $(sed -n 's/^.out.\([0-9]*\).*/\1/p' look); do cat "out/$n.words"; done)"
rm out/*
[ "$good" -gt $((count / 2)) ] || fail "$good of $count commands took their file"
clean show --csv hostile --by arm
clean compare hostile honest.h5
[ ! -e pwned ] || fail "a text was run"

# spreadsheets: no cell begins a formula, and every row has the same number of cells
"$program" show --csv --by arm hostile > cells.csv 2> err || fail "show --csv: $(cat err)"
"$python" - cells.csv <<'P' || fail "cells.csv: $(cat cells.csv)"
import csv, sys
rows = list(csv.reader(open(sys.argv[1], newline="")))
def is_number(x):
    try: float(x); return True
    except ValueError: return False
sys.exit(len({len(r) for r in rows}) != 1 or any(c[:1] in ("=", "+", "-", "@") and not is_number(c) for r in rows for c in r) or len(rows) < 10)
P

if command -v node > /dev/null; then # the CSV that the page saves
  { sed -n '/^function field/,/^}/p' "$MAXLOGIT_PAGE/save.js"
    cat << 'J'
for (const [x, y] of [["=1+1", "'=1+1"], ["@x", "'@x"], ["-1e-3", "-1e-3"], ["-Infinity", "-Infinity"], ["a,\r", '"a,\r"'], ["", ""]])
  if (field(x) !== y) { console.log(x, field(x)); process.exit(1) }
J
  } > field.js
  node field.js > look || fail "save.js: $(cat look)"
fi

# names of files, in messages and tables
name=$(printf 'n\033[2J\302\233\n  maxlogit: x\342\200\256.h5')
cp honest.h5 "$name"
head -c 3000 honest.h5 > "$(printf 'broken\033]0;x\007.h5')"
for words in show "show --csv" watch note "export --list" report "plot -t --figure=loss" spectra eval "show --events" "export -s x"; do
  # shellcheck disable=SC2086 # words
  clean $words "$name"
  # shellcheck disable=SC2086 # words
  clean $words broken*.h5
done
clean run "record.path=$name"
clean run "arm=$(printf '\033[2Jx')" --dry-run
clean sweep "$(printf 'x\033[2J.conf')"
clean "$(printf 'x\033[2J')"
clean show . --csv
rm out/*.words
for file in out/*; do tr -d '\f' < "$file" > text && mv text "$file"; done # gnuplot ends a page with one
"$python" "$texts" look out/* > look || fail "$(cat look)"

# a unit that is cut within a letter: the series stays, and each name has its own numbers
mkdir unit
"$python" "$texts" unit honest.h5 unit/unit.h5
for which in honest unit/unit; do
  "$program" report $which.h5 -o "pages/$which" > out/report 2>&1 || fail "report of $which: $(cat out/report)"
  "$python" - "pages/$which" > "pages/$which.txt" <<'P' || fail "report of $which: its series"
import json, re, sys
index = json.loads(open(sys.argv[1] + "/data/index.js").read()[len('take("index",'):-2])
for s in index["series"]: print(s["name"], re.sub('"[0-9a-f]{16}"', "", open(f"{sys.argv[1]}/data/{s['file']}.max.js").read()).split(",", 1)[1])
P
done
cmp -s pages/honest.txt pages/unit/unit.txt || fail "a unit changes which numbers belong to a series: $(diff pages/honest.txt pages/unit/unit.txt | cut -c 1-100 | head -n 4)"
grep -q '^attn/entropy ' pages/unit/unit.txt || fail "a series was lost"

# the page for strangers has no folder, no date, no host
mkdir "$dir/jo"
cp honest.h5 jo/one.h5
"$program" report "$dir/jo" --where 'date>2001' --bare -o bare > out/bare 2>&1 || fail "report --bare: $(cat out/bare)"
grep -l "$dir\|jo/\|date>\|20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]" bare/data/*.js && fail "report --bare: a folder or a date"
host=$(uname -n)
[ "${#host}" -gt 3 ] && grep -lwF "$host" bare/data/*.js && fail "report --bare: the host"
grep -q 'one\.h5' bare/data/index.js || fail "report --bare: no file names"
mkdir sets sets/secret sets/hidden
for folder in secret hidden; do
  seq 2000 > "sets/$folder/text"; echo $folder >> "sets/$folder/text"
  small_run "sets/$folder" data=bytes data.path="$dir/sets/$folder/text"
done
for by in '' --by=data.path --by=data; do
  "$program" report sets ${by:+"$by"} --bare -o "bare$by" > out/bare 2>&1 || fail "report --bare $by: $(cat out/bare)"
  grep -l 'secret/\|hidden/\|sets/' "bare$by"/data/*.js && fail "report --bare $by: a folder in the names of groups"
done
test "$(grep -o '"group":"[^"]*"' bare--by=data.path/data/index.js | sort -u | wc -l)" = 2 || fail "report --bare: texts of one name are one group"
"$program" report "$dir/jo" -o notbare > out/bare 2>&1
grep -q "$dir" notbare/data/index.js || fail "without --bare there is no folder, so the test shows nothing"

# the shell's words of the page are quoted as the program quotes them
if command -v node > /dev/null; then
  sed -n '/^function quote/,/^}/p' "$MAXLOGIT_PAGE/runs.js" > quote.js
  echo 'process.stdout.write(quote(process.argv[2]))' >> quote.js
  for word in plain "it's" 'a b' '$(x)' '`x`' "$(printf 'x\033[2J\302\233\342\200\256y')" '-x' 'a;b' 'é'; do
    eval "printf '%s' $(node quote.js "$word")" > back
    printf '%s' "$word" | sed 's/\x1b/?/g; s/\xc2\x9b/?/g; s/\xe2\x80\xae/?/g' | cmp -s - back || fail "quote($word): $(node quote.js "$word")"
  done
fi
finish
