#!/bin/sh
# plot: every figure draws without a word from gnuplot; PNG has content, SVG is well-formed, text has curves
srcdir=${srcdir:-$(dirname "$0")/..}
command -v gnuplot > /dev/null || { echo "gnuplot is not installed: figures not tested"; exit 77; }
. "$srcdir/tests/small_runs.sh"
for preset in adam muon muonclip; do
  for seed in 1 2; do small_run "$preset-$seed" preset=$preset train.seed=$seed qk_clip.tau=2; done
done

check_figures() { # FOLDER WHAT
  for figure in logits heads heatmap loss spectra; do
    size=$(wc -c < "$1/$figure.png")
    test "$size" -gt 10000 || fail "$2: $figure.png has $size bytes"
    if command -v xmllint > /dev/null; then xmllint --noout "$1/$figure.svg" || fail "$2: $figure.svg"
    else tail -n 2 "$1/$figure.svg" | grep -q '</svg>' || fail "$2: $figure.svg has no end"; fi
  done
}

"$program" plot "$dir" -o "$dir/all" > "$dir/out" 2> "$dir/err" || fail "plot: $(cat "$dir/err")"
test -s "$dir/err" && fail "plot: words on standard error: $(cat "$dir/err")"
test "$(grep -c . "$dir/out")" -eq 10 || fail "plot does not say where the figures are"
check_figures "$dir/all" "three groups"
"$program" plot "$dir/muon-1.h5" -o "$dir/one" > /dev/null 2> "$dir/err" || fail "one run: $(cat "$dir/err")"
check_figures "$dir/one" "one run"
# dashes are explained where there are some, names are dark, the last number of the axis is where it ends
for figure in logits heads loss spectra; do
  grep -q 'Dashed: no stabilizer' "$dir/all/$figure.svg" || fail "$figure.svg: dashes have no meaning"
  grep -q 'Dashed' "$dir/one/$figure.svg" && fail "$figure.svg of one run has no dashes"
done
last=$("$program" plot "$dir" --figure=logits --script | sed -n 's/^last_of_all = \([0-9]*\).*/\1/p')
for figure in logits heads; do grep -q ">[ ]*$last<" "$dir/all/$figure.svg" || fail "$figure.svg has no number at $last"; done
grep -B 1 '>Muon<' "$dir/all/logits.svg" | grep -q 'fill="rgb(17,17,17)"' || fail "logits.svg: a name is not dark"
# a run has one colour in figures and pages
colours() { sed "$@" | tr -c 'A-F0-9x#' '\n' | sed -n 's/^0x\(......\)$/\1/p; s/^#\(......\)$/\1/p' | grep -v 222222; }
test "$(colours -n '/^spare_colour/,/"$/p' "$srcdir/plots/style.gp")" = "$(colours -n '/^const spare/,/\]/p' "$srcdir/page/runs.js")" ||
  fail "pages and figures have other colours"

# a threshold is drawn where all clip at the same one; a cell of the heat map is the largest of its steps
"$program" plot --script --figure=logits "$dir/muonclip-1.h5" "$dir/adam-1.h5" | grep -q '^tau = 2.0$' || fail "no threshold"
small_run tighter preset=muonclip train.seed=3 qk_clip.tau=1
"$program" plot --script --figure=logits "$dir/muonclip-1.h5" "$dir/tighter.h5" | grep -q '^tau = NaN$' || fail "one threshold of two"
"$program" plot --script --figure=logits "$dir/muonclip-1.h5" "$dir/muonclip-2.h5" "$dir/tighter.h5" | grep -q '^tau = NaN$' || fail "the last threshold of three"
# values beyond the frame are marked: the axis has intervals up to as far again as the means reach; all_high is their end
number() { sed -n "s/^$1 = //p" "$dir/script"; }
"$program" plot --script --figure=logits "$dir/adam-1.h5" "$dir/adam-2.h5" > "$dir/script"
awk '/^all_high/ { all = $3 } /^high/ { high = $3 } /^all_low/ { least = $3 } /^low/ { low = $3 }
  /^\$data/ { on = 1 } /^EOD/ { on = 0 } on && /^[0-9]/ { if ($5 > most) most = $5; if (!n++ || $4 < first) first = $4; if ($3 > mean) mean = $3 }
  END { exit !(all == most && least == first && high >= mean && all > high && least < low) }' "$dir/script" || fail "ends of the values: $(grep -E '^(all_)?(low|high)' "$dir/script")"
"$program" plot --figure=logits --format=svg "$dir/adam-1.h5" "$dir/adam-2.h5" -o "$dir/cut" > /dev/null && grep -q 'goes on beyond the frame' "$dir/cut/logits.svg" || fail "a band that is cut has no mark"
"$program" plot --figure=logits --format=svg "$dir/adam-1.h5" -o "$dir/cut" > /dev/null && ! grep -q 'goes on beyond the frame' "$dir/cut/logits.svg" || fail "a mark of nothing"
# a run that explodes: the start of its loss is on the axis
small_run exploded preset=adam train.lr=100 train.warmup=0 train.on_nonfinite=continue
"$program" plot --script --figure=loss "$dir/exploded.h5" > "$dir/script"
awk '/^log_y/ { log_y = $3 } /^low/ { low = $3 } /^high/ { high = $3 } /^\$train/ { on = 1 } /^EOD/ { on = 0 }
  on && /^[0-9]/ && $3 ~ /^[0-9]/ { if (!n++) first = $3; if ($3 + 0 > most) most = $3 + 0 } END { exit !(log_y == 1 && first < 10 && first >= low && most > 1e6 && most <= high) }' "$dir/script" || fail "a loss that explodes: $(grep -E '^(low|high|log_y)' "$dir/script")"
