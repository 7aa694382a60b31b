#!/bin/sh
# maxlogit claims: a ledger of tiny runs: verdicts, shared runs, stages, a kill and going on, JSON, READMEs, wrong input
. "${top_srcdir:-.}/tests/small_runs.sh"

tiny="model.width=16 model.heads=2 model.context=16 train.batch=4 train.steps=30 train.warmup=5 record.probe_every=1 record.spectra_every=0"
# shellcheck disable=SC2086 # a list of settings
claims() { "$program" claims $tiny sweep.dir="$dir/runs" "$@"; }
ids="C-18 C-18b"

# the list runs nothing
# shellcheck disable=SC2086
claims $ids --list > "$dir/list" || fail "list"
grep -q '^C-18 .* 0/12 runs' "$dir/list" || fail "list: $(cat "$dir/list")"
test -e "$dir/runs" && fail "--list leaves something"

# a killed ledger goes on, and says what an undisturbed one says
# shellcheck disable=SC2086
claims $ids > "$dir/first" 2> "$dir/killed" &
pid=$!
tries=0
while ! grep -q finished "$dir/killed" && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -9 $pid 2> /dev/null
wait $pid 2> /dev/null
# shellcheck disable=SC2086
claims $ids --json > "$dir/again.json" 2> "$dir/err" || fail "again: $(cat "$dir/err")"
grep -q 'runs, [1-9][0-9]* of them done before' "$dir/err" || fail "after a kill: $(cat "$dir/err")"
# shellcheck disable=SC2086
"$program" claims $tiny sweep.dir="$dir/other" $ids --json -q > "$dir/whole.json" 2> "$dir/err2" || fail "whole"
cmp "$dir/again.json" "$dir/whole.json" || fail "what was interrupted says something else"
if grep -v 'the base kernels have no fused' "$dir/err2"; then fail "-q is not quiet: $(cat "$dir/err2")"; fi
# shellcheck disable=SC2086
claims $ids 2> "$dir/err" > "$dir/table" || fail "third"
grep 'runs, ' "$dir/err" | grep -qv 'stage [12] of 2: [36] seeds for [12] claims\?; \([0-9]*\) runs, \1 of them done before' && fail "runs anew: $(cat "$dir/err")"
grep -q '^C-18 .*\(holds\|refuted here\|partly\|inconclusive\)' "$dir/table" || fail "table: $(cat "$dir/table")"

# several at one ledger that end at the same time
many=
for i in 1 2 3 4 5 6 7 8; do
  # shellcheck disable=SC2086
  claims $ids -q > /dev/null 2>> "$dir/many" &
  many="$many $!"
done
for pid in $many; do wait "$pid" || fail "one of many: $(cat "$dir/many")"; done
find "$dir/runs" -name 'claims.json.*' | grep -q . && fail "left behind: $(ls "$dir/runs")"

if command -v jq > /dev/null; then
  # the two claims share the arm without a cap, and a stage's seeds begin at 1101
  jq -e '[.[] | .arms[0].runs | map(.id)] | .[0] == .[1]' "$dir/again.json" > /dev/null || fail "shared runs"
  jq -e 'all(.[]; .arms[].runs[0].seed == 1101 and (.effect.n == 3 or .effect.n == 6))' "$dir/again.json" > /dev/null || fail "seeds"
  cmp -s "$dir/runs/claims.json" "$dir/other/claims.json" || fail "claims.json"
  jq -e 'length == 2 and all(.[]; .verdict and .reason and .regime and .effect.lo)' "$dir/runs/claims.json" > /dev/null || fail "claims.json lacks something"
  # the effect is the median of the ratios that jq finds in the values, its interval from the least of six to the largest
  jq -e '.[0] | .effect as $e | [.arms[0].runs, .arms[1].runs] | [transpose[] | (.[1].value / .[0].value | log)] | sort |
    ((.[2] + .[3]) / 2 - ($e.mean | log) | fabs < 1e-5) and (.[0] - ($e.lo | log) | fabs < 1e-5) and (.[5] - ($e.hi | log) | fabs < 1e-5)' \
    "$dir/again.json" > /dev/null || fail "effect"
  # both are of one family, whose corrections are at least p
  jq -e 'all(.[]; .p_holm >= (.p // 1) and .p_fdr <= .p_holm and .rule == 2 and .equal == "rate" and .would_change_by)' "$dir/again.json" \
    > /dev/null || fail "corrections"
