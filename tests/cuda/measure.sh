#!/bin/sh
# cuda/measure.sh, with the CPU in the place of the GPU: it says what is missing, keeps parts apart, and its table has
# what they found. The figures of stacks and PyTorch are a stand-in's: only what becomes of them is looked at.
# shellcheck source=cuda_host.sh
. "${top_srcdir:-.}/tests/cuda/cuda_host.sh"
measure=${top_srcdir:-.}/cuda/measure.sh
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
status=0
complain() { echo "$1"; status=1; }
MEASURE=$folder/kept
export MEASURE

# no GPU: said, and nothing is left
MAXLOGIT_CUDA_ON_HOST=no-gpu sh "$measure" --to "$folder/nothing" toy >"$folder/out" 2>&1
[ $? = 77 ] && grep -q 'SKIPPED: a driver, but no GPU' "$folder/out" && [ ! -e "$MEASURE" ] || complain "no GPU: $(cat "$folder/out")"
grep -q 'SKIPPED: a driver, but no GPU' "$folder/nothing/log.txt" || complain "log.txt has no reason for the skip"
sh "$measure" huge 2>"$folder/err"
[ $? = 2 ] && grep -q 'no part huge: check toy' "$folder/err" || complain "a part that there is not: $(cat "$folder/err")"

# what the bench prints is what the table reads
LONGER=100 SECONDS_EACH=0.001 sh "$measure" tiny >"$folder/out" 2>"$folder/err" || complain "tiny: $(cat "$folder/err")"
grep -qE '^tiny +fp32 +1 +[0-9.]+ .* [0-9]+ +[0-9.]+ % \| +- +- +- +not measured$' "$folder/out" || complain "tiny: $(cat "$folder/out")"
grep -qE '^tiny, one run: [1-9][0-9]+ launches a step, [1-9][0-9]+ of them one after another; call by call' "$folder/out" || complain "the kernels of tiny: $(cat "$folder/out")"
for math in fp32 tf32 bf16; do
  grep -qE "^ +1 x 4 tokens, 1 heads of 8 +$math .*%.*%.*% \(.* to .*\)$" "$folder/out" || complain "attention in $math: $(cat "$folder/out")"
done
grep -q '^check: not run' "$folder/out" || complain "what was not run is not told"

# PyTorch's figures come beside those of the same stack and number of runs; the ratio is to the best of them
cat >"$folder/program" <<'END'
case $1 in
doctor) echo '  "gpu": "a stand-in",' ;;
bench) [ "$4" = --stack=toy ] || [ "$4" = --costs ] || { [ "$4" != --stack=small ] || { echo 'maxlogit: the numbers are 3 and 4'; echo later; exit 5; }; exec sleep 1000; }
  if [ "$4" = --costs ]; then
    echo 'attention alone, TFLOP/s and share of the limit: forward, backward; cost of maxima and entropy'
    echo '  4 x 4096 tokens, 16 heads of 64   bf16    150.00   18.8 %   100.00   12.5 %   +0.50 % (+0.40 to +0.60)'
    echo '  4 x 4096 tokens, 16 heads of 128  bf16    150.00   18.8 %   100.00   12.5 %   +0.50 % (+0.40 to +0.60)'
    exit
  fi
  echo 'stack   math   runs    run-steps/s    TFLOP/s    of limit   waits   host idle'
  echo 'toy     fp32      1         3000.0       1.50        2.0 %       0      40.0 %'
  echo 'toy     fp32     64        64000.0      32.00       50.0 %       0      90.0 %' ;;
esac
END
cat >"$folder/python" <<'END'
echo 'attention alone: 4 x 4096 tokens, 16 heads of 64   bf16: forward 300.00, backward 400.00 TFLOP/s'
echo 'toy     muon  eager         1        100.0'
echo 'toy     muon  compiled      1       1500.0'
echo 'toy     muon  compiled     64 failed TimeoutError: out of time'
END
printf '#!/bin/sh\nexec sh %s "$@"\n' "$folder/program" >"$folder/maxlogit"
printf '#!/bin/sh\nexec sh %s\n' "$folder/python" >"$folder/python3"
chmod +x "$folder/maxlogit" "$folder/python3"
MAXLOGIT=$folder/maxlogit PYTHON=$folder/python3
export MAXLOGIT PYTHON
LONGER=100 sh "$measure" --to "$folder/handed" toy eager costs >"$folder/out" 2>"$folder/err" || complain "toy: $(cat "$folder/err")"
grep -qE '^toy +fp32 +1 .*100\.0 +- +1500\.0 +2\.00$' "$folder/out" || complain "ratio: $(cat "$folder/out")"
grep -qE '^toy +fp32 +64 .* not measured$' "$folder/out" || complain "no ratio: $(cat "$folder/out")"
grep -q '^attention alone, heads of 64, bf16: forward 0.50, backward 0.25 of' "$folder/out" ||
  complain "attention beside PyTorch's: $(cat "$folder/out")"
[ "$(grep -c '^attention alone, heads' "$folder/out")" = 1 ] || complain "a ratio to what was not measured"
grep -q '^tiny ' "$folder/out" || complain "what was there before is lost"
sed -n '/^maxlogit on a GPU/,$p' "$folder/out" | cmp -s - "$MEASURE/table.txt" || complain "table.txt is another"
cmp -s "$folder/handed/table.txt" "$MEASURE/table.txt" || complain "the table that is handed over is another"
grep -q '^=== eager: done' "$folder/handed/log.txt" && grep -q '"gpu": "a stand-in"' "$folder/handed/log.txt" ||
  complain "log.txt: $(cat "$folder/handed/log.txt")"
[ "$(find "$folder/handed" -type f | wc -l)" = 2 ] || complain "handed over: $(ls "$folder/handed")"

# a part that fails, one that takes too long, and one whose program is not there do not stop the others
PYTHON=$folder/none LONGER=100 sh "$measure" small eager >"$folder/out" 2>"$folder/err"
[ $? = 1 ] || complain "a part failed, and status is not 1"
grep -q '^small: FAILED with status 5: maxlogit: the numbers are 3 and 4' "$folder/out" || complain "small: $(cat "$folder/out")"
grep -q '^eager: SKIPPED: no PyTorch with CUDA: skipped' "$folder/out" || complain "eager: $(cat "$folder/out")"
LONGER=0.02 sh "$measure" medium >"$folder/out" 2>"$folder/err"
[ $? = 1 ] && grep -q '^medium: OUT OF TIME' "$folder/out" || complain "medium: $(cat "$folder/out")"
grep -q '^small: FAILED' "$folder/out" || complain "what ended before is lost"
exit $status