# ... and of its max logits on the color scale, whose numbers end inside the picture
"$program" plot --script --figure=heatmap "$dir/exploded.h5" > "$dir/script"
awk '/^low/ { low = $3 } /^high/ { high = $3 } /^\$data/ { on = 1 } /^EOD/ { on = 0 } on && NF == 3 && n < 4 { n++; if (!start || $3 < start) start = $3 }
  END { exit !(n == 4 && low > 0 && low <= start && high > 1e9 * low) }' "$dir/script" || fail "colors of an explosion: $(grep -E '^(low|high)' "$dir/script")"
"$program" plot --figure=heatmap --format=svg --size=3.3in "$dir/exploded.h5" -o "$dir/cut" > /dev/null
grep -q 'Color: largest' "$dir/cut/heatmap.svg" || fail "colors have no note"
inside() { # SVG PATTERN: texts that match begin so far from the right edge that they end before it; 7 pixels a letter
  awk -v text="$2" '/viewBox=/ && !wide { sub(/.*viewBox="[0-9.]+ [0-9.]+ /, ""); wide = $0 + 0 }
    /<g transform="translate\(/ { middle = /text-anchor="middle"/; sub(/.*translate\(/, ""); x = $0 + 0 }
    /<tspan/ { gsub(/<[^>]*>/, ""); gsub(/^[ \t]+|[ \t]+$/, ""); if ($0 ~ text) { n++; if (x + 7 * length($0) / (1 + middle) > wide) bad = 1 } }
    END { exit !n || bad }' "$1"
}
inside "$dir/cut/heatmap.svg" '^[0-9.]+e\+' || fail "numbers of the color scale are cut"
rm "$dir/exploded.h5"
# shares stay between 0 and 1, their intervals too
"$program" plot --script "$dir"/*-[12].h5 --x train.warmup --y attn/max_logit:all:over=1.5 > "$dir/script" 2> "$dir/err" || fail "a share: $(cat "$dir/err")"
awk '/^\$curves/ { on = 1 } /^EOD/ { on = 0 } on && /^[0-9]/ { n++; if ($4 < 0 || $5 > 1) bad = 1 } END { exit !(n == 3 && !bad) }' "$dir/script" || fail "an interval of shares beyond 1"
test "$(number share)" = 1.0 || fail "a share has no bounds"

# a band that lies wholly outside has no edge there: its clamped width of nothing would lead to the next row as a wedge
foot=$(sed -n '/^clamp(\|^foot(/p' "$srcdir/plots/style.gp")
printf '%s\ninside(y) = clamp(y, 1, 2)\nset print "-"\nprint foot(3, 4) == foot(3, 4), foot(-2, 0) == foot(-2, 0), foot(0, 4), foot(1.5, 3), foot(1.5, 1.5)\n' "$foot" |
  gnuplot -d - 2> "$dir/err" | grep -qx '0 0 1 1.5 1.5' || fail "the lower edge of a band: $(cat "$dir/err")"
grep -h 'filledcurves' -B 1 "$srcdir"/plots/*.gp | grep 'using 1:(' | grep -v 'using 1:(foot(' && fail "a band without it"

# tics of steps: whole steps, a last one at a round end; the axis of the next panel has no 0 beside it
sed -n '/^power_below\|^ends_near\|^step_among/,/^end_of/p' "$srcdir/plots/style.gp" > "$dir/tics"
tics=$(printf '%s\nset print "-"\ndo for [l in "10 15 40 149 150 199 1000 4999"] { print int(tic_of_steps(l + 0.0)), int(end_of(l + 0.0, tic_of_steps(l + 0.0))) }\n' "$(cat "$dir/tics")" | gnuplot -d - 2> "$dir/err" | tr '\n' ' ')
test "$tics" = '2 10 5 15 10 40 25 150 25 150 20 200 200 1000 1000 5000 ' || fail "tics of steps: $tics $(cat "$dir/err")"
test "$(grep -c '>0<' "$dir/all/loss.svg")" -eq 1 || fail "loss.svg: the numbers of two panels touch"
# one value alone is not enlarged
room=$(printf 'final_low = 28.3; final_high = 28.3\n%s\nset print "-"\nprint room' "$(sed -n '/^  room = /p' "$srcdir/plots/loss.gp")" | gnuplot -d - 2>&1)
awk -v room="$room" 'BEGIN { exit !(room > 2) }' || fail "one last loss: an axis of $room around it"
# on a column: the last step, and a long name of an axis, in two lines where need be
"$program" plot --format=svg --size=3.3in --no-title "$dir"/*-[12].h5 --figure=logits --figure=loss -o "$dir/column" > /dev/null
for figure in logits loss; do inside "$dir/column/$figure.svg" "^(20|30|$last|$((last + 1)))\$" || fail "$figure.svg: the last step is cut"; done
"$program" plot --format=svg --size=3.3in --no-title "$dir"/*-[12].h5 --series=attn/entropy -o "$dir/column" > /dev/null
grep -q '>attention entropy,<' "$dir/column/series.svg" && grep -q '>mean over heads  (nat)<' "$dir/column/series.svg" || fail "a long name has one line"
# one head has no mean over heads; entropy is on a linear axis however far it falls
small_run fallen preset=adam train.lr=1 train.warmup=0 train.on_nonfinite=continue
"$program" plot --script --series attn/entropy@l1h1 --series attn/max_logit "$dir/fallen.h5" > "$dir/script"
grep -q "^array panel_name\[2\] = \['attention entropy, L1H1  (nat)', 'max logit, max over heads  (nat)'\]" "$dir/script" && grep -q '^array log_y\[2\] = \[0, 1\]' "$dir/script" &&
  awk '/^array low/ { gsub(/[^0-9.e+ -]/, ""); low = $2 } /^array high/ { gsub(/[^0-9.e+ -]/, ""); exit !($2 > 8 * low) }' "$dir/script" || fail "one head: $(grep -E '^array (panel|log|low|high)' "$dir/script")"
rm "$dir/fallen.h5"

# the reduction is named, and is the mean of spectra, in differences, in series and in export
"$program" plot --diff --script "$dir"/muon-?.h5 "$dir"/muonclip-?.h5 kind=muon kind=muonclip --of weight/svd_entropy > "$dir/script"
grep -q "^heading = 'weight/svd_entropy, mean over tensors: kind=muonclip minus kind=muon'" "$dir/script" || fail "a difference: $(grep ^heading "$dir/script")"
"$program" plot --diff --script "$dir"/muon-?.h5 "$dir"/muonclip-?.h5 kind=muon kind=muonclip > "$dir/script"
grep -q "^heading = 'Max logit, max over heads: " "$dir/script" || fail "a difference of logits: $(grep ^heading "$dir/script")"
for one in attn/entropy@l1h*:mean weight/svd_entropy@*w_[qk]:min 'attn/max_logit@l0*' loss weight/stable_rank:median attn/entropy:over=1; do
  "$program" plot --script --series "$one" --over tokens "$dir/muon-1.h5" 2> "$dir/err" | awk '/^\$data/ { on = 1 } /^EOD/ { on = 0 } on && /^[0-9]/ { print $1 / 64, $3 + 0 }' > "$dir/drawn"
  case $one in *@l0\*) set -- 'attn/max_logit@l0*:max' ;; *:* | loss) set -- "$one" ;; esac
  "$program" export "$dir/muon-1.h5" "$1" | awk '!/^#/ { print $1, $2 + 0 }' > "$dir/told"
  test -s "$dir/drawn" && cmp -s "$dir/drawn" "$dir/told" || fail "--series $one: $(head -n 2 "$dir/drawn" "$dir/told") $(cat "$dir/err")"
done
"$program" export "$dir/muon-1.h5" 'attn/entropy@l1h*' --format=csv | head -n 1 | grep -qx 'step,attn/entropy:l1h0,attn/entropy:l1h1' || fail "export: columns that match"
"$program" export "$dir/muon-1.h5" 'attn/entropy@l1h*' | awk '!/^#/ { print $1, ($2 + $3) / 2 }' > "$dir/told"
"$program" export "$dir/muon-1.h5" 'attn/entropy@l1h*:mean' | awk '!/^#/ { print $1, $2 + 0 }' | paste - "$dir/told" | awk '($2 - $4) ^ 2 > 1e-10 { bad = 1 } END { exit !NR || bad }' || fail "the mean over those that match"
"$program" plot --series 'attn/entropy@l1h*' --series val_loss --series weight/svd_entropy --format=svg "$dir"/*-[12].h5 -o "$dir/panels" > /dev/null 2> "$dir/err" || fail "panels: $(cat "$dir/err")"
for text in 'attention entropy, mean over heads l1h\*  (nat)' 'validation loss  (nat)' 'weight/svd_entropy, mean over tensors'; do grep -q "$text" "$dir/panels/series.svg" || fail "no panel of $text"; done
"$program" plot -t --series loss "$dir/muon-1.h5" > "$dir/text" && grep -q 'training step' "$dir/text" || fail "-t --series"

# one metric against another: the front has no group that another beats in both
"$program" plot --script --x peak --y val "$dir"/*-[12].h5 > "$dir/script" 2> "$dir/err" || fail "a scatter: $(cat "$dir/err")"
awk '/^\$/ { block = $1 } /^EOD/ { block = "" } block == "$means" && NF == 6 { x[++n] = $1; y[n] = $4 } block == "$front" && NF == 2 { fx[++m] = $1; fy[m] = $2 }
  END { for (i = 1; i <= n; i++) { beaten = 0; for (k = 1; k <= n; k++) beaten += x[k] < x[i] && y[k] < y[i]; if (!beaten) { want++; on = 0; for (k = 1; k <= m; k++) on += fx[k] == x[i] && fy[k] == y[i]; bad += !on } }
    exit !(n == 3 && m && want == m && !bad) }' "$dir/script" || fail "the front: $(sed -n '/^.means/,/^front/p' "$dir/script")"
# ... means of max logits are geometric on a linear axis, too; a front of one group is named
awk '/^geometric_x/ { is = $3 } /^log_x/ { log_x = $3 } /^\$/ { block = $1; n = 0 } /^EOD/ { block = "" } block == "$means" && NF == 6 { mean[n++] = $1 } block == "$runs" && NF == 2 { product[int(n / 2)] += log($1) / 2; n++ }
  END { for (g = 0; g < 3; g++) { d = mean[g] / exp(product[g]) - 1; bad += (d * d > 1e-12) } exit !(is == 1 && log_x == 0 && !bad) }' "$dir/script" || fail "means of a scatter: $(sed -n '/^.means/,/^geometric/p' "$dir/script")"
sed 's/^front = .*/front = 1/; s/^front_first = .*/front_first = 2/; s|^out = .*|out = ""|; s/^term = .*/term = "svg"/' "$dir/script" | gnuplot -d - > "$dir/alone.svg" 2> "$dir/err" && grep -q 'Lowest in both: Muon\.' "$dir/alone.svg" || fail "a front of one: $(cat "$dir/err")"
"$program" plot --x peak --y val --format=svg "$dir"/*-[12].h5 -o "$dir/panels" > /dev/null 2> "$dir/err" && grep -q 'validation loss  (nat)' "$dir/panels/scatter.svg" && grep -q 'geometric along x, arithmetic along y' "$dir/panels/scatter.svg" || fail "a scatter: $(cat "$dir/err")"

# a natural attempt that is refused names the way
refused() { # WORDS OF THE MESSAGE, then those of plot
  words=$1; shift
  "$program" plot "$dir/muon-1.h5" -o "$dir/x" "$@" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && grep -q -e "$words" "$dir/err" || fail "plot $*: exit $status, $(cat "$dir/err")"
}
refused 'over the steps: attn/max_logit:max' --series peak
refused 'over the steps: attn/entropy:mean' --series attn/entropy:last:mean
refused 'mean, max, min, median or over=NUMBER' --series loss:slope
refused 'did you mean attn/entropy' --series attn/entrpy
refused 'the last is called l1h1' --series 'attn/entropy@l7*'
refused 'series weight/svd_entropy' --of weight/svd_entropy
refused 'x train.lr --y peak' --x peak --y train.lr
refused 'y METRIC' --x peak
refused 'of METRIC' --x train.lr --y train.batch
refused 'series NAME' --over tokens
refused '3.3in,2.5in' --size 3.3
refused 'by --series' --figure series

# on paper: PDF, the width asked for, and no text below 6 pt
"$program" plot --format pdf --size 3.3in --figure logits --figure heads --figure heatmap --figure loss --figure spectra "$dir"/*-[12].h5 -o "$dir/paper" > "$dir/out" 2> "$dir/err" || fail "PDF: $(cat "$dir/err")"
"$program" plot --format pdf --size 84mm,60mm --no-title --x peak --y val "$dir"/*-[12].h5 -o "$dir/paper" >> "$dir/out" 2> "$dir/err" || fail "PDF: $(cat "$dir/err")"
if command -v python3 > /dev/null; then python3 - "$dir"/paper/*.pdf <<'END' > "$dir/err" || fail "on paper: $(cat "$dir/err")"; fi
import re, sys, zlib
for name in sys.argv[1:]:
    data, text = open(name, "rb").read(), b""
    assert data[:5] == b"%PDF-", name
    for part in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", data, re.S):
        try: text += zlib.decompress(part) + b"\n"
        except zlib.error: pass
    box = [float(x) for x in re.search(rb"/MediaBox\s*\[([^\]]*)\]", data + text)[1].split()]
    sizes = [(float(a) ** 2 + float(b) ** 2) ** 0.5 for a, b in re.findall(rb"([-\d.]+) ([-\d.]+) [-\d.]+ [-\d.]+ [-\d.]+ [-\d.]+ Tm", text)]
    assert 237 <= box[2] <= 239 and sizes and min(sizes) > 5.95, f"{name}: {box} {sorted(set(sizes))}"
END
"$program" plot --format svg --size 3.3in --figure logits "$dir/muon-1.h5" -o "$dir/paper" > /dev/null 2>&1
grep -q 'width="3.3in"' "$dir/paper/logits.svg" || fail "no size of an SVG"
# a point is that of TeX, of which an inch has 72.27
"$program" plot --format svg --size 238.491pt --figure logits "$dir/muon-1.h5" -o "$dir/paper" > /dev/null 2>&1
grep -q 'width="3.3in"' "$dir/paper/logits.svg" || fail "a size in points: $(grep -o 'width="[^"]*in"' "$dir/paper/logits.svg")"
grep -q '<title>Max logit of the largest head against training step</title>' "$dir/paper/logits.svg" && grep -q '<desc>.*2 layers' "$dir/paper/logits.svg" || fail "an SVG without title and description"
"$program" plot --format svg --no-title --font 'DejaVu Serif' --figure logits "$dir/muon-1.h5" -o "$dir/paper" > /dev/null 2>&1
grep -q '<tspan.*Max logit of the largest\|>Max logit of the largest head against training step</text>' "$dir/paper/logits.svg" && fail "--no-title has one"
grep -q 'font-family="DejaVu Serif"' "$dir/paper/logits.svg" || fail "--font: another"

# groups of a number: in its order, named by it alone, in a sequence of colours
mkdir "$dir/batches"
for batch in 16 4 8; do small_run batches/b$batch preset=muon train.batch=$batch train.steps=3; done
"$program" plot --script --figure=logits "$dir/batches" > "$dir/script"
grep -q "^array rest\[3\] = \[' batch=4', ' batch=8', ' batch=16'\]" "$dir/script" || fail "order: $(grep '^array rest' "$dir/script")"
grep -q '^array shade\[3\] = \[0, 0.5, 1\]' "$dir/script" || fail "no sequence: $(grep '^array shade' "$dir/script")"
"$program" plot --format=svg --figure=logits "$dir/batches" -o "$dir/batches" > /dev/null
grep -q '>batch=4<' "$dir/batches/logits.svg" && ! grep -q '>Muon batch=4<' "$dir/batches/logits.svg" || fail "a name repeats a setting that all share"

# heads: sorted by the largest value of any drawn run, as it is exported
for run in "$dir"/muon-[12].h5; do "$program" export "$run" attn/max_logit; done |
  awk '/^#/ { next } { for (i = 2; i <= NF; i++) if (!(i in m) || $i > m[i]) m[i] = $i } END { for (i in m) print m[i], i - 1 }' |
  sort -k 1,1gr | awk '{ printf "%s%s", (NR > 1 ? ", " : ""), $2 }' > "$dir/want"
"$program" plot --script --figure=heads --sort-heads "$dir"/muon-[12].h5 | sed -n 's/^array order\[[0-9]*\] = \[\(.*\)\]$/\1/p' > "$dir/order"
test "$(cat "$dir/want")" = "$(cat "$dir/order")" || fail "sorted heads: $(cat "$dir/want"), $(cat "$dir/order")"
# titles above the panels
"$program" plot --script --figure=heads "$dir/muon-1.h5" > /dev/null
grep -q 'panel_name\[h\] at graph 0,1 ' "$srcdir/plots/heads.gp" || fail "a panel's title lies where curves are"

# a warning of gnuplot is passed on, and its exit status decides
mkdir "$dir/bin"
for ends in 0 1; do
  printf '#!/bin/sh\ncat\necho "undefined variable: x" >&2\nexit %s\n' $ends > "$dir/bin/gnuplot"
  chmod +x "$dir/bin/gnuplot"
  PATH=$dir/bin:$PATH "$program" plot --figure=logits "$dir/muonclip-1.h5" -o "$dir/none.svg" > /dev/null 2> "$dir/err"; status=$?
  test $status -eq $ends && grep -q 'gnuplot.*: undefined variable: x' "$dir/err" || fail "gnuplot complains, and ends with $ends: exit $status, $(cat "$dir/err")"
done
rm "$dir/tighter.h5"
small_run long train.steps=500
"$program" plot --script --figure=heatmap "$dir/long.h5" | sed -n '/^\$data/,/^EOD/p' |
  awk 'NF == 3 && $2 ~ /^[0-9]/ { n++; if (!($2 in m) || $3 > m[$2]) m[$2] = $3 } END { print m[0] + 0, m[1] + 0, m[2] + 0, m[3] + 0 }' > "$dir/cells"
"$program" export "$dir/long.h5" attn/max_logit |
  awk '!/^#/ { for (h = 0; h < 4; h++) if (NR < 3 || $(2 + h) > m[h]) m[h] = $(2 + h) } END { print m[0] + 0, m[1] + 0, m[2] + 0, m[3] + 0 }' |
  cmp -s - "$dir/cells" || fail "cells of the heat map: $(cat "$dir/cells")"
rm "$dir/long.h5"

# every axis is named, with its unit where it has one, inside the picture
named() { # FILE TEXT LEAST: the text stands in the file, and at no place left of LEAST pixels
  awk -v text="$2" -v least="$3" '
    /<title>|<desc>/ { next }
    /<g transform="translate\(/ { split($0, part, /[(,]/); x = part[2] + 0 }
    index($0, text) { found = 1; if (x < least) exit found = 0 }
    END { exit !found }' "$1" || fail "$1: \"$2\" is not to be read"
}
named "$dir/all/loss.svg" 'loss  (nat per token)' 16
named "$dir/one/loss.svg" 'loss  (nat per token)' 16
named "$dir/all/logits.svg" 'max logit, largest head  (softmax input, log scale)' 16
named "$dir/all/heads.svg" 'max logit  (log scale)' 16
named "$dir/all/heatmap.svg" 'layer.head' 16
for measure in 'spectral norm' 'SVD entropy' 'stable rank'; do named "$dir/all/spectra.svg" "$measure" 16; done
for figure in logits heads heatmap loss spectra; do named "$dir/all/$figure.svg" 'training step' 8; done

# a claim's values on a log axis of three decades and more have a tic each decade, and of one step none lies amid
claim() { # LOW HIGH LAST
  gnuplot << END > "$dir/claim.svg" 2> "$dir/err" || fail "claim.gp: $(cat "$dir/err")"
plots = "$(realpath "$srcdir/plots")"; out = ""; term = "svg"; columns = 80; rows = 24
groups = 2; array kind[2] = ["a", "b"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array seeds[2] = [1, 1]; array clipped[2] = [0, 0]
array mean[2] = [$1, $2]; array mean_low[2] = [NaN, NaN]; array mean_high[2] = [NaN, NaN]
\$values << EOD
1 $1


2 $2
EOD
value_low = $1; value_high = $2; level = NaN; logarithmic = 1; metric = "m"; has_curves = 1; curve_label = "c"
\$curves << EOD
0 1 10 NaN NaN
$3 1 10 NaN NaN


0 1 20 NaN NaN
$3 1 30 NaN NaN
EOD
curve_low = 10; curve_high = 30; last_step = $3
load plots."/claim.gp"
END
  sed -n 's/.*<tspan[^>]*>\([0-9.]*\)<.*/\1/p; s/.*<text><tspan[^>]*> *\([0-9.]*\)<.*/\1/p' "$dir/claim.svg" | sort -u | tr '\n' ' '
}
tics=" $(claim 2 3000 1)"
case $tics in
  *' 0.'*) fail "a step between 0 and 1: $tics" ;;
  *' 10 '*' 1000 '*) ;;
  *) fail "tics of three decades: $tics" ;;