fi

# a clip that never acts makes no arm: nothing is said
# shellcheck disable=SC2086
claims C-54 -q --json > "$dir/idle.json" || fail "C-54"
grep -q '"verdict": "nothing to test", "reason": "the two arms are the same training' "$dir/idle.json" || fail "idle arms: $(cut -c1-200 "$dir/idle.json")"

# nor are arms the same of which no run could be done
claims C-54 -q --json train.on_nonfinite=fail train.lr=1e30 sweep.dir="$dir/lost" > "$dir/lost.json" 2> /dev/null
test $? -eq 1 || fail "lost arms: no failure"
grep -q '"verdict": "few seeds", "reason": "too few pairs with a value' "$dir/lost.json" || fail "lost arms: $(cut -c1-200 "$dir/lost.json")"

# nor does a measure that is the same in every run: no spike with the clip, and none without
claims C-12 qk_clip.tau=0.5 -q --json > "$dir/silent.json" || fail "C-12"
grep -q '"verdict": "nothing to test", "reason": "spikes is 0 in every run' "$dir/silent.json" &&
  grep -q '"effect": {"n": 6' "$dir/silent.json" || fail "nothing to see: $(cut -c1-300 "$dir/silent.json")"

# what the first stage has settled gets no seeds of the second, which another claim wants
# shellcheck disable=SC2086
"$program" claims $tiny qk_clip.tau=0.5 sweep.dir="$dir/stages" C-17 C-12 -q --json > "$dir/stages.json" || fail "stages"
if command -v jq > /dev/null; then
  jq -c '[.[] | .id, (.arms[].runs | length)]' "$dir/stages.json" | grep -qx '\["C-12",6,6,"C-17",3,3\]' ||
    fail "seeds of two stages: $(jq -c '[.[] | .id, (.arms[].runs | length)]' "$dir/stages.json")"
fi

# the full level gives twelve seeds at least, whatever six have said
claims C-18 -q --level full --json > "$dir/full.json" || fail "full"
grep -qE '"effect": \{"n": (12|24)' "$dir/full.json" || fail "the full level stops early: $(cut -c1-300 "$dir/full.json")"

# what is registered of a claim was another when its verdict was found: both are told, from then on
cp "$dir/runs/claims.json" "$dir/kept.json"
sed -i '/"id": "C-18",/,/"registered"/ s/"registered": "[0-9a-f]*"/"registered": "0123456789ab"/' "$dir/runs/claims.json"
for i in 1 2; do
  claims C-18 C-18b -q > "$dir/table" 2>&1 || fail "changed"
  test "$(grep -c 'changed after the fact; before: ' "$dir/table")" = 1 || fail "time $i: $(cat "$dir/table")"
