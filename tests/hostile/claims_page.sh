#!/bin/sh
# The page of claims beside another ledger whose every text is markup and a shell's words: it has no more scripts, handlers
# or addresses than beside an honest one, and its commands are quoted.
srcdir=${srcdir:-$(dirname "$0")/../..}
. "$srcdir/tests/small_runs.sh"
python=$(python_with "json, html.parser, shlex") && [ "$python" ] || { echo "claims_page.sh: skipped, no Python here"; exit 77; }
command -v gnuplot > /dev/null || { echo "claims_page.sh: skipped, no gnuplot here"; exit 77; }
texts="$(realpath "${top_srcdir:-$srcdir}")/tests/hostile/texts.py"
MAXLOGIT_PAGE=$(realpath "${top_srcdir:-$srcdir}")/page MAXLOGIT_PLOTS=$(realpath "${top_srcdir:-$srcdir}")/plots
export MAXLOGIT_PAGE MAXLOGIT_PLOTS
cd "$dir" || exit 99
try_claims() {
  "$program" claims C-18 C-17 model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=2 train.steps=20 train.warmup=2 \
    train.val_every=4 record.probe_every=1 record.spectra_every=5 qk_clip.tau=0.5 -q -j1 "$@" > out 2> err
}
claims() {
  try_claims "$@"
  [ $? -le 1 ] || fail "claims $*: $(cat err)"
}
claims sweep.dir=runs
cp runs/claims.json honest.json
"$python" "$texts" ledger honest.json evil.json || fail "no hostile ledger"
claims sweep.dir=runs --report=honest --beside honest.json
claims sweep.dir=runs --report=hostile --beside evil.json
"$python" "$texts" page honest/index.html hostile/index.html > look || fail "$(cat look)"
"$python" "$texts" look hostile/index.html out err > look || fail "$(cat look)"
"$python" "$texts" sound hostile/index.html > look || fail "$(cat look)"
"$python" -c 'import xml.dom.minidom; xml.dom.minidom.parse("hostile/index.html")' || fail "the page is not XML"
grep -q '&lt;script&gt;alert(1)&lt;/script&gt;' hostile/index.html || fail "the other ledger's texts are not on the page"
mkdir -p told/04-cures told/06-tuned
claims sweep.dir=runs --beside evil.json --readme told
grep -rq '&lt;script&gt;' told || fail "the other ledger's texts are not in the README"
grep -r '<script\|<img' told && fail "markup of the other ledger in the README"
rm -r told
claims model.width=32 sweep.dir=wide --beside evil.json --replicas told
grep -r '<script\|<img\|javascript:' told | grep -v '`[^`]*javascript:' && fail "markup of the other ledger in the README of replicas"
rm -r told
# a folder of a question that is a link is not followed: its name is predictable
mkdir told elsewhere && ln -s ../elsewhere told/04-cures
try_claims sweep.dir=runs --readme told
grep -q 'told/04-cures is a symbolic link' err && [ -z "$(ls elsewhere)" ] || fail "a link in place of a question's folder: $(cat err; ls elsewhere)"
rm -r told elsewhere
# the ledger of before, from which this one recalls what was found
cp evil.json runs/claims.json
claims sweep.dir=runs --report=recalled
"$python" "$texts" page honest/index.html recalled/index.html > look || fail "$(cat look)"
"$python" "$texts" look recalled/index.html out err > look || fail "$(cat look)"
# verdicts of a README, which are read as a ledger, too
evil="<script>alert(1)</script><img src=x onerror=alert(1)>'\"$(printf '\033[2J\302\233\377')"
printf '%s\n' '<!-- claims: written by `maxlogit claims --readme` -->' \
  "At most 6 seeds a claim (\`--level quick\`), train.lr='; touch pwned; ' $evil; rule 2: medians. Made by $evil." \
  "| [C-18](04-cures) | $evil | holds | rate | $evil: 1 [0.9, 1.1] | 6 | 1 | 1 | $evil |" '<!-- end of claims -->' > evil.md
claims sweep.dir=runs --report=told --beside evil.md
"$python" "$texts" page honest/index.html told/index.html > look || fail "$(cat look)"
"$python" "$texts" look told/index.html out err > look || fail "$(cat look)"
grep -q '&lt;script&gt;alert(1)&lt;/script&gt;' told/index.html || fail "the texts of the README are not on the page"
[ ! -e pwned ] || fail "a text was run"
# the ledger of before is read only if it is one, and not through another user's link: its entries would be copied
cp honest.json runs/claims.json; chmod 600 runs/claims.json
claims sweep.dir=runs
[ "$(stat -c %a runs/claims.json)" = 600 ] || fail "a private ledger is now of mode $(stat -c %a runs/claims.json)"
echo '["a token"]' > secret.json
cp secret.json runs/claims.json
try_claims sweep.dir=runs
grep -q 'is not a ledger and stays as it is' err && cmp -s secret.json runs/claims.json || fail "a list that is not a ledger: $(cat err)"
if [ "$(id -u)" = 0 ]; then
  mv honest.json private.json; chmod 777 runs; ln -sf ../private.json runs/claims.json; chown -h nobody runs/claims.json
  try_claims sweep.dir=runs
  grep -q 'is a symbolic link of another user' err && [ -L runs/claims.json ] || fail "a ledger behind another user's link: $(cat err)"
fi
finish