esac

# one row a figure: what the list names has a script and a line of --help
"$program" plot --help > "$dir/help"
for figure in $(sed -n 's|.*src/app/figures/\([a-z_]*\)\.c.*|\1|p' "$srcdir/src/app/figures/list.am"); do
  test -f "$srcdir/plots/$figure.gp" || fail "no plots/$figure.gp"
  tr -s ' \n' ' ' < "$dir/help" | grep -q "[:;] $figure (" || fail "--help does not name the figure $figure"
done

# a colour bar tells both of its ends, however narrow it is
ends() { # SVG SCRIPT: the numbers low and high of the script stand in the figure
  for end in low high; do
    sed -n "s/^$end = //p" "$2" | awk '{ printf "%.3g\n", $1 }' | grep -Eqf - "$1" && continue
    fail "$1: $end of the colour bar is not told: $(grep "^$end = " "$2")"
  done
}
"$program" plot --figure=heatmap --script "$dir/muon-1.h5" > "$dir/script"
ends "$dir/one/heatmap.svg" "$dir/script"
mkdir "$dir/shapes"
small_run shapes/flat preset=muon train.steps=2 model.layers=1
about() { "$program" plot --script --figure=loss "$@" 2> "$dir/err" | sed -n "s/^about = '\(.*\)'$/\1/p"; }
about "$dir/shapes/flat.h5" | grep -q '^1 layer × 2 heads, width 16, ' || fail "a heading: $(about "$dir/shapes/flat.h5")"
small_run shapes/deep preset=muon train.steps=2 model.layers=2
"$program" plot --script --figure=heads "$dir/shapes" > "$dir/out" 2> "$dir/err"; test $? -eq 2 && test "$(grep -o 'figure heads' "$dir/err" | wc -l)" -eq 1 || fail "heads of two depths: $(cat "$dir/err")"
about "$dir/shapes/flat.h5" "$dir/shapes/deep.h5" | grep -q '^2 heads, width 16, ' || fail "a heading of two depths: $(about "$dir/shapes/flat.h5" "$dir/shapes/deep.h5")"
small_run shapes/ahead preset=muon train.steps=2 model.mtp=1
"$program" plot --script --figure=heads "$dir/shapes/ahead.h5" | grep "^array panel_name" | grep -q "'layer 1, head 1', 'MTP 0, head 0', 'MTP 0, head 1'\]" || fail "heads of a module are not drawn"
"$program" plot --script --figure=heatmap "$dir/shapes/ahead.h5" | tr '\n' ' ' | grep -q 'heads_all = 6 layers = 2 ' || fail "the map leaves out heads of a module"
"$program" plot --script --figure=heads "$dir/shapes/deep.h5" "$dir/shapes/ahead.h5" 2>&1 | grep -q 'differ in .*model.mtp' || fail "heads with and without a module"
small_run narrow preset=muon train.steps=2 train.lr=1e-6
"$program" plot --figure=heatmap "$dir/narrow.h5" -o "$dir/narrow" > "$dir/out" 2> "$dir/err" || fail "a narrow scale: $(cat "$dir/err")"
"$program" plot --figure=heatmap --script "$dir/narrow.h5" > "$dir/script"
ends "$dir/narrow/heatmap.svg" "$dir/script"
rm "$dir/narrow.h5"