done
claims C-18 -q --json > "$dir/changed.json"
grep -q '"changed_after_the_fact": {"registered": "0123456789ab", "verdict": "[a-z]' "$dir/changed.json" || fail "the old verdict is lost: $(cut -c1-300 "$dir/changed.json")"
grep -q '"id": "C-54"' "$dir/runs/claims.json" || fail "claims that were not asked for leave the file"
# another ledger in the same folder is no change
claims C-18 model.ffn_width=32 -q > "$dir/table" 2>&1 || fail "other settings: $(cat "$dir/table")"
grep -q 'changed after' "$dir/table" && fail "other settings are taken for a change"
echo nonsense > "$dir/runs/claims.json"
claims C-18 -q > "$dir/table" 2>&1 && fail "another file called claims.json is replaced"
grep -q '^C-18 ' "$dir/table" && grep -q 'claims.json is not a ledger and stays as it is' "$dir/table" || fail "another file: $(cat "$dir/table")"
[ "$(cat "$dir/runs/claims.json")" = nonsense ] || fail "another file is lost"
# another command that is joining its verdicts is waited for
if command -v flock >/dev/null; then
  flock "$dir/runs/claims.json.lock" sh -c 'sleep 3; echo "[]" >"$1"' - "$dir/runs/claims.json" &
  sleep 0.5
  rm "$dir/runs/claims.json"
  claims C-18 -q >/dev/null 2>&1
  wait
  grep -q '"id": "C-18"' "$dir/runs/claims.json" || fail "a verdict of two commands at once is lost"
fi
[ ! -e "$dir/runs/claims.json.lock" ] || fail "the ledger's lock is left"
cp "$dir/kept.json" "$dir/runs/claims.json"

# the quick level takes rates that were chosen before, and goes to its seeds; the full one, --rates and other settings choose
chooses() { "$program" claims C-36 train.max_time=0.001 sweep.dir="$dir/rates" "$@" 2>&1 >/dev/null | head -1; }
chooses | grep -q '^maxlogit: stage 1 of 2: 3 seeds for 1 claim; 18 runs' || fail "rates are not recalled: $(chooses)"
for other in '--level=full' '--rates' 'model.ffn_width=32'; do
  chooses "$other" | grep -q '^maxlogit: rates: [0-9]* runs on seeds from 2101' || fail "$other: $(chooses "$other")"
done
# what is chosen is told as it is kept
# shellcheck disable=SC2086
claims C-36 --rates -q > "$dir/rates.def" || fail "--rates"
grep -qx 'NUMERICS([0-9]*)' "$dir/rates.def" &&
  test "$(grep -c '^RATE("C-36", "[0-9a-f]\{12\}", [01], "[0-9.e-]*", "[0-9.e-]*", "[0-9.e-]*", TUNING_[A-Z_]*,$' "$dir/rates.def")" = 2 ||
  fail "--rates: $(cat "$dir/rates.def")"

# claims that have not been run are open, and say what they cost
"$program" claims --list sweep.dir="$dir/none" > "$dir/list" || fail "list"
for id in C-21b C-21c C-30 C-30b C-32 C-33c C-60 C-61 C-61b C-62 C-63 C-63b C-64 C-65 C-66 C-67 C-67b C-68 C-69 C-69b C-70 C-70b C-71 C-71b; do
  grep -q "^$id .* 0/[0-9]* runs .*(open) (about [0-9.]* core hours)" "$dir/list" || fail "$id is not open"
done
grep -q '^C-31b .* 0/0 runs .*(withdrawn)$' "$dir/list" || fail "C-31b is not withdrawn"

# what is registered of every claim is in the repository, so that a change is seen there; the last column is for people
"$program" claims --list | awk '/^C-/ { print $1, $4 }' > "$dir/registered"
cmp "$dir/registered" "${top_srcdir:-.}/experiments/registered.txt" ||
  fail "claims changed: maxlogit claims --list | awk '/^C-/ { print \$1, \$4 }' > experiments/registered.txt"

# the same claim at another width: where it stands, and where not; nothing is run where that cannot be
claims C-18 -q --replicate "model.width=8" --replicate "train.steps=20 train.warmup=2" --json > "$dir/replicas.json" 2> "$dir/err" || fail "replicas: $(cat "$dir/err")"
grep -q '"replicated": \[{"settings": "model.width=8", "verdict": "[a-z ]*", "effect": {"n": 6.*{"settings": "train.steps=20 train.warmup=2", "verdict"' "$dir/replicas.json" ||
  fail "replicas: $(cut -c1-600 "$dir/replicas.json")"
claims C-18 -q --replicate "model.width=8" > "$dir/table"
grep -q '\(stands\|flips\|open\) at model.width=8' "$dir/table" || fail "replicas: $(cat "$dir/table")"
grep -q '"settings": "model.width=16.* model.width=8"' "$dir/runs/claims.json" || fail "replicas are not kept"
cp "$dir/kept.json" "$dir/runs/claims.json"

# READMEs: one is made, one gets the block at its end, a block is replaced
mkdir -p "$dir/new" "$dir/old/04-cures"
printf '# Cures\n\nBy hand.\n' > "$dir/old/04-cures/README.md"
claims C-18 -q --readme "$dir/new" > /dev/null || fail "readme"
claims C-18 -q --readme "$dir/old" > /dev/null || fail "readme"
for f in "$dir/new" "$dir/old"; do
  grep -q '^| C-18: .* | \*\*[a-z ]* (lr 0.03)\*\*: .* | equal rate: learning rate 0.03, weight decay 0.1, 600 steps | ' "$f/04-cures/README.md" && grep -q '[0-9a-f]\{12\} [0-9a-f]\{12\}' "$f/04-cures/README.md" || fail "$f"
done
grep -q '^By hand' "$dir/old/04-cures/README.md" || fail "what was written by hand is lost"
echo 'At the end.' >> "$dir/old/04-cures/README.md"
cp "$dir/old/04-cures/README.md" "$dir/before"
printf 'notes\n\0the rest of them\n' >"$dir/binary" && mkdir -p "$dir/not-text/04-cures" && cp "$dir/binary" "$dir/not-text/04-cures/README.md"
claims C-18 -q --readme "$dir/not-text" >/dev/null 2>"$dir/err" && fail "a README that is no text is written"
grep -q '04-cures/README.md is not plain text' "$dir/err" && cmp "$dir/binary" "$dir/not-text/04-cures/README.md" || fail "a README that is no text: $(cat "$dir/err")"
claims C-18 -q --readme "$dir/old" > /dev/null
cmp "$dir/before" "$dir/old/04-cures/README.md" || fail "the block is not replaced in place"

# a ledger says what text it is of, and not where its runs lie
cp "${top_srcdir:-.}/README.md" "$dir/text.txt"
claims C-17 -q sweep.dir="$dir/of-text" data=bytes data.path="$dir/text.txt" > /dev/null || fail "a text's ledger"
grep -q '"settings": "model.width=16 .* train.warmup=5 data=bytes data.path=.*/text.txt"' "$dir/of-text/claims.json" ||
  fail "settings: $(grep settings "$dir/of-text/claims.json")"

# beside another ledger, in which one verdict is another
awk '/"id": "C-18"/ { own = 1 } own && /"verdict"/ { sub(/: ".*"/, ": \"withdrawn\""); own = 0 } { gsub(/"settings": "/, "&data=bytes data.path=a/text.txt "); print }' \
  "$dir/kept.json" > "$dir/text.json"
claims C-18 -q --readme "$dir/old" --beside "$dir/text.json" > /dev/null
grep -q '^Beside it, on text.txt (`data=bytes data.path=a/text.txt model.width=16.*`): made by maxlogit ' "$dir/old/04-cures/README.md" &&
  grep -q '^- On text.txt: withdrawn; [0-9.]* \[[0-9.]*, [0-9.]*\] over 12\.$' "$dir/old/04-cures/README.md" || fail "readme beside: $(cat "$dir/old/04-cures/README.md")"
# of several settings in one file those of the first count
if command -v jq > /dev/null; then
  jq '[.[0]] + [.[] | select(.id == "C-18") | .settings = "other" | .verdict = "refuted"] + .[1:]' "$dir/text.json" > "$dir/two.json" || fail "jq"
  claims C-18 -q --readme "$dir/old" --beside "$dir/two.json" > /dev/null 2> "$dir/err"
  grep -q 'two.json: [0-9]* of its verdicts are of other settings than the first' "$dir/err" && grep -q '^- On text.txt: withdrawn; ' "$dir/old/04-cures/README.md" || fail "a ledger of two settings: $(cat "$dir/err")"