# latent attention: its tensors are in the panel of queries and keys
mkdir "$dir/mla"
small_run mla/latent preset=mla_muon
"$program" plot --figure=spectra "$dir/mla/latent.h5" -o "$dir/mla" > /dev/null 2> "$dir/err" ||
  fail "spectra of latent attention: $(cat "$dir/err")"
named "$dir/mla/spectra.svg" 'w_dq w_qc w_qr w_dkv w_kc w_kr' 16
"$program" plot "$dir/mla/latent.h5" "$dir/muon-1.h5" -o "$dir/mixed" > /dev/null 2> "$dir/err" ||
  fail "runs with other heads: $(cat "$dir/err")"
test "$(grep -c 'left out' "$dir/err")" -eq 2 || fail "figures that cannot be drawn: $(cat "$dir/err")"

# a key whose values span a factor of 4 has a logarithmic axis
mkdir "$dir/rates"
for lr in 0.005 0.01 0.02; do small_run "rates/$lr" preset=muon train.lr=$lr train.steps=2; done
"$program" plot --script --x train.lr --y val "$dir/rates" | grep -q '^log_x = 1.0' || fail "0.005 to 0.02 on a linear axis"
"$program" plot --script --x train.lr --y val "$dir/rates" --where 'train.lr<0.02' | grep -q '^log_x = 0.0' || fail "0.005 to 0.01 on a logarithmic axis"

# more groups than a figure takes: says what they differ in; --where chooses
mkdir "$dir/many"
for lr in 01 02 03 04 05 06 07 08 09; do
  for preset in adam muon; do small_run "many/$preset-$lr" preset=$preset train.lr=0.$lr train.steps=2; done
done
"$program" plot "$dir/many" -o "$dir/x" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "18 groups: exit $status"
grep -q -- '--where' "$dir/err" && grep -q 'kind = adam, muon' "$dir/err" &&
  grep -q 'train.lr = 0.01, 0.02' "$dir/err" || fail "18 groups: no way to choose: $(cat "$dir/err")"
"$program" plot --script --figure=logits --where kind=muon --where train.lr=0.010,9e-2 "$dir/many" > "$dir/out" ||
  fail "--where"
grep -q "^groups = 2$" "$dir/out" || fail "--where: $(grep '^groups' "$dir/out")"
"$program" plot --where kind=adam "$dir/many" -o "$dir/some" > "$dir/out" 2> "$dir/err" ||
  fail "nine groups: $(cat "$dir/err")"
for wrong in train.lr=7 train.rl=0.01 train.lr; do
  "$program" plot --where $wrong "$dir/many" -o "$dir/x" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 || fail "--where $wrong: exit $status"
done

# texts out of a file are texts: neither a line's end nor a backtick makes a command of them
name=$(printf 'a\n!touch pwned\n`touch pwned`\n#.txt')
seq 1 400 > "$dir/$name"
small_run texts data=bytes data.path="$dir/$name"
(cd "$dir" && "$program" plot texts.h5 -o "$(printf 'two\nlines')") > "$dir/out" 2> "$dir/err" || fail "texts: $(cat "$dir/err")"
test ! -e "$dir/pwned" || fail "a command out of a run file was run"
test -s "$dir/$(printf 'two\nlines')/loss.svg" || fail "a folder of two lines: $(ls "$dir")"