fi
claims C-18 -q --readme "$dir/old" > /dev/null
cmp "$dir/before" "$dir/old/04-cures/README.md" || fail "what stood beside stays"

# which verdicts of a ledger that a README tells stand with these settings
{ echo '<!-- claims: written by `maxlogit claims --readme` -->' && echo 'At most 6 seeds (`--level quick`), data=x; rule 2. Made by maxlogit of old.'
  awk '$1 == "C-17" { print "| [C-17](a) | | broken (counted as C-1) | rate | a: b - c: -3 [-4, -2.5] | 3 | - | - | " $2 " |" }' "$dir/registered"
  echo '<!-- end of claims -->'; } > "$dir/told.md"
claims C-17 -q sweep.dir="$dir/wide" model.width=8 --replicas "$dir/stand" --beside "$dir/told.md" > "$dir/table" || fail "replicas"
for f in "$dir/stand" "$dir/stand/08-what-the-clip-does"; do
  grep -q '^## With `model.width=16 .* model.width=8`' "$f/README.md" && grep -q 'made by maxlogit of old\.' "$f/README.md" &&
    grep -q '^| .*C-17.* | broken | -3 \[-4, -2.5\] | 3 | true by construction | 0 \[0, 0\] | 3 | flips |$' "$f/README.md" || fail "$f: $(cat "$f/README.md")"
done
grep -q '^| clipped at step 0 | .* | [0-9a-f]\{12\} [0-9a-f]\{12\} [0-9a-f]\{12\} |$' "$dir/stand/08-what-the-clip-does/README.md" || fail "its arms"