# a run that has just begun, of many steps, has a loss; that it has not finished is said
mkdir "$dir/begun"
"$program" run --quiet model.layers=1 model.width=16 model.heads=2 model.context=16 train.batch=4 train.steps=1000000 \
  train.max_time=1 train.val_every=1000000 device.threads=1 record.path="$dir/begun/a.h5" > "$dir/out" 2>&1
"$program" plot "$dir/begun" --figure=loss -o "$dir/begun" > "$dir/out" 2> "$dir/err" || fail "a run that has begun: $(cat "$dir/err")"
"$program" plot "$dir/begun" --figure=loss --script > "$dir/script"
awk '$1 == "high" { high = $3 } /^\$train/ { on = 1 } /^EOD/ { on = 0 } on && /^[0-9]/ && $3 < 1e9 { m = $3 }
  END { exit !(high > m && m != "") }' "$dir/script" || fail "its curve is outside of the figure"
awk -v rows="$("$program" export "$dir/begun/a.h5" loss | grep -vc '^#')" '$1 == "bin_steps" { n = $3 }
  END { exit !(n * 40 < rows + 21 && n * 40 > rows - 21 || rows <= 40 && n == 1) }' "$dir/script" || fail "steps in a mean: $(grep bin_steps "$dir/script")"
grep -q "(unfinished)" "$dir/script" || fail "not said that it is unfinished"