# the report: one page, well-formed, whole without a network
if command -v gnuplot > /dev/null; then
  claims C-18 C-18b C-46 -q --report "$dir/report" --beside "$dir/text.json" > "$dir/table" 2> "$dir/err" || fail "report: $(cat "$dir/err")"
  page=$dir/report/index.html
  grep -q '^C-46 .*needs scale' "$dir/table" || fail "a claim without runs: $(cat "$dir/table")"
  for text in '<svg' 'id="C-18"' 'href="#C-18"' 'maxlogit claims C-18 --level quick model.width=16' 'needs scale' \
    'href="#C-18-runs"' 'href="#C-18-other"' 'id="C-18-other"' 'text.txt: ' '>all 3<' '>withdrawn 1<' '>needs scale 1<' '>verdicts that differ 1<' \
    'built-in chain and text.txt' "--beside $dir/text.json"; do
    grep -qF -- "$text" "$page" || fail "the page lacks $text"
  done
  grep -qE '(src|href)="(http|/)' "$page" && fail "the page asks for something else"
  test "$(find "$dir/report" -type f | wc -l)" = 1 || fail "more than one file"
  grep -o ' id=["'"'"'][^"'"'"']*' "$page" | sort | uniq -d | grep -q . && fail "an id stands twice"
  grep -qF '</span><span class="soft">' "$page" && fail "a verdict and its rates are one word"
  grep -q '<script' "$page" && fail "the page wants a script"
  # beside what a README tells, which has no runs, every link still leads somewhere
  claims C-17 -q sweep.dir="$dir/wide" model.width=8 --report "$dir/report-told" --beside "$dir/told.md" > /dev/null || fail "report beside a README"
  for id in $(grep -o 'href="#[^"]*' "$dir/report-told/index.html" | cut -d'#' -f2); do
    grep -q " id=[\"']$id[\"']" "$dir/report-told/index.html" || fail "a link to $id leads nowhere"
  done
  grep -qF -- '-3 [-4, -2.5], n' "$dir/report-told/index.html" || fail "what a README tells is not beside"

  # the commands beside each arm's first run make that run, also where another one comes before it, in its arm's own way
  made_again() { # PAGE RUNS ARMS
    rm -rf "$dir/again" && mkdir "$dir/again" && awk -v program="$(realpath "$program")" '/<pre>maxlogit run/ {
      sub(/.*<pre>/, ""); text = $0; if (!/<\/pre>/) { getline; text = text " -q\n" $0 }
      if (!match(text, /<li>[0-9a-f]* S=[0-9]*/) || text ~ /data.path=/) next # the text of those beside is not there
      split(substr(text, RSTART + 4, RLENGTH - 4), of, " S="); if (seen[of[1]]++) next # claims share it
      sub(/<\/pre>.*/, " -q record.path=" of[1] ".h5\nrm -rf first-*", text)
      gsub(/first-S/, "first-" of[2], text); gsub(/seed=S/, "seed=" of[2], text); gsub(/maxlogit run/, program " run", text); print text
    }' "$1" > "$dir/again/commands"
    (cd "$dir/again" && sh -e commands) > "$dir/err" 2>&1 || fail "what the page says does not run: $(cat "$dir/again/commands" "$dir/err")"
    test "$(find "$dir/again" -maxdepth 1 -name '*.h5' | wc -l)" = "$3" || fail "$1: not $3 arms: $(cat "$dir/again/commands")"
    for file in "$dir"/again/*.h5; do
      id=$(basename "$file" .h5)
      "$program" show --json "$file" 2> /dev/null | grep -q "\"$id\"" || fail "the page's commands make another run than $id"
      "$program" export "$file" val_loss > "$dir/one" && "$program" export "$2/$id.h5" val_loss | cmp -s - "$dir/one" || fail "the page's commands train otherwise: $id"
    done
  }
  made_again "$page" "$dir/runs" 3
  claims C-21c -q sweep.dir="$dir/phases" --report "$dir/report-phases" > /dev/null 2>&1 || fail "a report of phases"
  made_again "$dir/report-phases/index.html" "$dir/phases" 2
  if command -v xmllint > /dev/null; then
    xmllint --noout "$page" 2> "$dir/err" || fail "the page is not well-formed: $(head -5 "$dir/err")"
  fi

  # on paper the longest claim, of three arms with 24 seeds each, fits on one sheet behind that of the table
  if command -v chromium > /dev/null; then
    claims C-51b -q --level full train.steps=6 train.warmup=1 --report "$dir/paper" > "$dir/table" || fail "C-51b"
    grep -q ' 24 ' "$dir/table" || fail "C-51b was to need all seeds: $(cat "$dir/table")"
    sed -i '/<h2>What made it/,$d' "$dir/paper/index.html"
    echo '</body></html>' >> "$dir/paper/index.html"
    timeout 300 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$dir/browser" --no-pdf-header-footer \
      --print-to-pdf="$dir/paper.pdf" "file://$dir/paper/index.html" > /dev/null 2>&1
    if test -s "$dir/paper.pdf"; then
      test "$(grep -ac '/Type /Page$' "$dir/paper.pdf")" = 2 || fail "a claim does not fit on one sheet of paper"
    else echo "chromium prints nothing here: paper not looked at"; fi

    # at 400 px neither the page nor a figure scrolls sideways; where the system is dark so is the page, not its figures
    cat > "$dir/narrow.html" <<END
<iframe width=400 height=900 style="border:0" src="report/index.html"></iframe><script>
onload = () => {
  const page = document.querySelector("iframe").contentDocument, of = x => getComputedStyle(page.querySelector(x))
  page.querySelectorAll("details").forEach(x => x.open = true)
  const wide = [...page.querySelectorAll("html, .figure")].filter(x => x.scrollWidth > x.clientWidth)
  const shown = () => [...page.querySelectorAll("tr.c")].filter(x => x.offsetParent).length, parts = [...page.querySelectorAll("section.c")]
  page.querySelectorAll("input").forEach(x => { // each button shows as many claims as it says, and as many sections
    x.click()
    const n = +x.nextElementSibling.textContent.match(/[0-9]+$/)[0]
    if (shown() != n || parts.filter(y => y.offsetParent).length != n) wide.push({tagName: x.id + " shows " + shown()})
  })
  document.title = ["seen", wide.map(x => x.tagName).join(), of("body").backgroundColor, of("h1").color, of(".v0, .v3").color,
    of("pre").backgroundColor, of("svg rect").fill].join("|")
}</script>
END
    for dark in 1 0; do # preferredColorScheme: 0 is dark
      timeout 300 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$dir/browser" --allow-file-access-from-files \
        --blink-settings=preferredColorScheme=$dark --dump-dom "file://$dir/narrow.html" 2> /dev/null |
        sed -n 's/.*<title>\(seen[^<]*\).*/\1/p' > "$dir/seen$dark"
    done
    if test -s "$dir/seen1" && test -s "$dir/seen0"; then
      grep -q '^seen||' "$dir/seen1" || fail "at 400 px this scrolls sideways: $(cat "$dir/seen1")"
      # shades of background, heading, verdict, settings and figure, as sums of red, green and blue
      sed 's/rgba(0, 0, 0, 0)/rgb(255, 255, 255)/g; s/rgb(\([0-9]*\), \([0-9]*\), \([0-9]*\))/\1 \2 \3/g' "$dir/seen1" "$dir/seen0" |
        awk -F'|' '{ for (i = 3; i <= 7; i++) { split($i, c, " "); s[NR, i] = c[1] + c[2] + c[3] } }
          END { exit !(s[1, 3] > 700 && s[1, 4] < 100 && s[1, 5] < 300 && s[1, 6] > 650 && s[1, 7] > 700 &&
                       s[2, 3] < 100 && s[2, 4] > 600 && s[2, 5] > 400 && s[2, 6] < 150 && s[2, 7] > 700) }' ||
        fail "light and dark pages: $(cat "$dir/seen1" "$dir/seen0")"
    else echo "chromium shows nothing here: narrow and dark pages not looked at"; fi
  else echo "no chromium: paper, narrow and dark pages not looked at"; fi
fi

# wrong input: one message, status 2, nothing written
wrong() { # PATTERN words
  pattern=$1; shift
  claims sweep.dir="$dir/wrong" "$@" > "$dir/out" 2>&1
  status=$?
  [ $status = 2 ] || fail "claims $*: status $status"
  grep -q "$pattern" "$dir/out" || fail "claims $*: $(cat "$dir/out")"
  test -e "$dir/wrong" && fail "claims $* leaves something"
}
wrong 'no claim is called C-18x; did you mean C-18' C-18x
wrong "'slow' is not one of quick, full" --level=slow
wrong "did you mean 'train.lr'" C-18 train.lrr=3
wrong 'several runs where the claim wants one' C-18 train.lr=1,2
wrong "replicated with model.widht=8: .*did you mean 'model.width'" C-18 --replicate model.widht=8
wrong 'nothing to replicate with' C-18 --replicate ' '
mkdir "$dir/site" && echo '<title>maxlogit: runs</title>' >"$dir/site/index.html"
wrong 'site/index.html exists, and .* is not a page with the title .maxlogit: the ledger of claims' C-18 --report "$dir/site"
wrong 'for --report, --readme or --replicas, and none is there' C-18 --beside x
wrong 'claims --replicas: of which ledger' C-18 --replicas x
wrong 'claims --beside: .*/err is not a ledger: claims.json' C-18 --report "$dir/wrong" --beside "$dir/err"
wrong 'claims --beside: .*/new/claims.json is not a ledger' C-18 --report "$dir/wrong" --beside "$dir/new"
wrong 'claims --beside: README.md is not a ledger' C-18 --report "$dir/wrong" --beside README.md
wrong "claims --jobs: '0' is out of range (allowed: 1 to 1024)" -j 0 C-18

finish