LC_ALL=C "$program" plot "$dir/muon-1.h5" -o "$dir/c" > /dev/null 2> "$dir/err" || fail "LC_ALL=C: $(cat "$dir/err")"

# without spectra and validation; a run that diverges in its middle; runs of different lengths
small_run bare preset=muon record.spectra_every=0 train.val_every=0
small_run broken preset=adam train.lr=1e6 train.warmup=0
small_run long preset=muon train.steps=60 record.overwrite=1
"$program" plot "$dir/bare.h5" "$dir/broken.h5" "$dir/long.h5" -o "$dir/odd" > /dev/null 2> "$dir/err" ||
  fail "odd runs: $(cat "$dir/err")"
"$program" plot "$dir/broken.h5" -o "$dir/odd" > /dev/null 2> "$dir/err" ||
  fail "diverged run: $(cat "$dir/err")"

# a text of one symbol: the loss is 0 throughout
awk 'BEGIN { for (i = 0; i < 300; i++) printf "a" }' > "$dir/text"
small_run zero data=bytes data.path="$dir/text"
"$program" plot "$dir/zero.h5" --figure=loss -o "$dir/odd" > /dev/null 2> "$dir/err" || fail "a loss of 0: $(cat "$dir/err")"
rm "$dir/zero.h5"

# one head is not a map, and what has no point on a logarithmic axis no failure: the other figures are drawn
small_run one model.layers=1 model.heads=1
"$program" plot "$dir/one.h5" -o "$dir/one" > /dev/null 2> "$dir/err" && grep -q 'heatmap: .*one.h5: a map wants two heads and two steps; left out' "$dir/err" && test -s "$dir/one/loss.svg" ||
  fail "one head: $(cat "$dir/err")"
"$program" plot "$dir/one.h5" --figure=heatmap -o "$dir/one" > /dev/null 2> "$dir/err"; status=$?
test $status -eq 2 || fail "a map of one head: exit $status"
small_run below model.width=2 model.context=1 model.heads=1 model.head_dim=2 train.batch=1 train.steps=3 optimizer=none train.seed=11
"$program" export "$dir/below.h5" attn/max_logit | awk '!/^#/ { for (i = 2; i <= NF; i++) if ($i > 0) some[i] = 1 } END { exit !(some[2] + some[3] == 1) }' ||
  fail "not one head of two is below zero throughout: $("$program" export "$dir/below.h5" attn/max_logit)"
"$program" plot "$dir/below.h5" --figure=heads -o "$dir/one" > /dev/null 2> "$dir/err" || fail "a head below zero: $(cat "$dir/err")"
rm "$dir/one.h5" "$dir/below.h5"

# in the terminal: no escape codes in a pipe
"$program" plot -t "$dir" > "$dir/text" 2> "$dir/err" || fail "-t: $(cat "$dir/err")"
grep -q 'training step' "$dir/text" || fail "-t draws nothing"
grep -q "$(printf '\033')" "$dir/text" && fail "-t: escape codes in a pipe"
if [ -w /dev/full ]; then
  "$program" plot -t "$dir" > /dev/full 2> "$dir/err"; status=$?
  test $status -eq 1 && grep -q 'cannot write to standard output' "$dir/err" || fail "-t on a full disk: exit $status, $(cat "$dir/err")"
fi
"$program" plot -t --figure=heads "$dir" > "$dir/text" 2> "$dir/err" || fail "-t heads: $(cat "$dir/err")"
# heads have a line a seed, under the letter of their group
LC_ALL=C "$program" plot -t --figure=heads "$dir"/adam-1.h5 "$dir"/muon-[12].h5 > "$dir/text" 2> "$dir/err" || fail "-t heads of two seeds: $(cat "$dir/err")"
grep -qx 'A line for each seed.' "$dir/text" || fail "-t heads: $(tail -n 3 "$dir/text")"
sed -n 's/^[^|]*|//p' "$dir/text" | grep -q b && ! sed -n 's/^[^|]*|//p' "$dir/text" | grep '[^-ab+x^v|0-9.e ]' || fail "-t heads: $(cat "$dir/text")"
LC_ALL=C "$program" plot -t --figure=heads "$dir"/adam-1.h5 "$dir"/muon-1.h5 | cmp -s - "$dir/text" && fail "-t heads draws one seed of two"
"$program" plot -t --figure=loss "$dir" > "$dir/text" 2> "$dir/err" || fail "-t loss: $(cat "$dir/err")"

# the printed script draws the same figure; a folder of one's own is taken
"$program" plot --script --figure=logits --format=svg "$dir/muon-1.h5" "$dir/muon-2.h5" |
  sed 's|^out = .*|out = "own.svg"|' > "$dir/own.gp"
(cd "$dir" && gnuplot own.gp) 2> "$dir/err" || fail "--script: $(cat "$dir/err")"
test -s "$dir/own.svg" || fail "--script draws nothing"
MAXLOGIT_PLOTS=$dir/nowhere "$program" plot "$dir/muon-1.h5" -o "$dir/x" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "MAXLOGIT_PLOTS to nowhere: exit $status"
"$program" plot --figure=logit "$dir/muon-1.h5" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 || fail "unknown figure: exit $status"
grep -q "logits" "$dir/err" || fail "unknown figure: no suggestion: $(cat "$dir/err")"
# gnuplot is told of no file, which would be left behind where the program is stopped; and draws into memory, since a
# full /tmp would cut the figure short
printf '#!/bin/sh\n/usr/bin/sed -n "s/^out = //p" > "%s/told"; output=$(/usr/bin/readlink /proc/$$/fd/1); echo "$output" >> "%s/told"; echo drawn\n' "$dir" "$dir" > "$dir/gnuplot"
chmod +x "$dir/gnuplot"
PATH=$dir "$program" plot "$dir/muon-1.h5" --figure=loss --format=svg -o "$dir/x" > "$dir/out" 2> "$dir/err" || fail "another gnuplot: $(cat "$dir/err")"
test "$(head -n 1 "$dir/told")" = "''" && grep -q '^/memfd:' "$dir/told" && test "$(cat "$dir/x/loss.svg")" = drawn || fail "gnuplot draws into $(cat "$dir/told")"
printf '#!/bin/sh\nkill -KILL $$\n' > "$dir/gnuplot"
PATH=$dir "$program" plot "$dir/muon-1.h5" --figure=loss -o "$dir/x" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 1 && grep -q 'gnuplot: Killed' "$dir/err" && test "$(cat "$dir/x/loss.svg")" = drawn || fail "gnuplot is killed: exit $status, $(cat "$dir/err")"
rm "$dir/gnuplot"
(PATH=$dir; export PATH; "$program" plot "$dir/muon-1.h5" -o "$dir/x") > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 1 || fail "no gnuplot: exit $status"
grep -q 'gnuplot is not installed' "$dir/err" || fail "no gnuplot: $(cat "$dir/err")"
finish
