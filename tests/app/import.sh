#!/bin/sh
# import: each form of log, what its columns become, what is refused; export and import again are the same
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
cd "$dir" || exit 99
import() { "$program" import "$@" > out 2> err; }
# refused NAME PATTERN ARGUMENTS: status 2, one line that says so, and nothing written
refused() {
  what=$1 pattern=$2; shift 2
  rm -f x.h5
  import "$@" -o x.h5; status=$?
  test $status -eq 2 && test "$(grep -c . err)" -eq 1 && grep -q "$pattern" err || fail "$what: exit $status: $(cat out err)"
  test -z "$(ls x.* 2> /dev/null)" || fail "$what: it left $(ls x.*)"
}
# has FILE SERIES 'ROW ROW ...': what export tells of it, columns joined by :
has() { "$program" export "$1" "$2" | grep -v '^#' | tr ' \n' ': ' | grep -qx "$3 *" || fail "$1 $2: $("$program" export "$1" "$2" 2>&1)"; }
same() { "$program" export "$1" "$3" 2>&1 | grep -v '^# run' > one; "$program" export "$2" "$3" 2>&1 | grep -v '^# run' > two
  sed 's/: .*//' one > one.n; sed 's/: .*//' two > two.n; cmp -s one.n two.n || fail "$3 of $1 and $2: $(diff one.n two.n | head -4)"; }

# --- what export writes: every series alone and all together -------------------------------------------------------
small_run run preset=muonclip qk_clip.tau=2
series='loss val_loss lr grad_norm attn/max_logit attn/max_abs_logit attn/entropy qk_clip/gamma head_q/spectral_norm'
for s in $series; do
  n=$(echo "$s" | tr / _)
  "$program" export run.h5 "$s" --format=csv > "$n.csv" || fail "export $s"
  import "$n.csv" -o "of-$n.h5" || fail "import $s: $(cat err)"
  same run.h5 "of-$n.h5" "$s"
done
# shellcheck disable=SC2086 # a list of names
for format in csv tsv columns; do
  "$program" export run.h5 $series --format=$format > all.$format
  import all.$format --form=csv -o all-$format.h5 || fail "import all, $format: $(cat err)"
  for s in $series; do same run.h5 all-$format.h5 "$s"; done
done
"$program" show all-csv.h5 --of peak > peak && "$program" show run.h5 --of peak > true || fail "show"
test "$(awk 'END { print $(NF - 1) }' peak)" = "$(awk 'END { print $(NF - 1) }' true)" || fail "peak: $(cat peak true)"
"$program" note all-csv.h5 | grep -q 'imported from all.csv' || fail "no note of where it came from"
"$program" resume all-csv.h5 > out 2> err; status=$?
test $status -eq 2 && grep -q 'another program' err || fail "resume of an import: exit $status: $(cat err)"
"$program" eval all-csv.h5 > out 2> err; status=$?
test $status -eq 2 && grep -q 'another program' err || fail "eval of an import: exit $status: $(cat err)"
"$program" report all-csv.h5 run.h5 -o page > out 2> err || fail "report: $(cat err)"
# two arms of imports: paired by seed, drawn, told as groups
for seed in 1 2; do
  for arm in a b; do
    "$program" export run.h5 loss attn/max_logit --format=csv > arm.csv
    import arm.csv --set optimizer=$arm --set train.seed=$seed -o "arms/$arm-$seed.h5" || fail "arm $arm: $(cat err)"
  done
done
"$program" compare arms optimizer=a optimizer=b --of loss:last > out 2> err || fail "compare: $(cat err)"
grep -q 'B - A  *0 .*n=2 pairs' out || fail "compare: $(cat out)"
"$program" plot -t arms --figure=logits > out 2> err || fail "plot: $(cat err)"
test "$(grep -c . out)" -gt 10 || fail "plot: $(cat out)"
"$program" show arms --by optimizer --of peak > out 2> err && grep -q '^a  *2 ' out || fail "show --by: $(cat out err)"

# --- CSV ------------------------------------------------------------------------------------------------------------
printf '"Step","train/loss","a, ""b""",model.layers.0.attn.1.max,model.layers.1.attn.0.max\r\n10,2.5,1,,7\r\n20,nan,2,3.5,8\r\n\r\n5,3,0,1,inf\r\n' > a.csv
import a.csv --set optimizer=muon --set train.seed=3 --set 'data.name=x=y' --unit loss=bit || fail "a.csv: $(cat err)"
has a.h5 loss '5:3 10:2.5 20:NaN'
has a.h5 attn/max_logit '5:NaN:1:inf:NaN 10:NaN:NaN:7:NaN 20:NaN:3.5:8:NaN'
has a.h5 a_b '5:0 10:1 20:2'
# what is missing is no NaN of the run: it is passed over, and missing again in CSV; a nan that was told is one
printf 'step,l0.h0.max_logit,l0.h1.max_logit\n0,1,2\n1,,7\n2,3,5\n3,4,\n' > gap.csv
import gap.csv && "$program" show gap.h5 --csv --of peak,last,attn/max_logit:all:min,attn/max_logit:all:median,attn/max_logit:all:above=6,attn/max_logit@l0h1:last:max > out 2> err
grep -q ',7,4,1,3.5,1,0,$' out || fail "a gap: $(cat out err)"
"$program" show gap.h5 > out && ! grep -qi nan out || fail "a gap, shown: $(cat out)"
import gap.csv --set train.lr=nan -o nan.h5 || fail "a key that is no number: $(cat err)"
for c in '<=1' '>=1' '<1' '>1'; do
  "$program" show nan.h5 --where "train.lr$c" > out 2> err; test $? -eq 2 || fail "NaN is $c: $(cat out)"
done
printf 'step,blocks.0.heads.0.max_abs_logit,blocks.0.heads.1.max_abs_logit\n0,5,6\n' > abs.csv
import abs.csv -n && ! grep -q '^attn/max_logit' out && grep -q 'max_abs_logit .*layer 1, head 2' out || fail "absolute logits are no max logits: $(cat out)"
"$program" export gap.h5 attn/max_logit --format=csv > out && grep "^[0-9]" out > rows && sed 1d gap.csv | diff - rows || fail "a gap in CSV: $(cat out)"
printf '4,nan,1\n' >> gap.csv && import gap.csv --overwrite && "$program" show gap.h5 --csv --of peak > out && grep -qi nan out || fail "a nan: $(cat out)"
"$program" export a.h5 --list | grep -q '^loss  *bit  *\[step\]' || fail "the unit: $("$program" export a.h5 --list)"
"$program" show a.h5 --parameters > out
for line in 'optimizer = muon' 'train.seed = 3' 'data.name = x=y'; do grep -qx "$line" out || fail "no '$line': $(cat out)"; done
import a.csv 2> err; test $? -eq 2 || fail "import over a run"
import a.csv; test $? -eq 2 && grep -q 'a.h5 exists; --overwrite' err || fail "import over a run: $(cat err)"
import a.csv --overwrite || fail "--overwrite: $(cat err)"
import a.csv --dry-run -o dry.h5 && test ! -e dry.h5 || fail "--dry-run"
grep -q "^attn/max_logit  *\[step, layer 2, head 2\]  *nat .*<- model.layers.{l}.attn.{h}.max$" out || fail "the map: $(cat out)"
map=$(sed -n "s/^--map '\(.*\)'$/\1/p" out)
import a.csv --map "$map" -o mapped.h5 || fail "the map that was printed: $(cat err)"
same a.h5 mapped.h5 attn/max_logit
import a.csv --map 'x/y[h,l]=model.layers.{l}.attn.{h}.max,-=train/loss' -o b.h5 || fail "--map: $(cat err)"
"$program" export b.h5 loss > out 2> err && fail "- does not leave out"
"$program" export b.h5 x/y | grep -q . || fail "x/y"
printf 'step,loss\n0,1\n1,2\n1,3\n0,4\n' > again.csv # told again after a restart: the last counts
import again.csv && has again.h5 loss '0:4 1:3'
printf 'step;q,r;"x";y z\n1;2;"3";4\n' > semi.csv && import semi.csv && has semi.h5 q_r '1:2' && has semi.h5 x '1:3'
printf 'step  q   x\n 1   2  3  \n' > blanks.csv && import blanks.csv && has blanks.h5 q '1:2' && has blanks.h5 x '1:3'
printf 'it\tq\n1\t2\n' > step.tsv
refused "no steps" "step.tsv:1: no column of steps; --step" step.tsv
import step.tsv --step it -o step.h5 && has step.h5 q '1:2'
refused "other steps" "no column of steps called is;" step.tsv --step is
printf 'step,loss\n1,2\n2,x\n' > bad.csv; refused "no number" "^maxlogit: bad.csv:3: loss: 'x' is no number" bad.csv
printf 'step,loss\n1,2\n2\n' > bad.csv; refused "columns" "bad.csv:3: 1 columns where the first line names 2" bad.csv
printf 'step,loss\n1.5,2\n' > bad.csv; refused "half a step" "bad.csv:2: step '1.5' is no whole number" bad.csv
printf 'step,loss\n-1,2\n' > bad.csv; refused "a step below 0" "bad.csv:2: step '-1'" bad.csv
printf 'step,"loss\n1,2\n' > bad.csv; refused "a quote" "bad.csv:1:" bad.csv
printf 'step,loss\n1,"2\n' > bad.csv; refused "a quote" 'bad.csv:2: a " without' bad.csv
printf 'step,loss\n1,\0002\n' > bad.csv; refused "NUL" "bad.csv:2: a NUL byte" bad.csv
printf 'step,loss\n' > bad.csv; refused "no row" "no number of any step" bad.csv
printf 'step,loss,loss\n1,2,3\n' > bad.csv; refused "a name twice" "bad.csv:1: two columns are called 'loss'" bad.csv
mkdir folder.csv; refused "a folder" "folder.csv: a folder" folder.csv
: > bad.csv; refused "empty" "bad.csv: no line" bad.csv
refused "no file" "nowhere.csv: No such file" nowhere.csv
refused "a rule without a column" "no column is train/los; did you mean 'train/loss'" a.csv --map 'loss=train/los'
refused "a rule" "SERIES=NAME" a.csv --map loss
refused "axes" "{l} is in the pattern alone; q\[l\]=" a.csv --map 'q=x.{l}'
refused "a letter" "in brackets" a.csv --map 'q[z]=x.{z}'
refused "two rules" "train/loss is of two rules" a.csv --map 'x=train/loss,y=train/loss'
refused "a unit of nothing" "no series is called so" a.csv --unit los=bit
for n in 65536 99999999999999999999 9223372036854775807; do
  printf 'step,model.layers.%s.attn.max_logit\n1,2\n' $n > bad.csv; refused "layer $n" "that is no layer" bad.csv
done
refused "a setting" "KEY=VALUE" a.csv --set optimizer
import a.csv -o x.txt; test $? -eq 2 && grep -q 'ends with .h5' err || fail "-o x.txt: $(cat err)"

# --- JSON lines -----------------------------------------------------------------------------------------------------
cat > t.jsonl << 'END'
{"_step": 0, "train": {"loss": 2.5, "lr": 1e-3}, "attn_max_logits": [[1, 2], [3, NaN]], "note": "text", "layer_0/head_1/entropy": 0.5}
{"_step": 2, "train": {"loss": Infinity}, "attn_max_logits": [[1, 2], [3, -Infinity]]}
{"train_runtime": 12.5}
{"_step": 1, "train": {"loss": 2.25}, "eval_loss": "2.75"}
END
import t.jsonl || fail "t.jsonl: $(cat err)"
has t.h5 loss '0:2.5 1:2.25 2:inf'
has t.h5 lr '0:0.001'
has t.h5 val_loss '1:2.75'
has t.h5 attn/max_logit '0:1:2:3:NaN 2:1:2:3:-inf'
has t.h5 entropy '0:NaN:0.5:NaN:NaN'
grep -q '1 line without a step' err || fail "the line without a step: $(cat err)"
printf '{"step": 1, "loss": 2}\n{"step": 2, "loss": \n' > bad.jsonl; refused "half a line" "bad.jsonl:2: no JSON object" bad.jsonl
printf '{"step": 1, "loss": 2}\n[1]\n' > bad.jsonl; refused "no object" "bad.jsonl:2: no JSON object" bad.jsonl
printf '{"a": 1}\n' > bad.jsonl; refused "no step" "no number with a step in 1 line; --step" bad.jsonl
# a list has a value a layer; quotes within quotes, and words that are none, are text; what is no number is passed over
cat > l.jsonl << 'END'
{"step": "7", "max_logits": [3, 4.5], "text": "a \"NaN\", it's \\", "flag": true, "deep": {"er": [[[9]], [8]]}, "q": 6}
{'step': 8, 'max_logits': [5, nan], 'text': 'it\'s "True", \\', 'flag': True, 'none': None, 'q': -inf}
END
import l.jsonl || fail "l.jsonl: $(cat err)"
has l.h5 attn/max_logit '7:3:4.5 8:5:NaN'
has l.h5 q '7:6 8:-inf'
grep -q 'text\|flag\|none' out && fail "texts that pass for numbers: $(cat out)"
# ms-swift's logging.jsonl, and two files as one run
printf '{"loss": 2.0, "grad_norm": 1.5, "global_step/max_steps": "5/100"}\n' > s.jsonl
printf 'step,val_loss\n5,3\n6,4\n' > s.csv
import s.jsonl s.csv -o s.h5 && has s.h5 grad_norm '5:1.5' && has s.h5 val_loss '5:3 6:4'

# --- printed lines --------------------------------------------------------------------------------------------------
cat > meg.log << 'END'
using world size: 8, data-parallel-size: 8
 [2026-09-01 10:00:00] iteration        1/     100 | consumed samples:            8 | elapsed time per iteration (ms): 812.4 | learning rate: 1.000000E-04 | global batch size:     8 | lm loss: 1.084213E+01 | loss scale: 1.0 | grad norm: 7.421 | max attention logit: 3.250 | number of skipped iterations:   0 | number of nan iterations:   0 |
 [2026-09-01 10:00:01] iteration        2/     100 | consumed samples:           16 | elapsed time per iteration (ms): 410.0 | learning rate: 2.000000E-04 | global batch size:     8 | lm loss: 1.071000E+01 | loss scale: 1.0 | grad norm: nan | max attention logit: 131.500 | number of skipped iterations:   0 | number of nan iterations:   1 |
 [2026-09-01 10:00:02] iteration     1e18/     100 | lm loss: 9.000000E+00 |
 validation loss at iteration 2 | lm loss value: 1.065000E+01 | lm loss PPL: 4.219E+04 |
END
import meg.log || fail "meg.log: $(cat err)"
has meg.h5 loss '1:10.84213 2:10.71'
has meg.h5 lr '1:0.0001 2:0.0002'
has meg.h5 grad_norm '1:7.421 2:NaN'
has meg.h5 attn/max_logit '1:3.25 2:131.5'
has meg.h5 val_loss '2:10.65'
"$program" show meg.h5 | grep -q ' 131.5 L0H0 ' || fail "show: $("$program" show meg.h5)"
cat > swift.log << 'END'
[INFO:swift] The logging file will be saved in: output/logging.jsonl
Train:   5%|▌         | 5/100 [00:10<03:10,  2.0s/it]{'loss': 2.5, 'grad_norm': nan, 'learning_rate': 1e-05, 'max_logits': 12.5, 'global_step/max_steps': '5/100', 'percentage': '5.00%', 'elapsed_time': '10s'}
{'loss': 2.25, 'grad_norm': 1.0, 'learning_rate': 2e-05, 'max_logits': 13.5, 'global_step/max_steps': '10/100', 'memory(GiB)': 12.5}
END
import swift.log || fail "swift.log: $(cat err)"
has swift.h5 loss '5:2.5 10:2.25'
has swift.h5 grad_norm '5:NaN 10:1'
has swift.h5 lr '5:1e-05 10:2e-05'
grep -q 'attn/max_logit .*<- max_logits$' out || fail "max_logits: $(cat out)"
echo 'nothing of interest' > bad.log; refused "nothing" "bad.log: no number with a step in 1 line" bad.log

# --- names -----------------------------------------------------------------------------------------------------------
printf '%s\n' 'step,transformer.h.3.attn.max_logit,loss,loss/aux,layers.0.experts.2.load,step/x,max_logit/layer_2/head_1,Layer 1 entropy' '1,2,3,4,5,6,7,8' > n.csv
import n.csv || fail "n.csv: $(cat err)"
for line in '^attn/max_logit  *\[step, layer 4\].*transformer.h.{l}.attn.max_logit$' '^loss_aux  *\[step\]' '^load  *\[step, layer 4, expert 3\]' '^step_x  *\[step\]' \
    '^attn/max_logit_2  *\[step, layer 4, head 2\].*max_logit/layer_{l}/head_{h}$' '^entropy  *\[step, layer 4\]'; do
  grep -q "$line" out || fail "names: no $line: $(cat out)"
done

# --- configurations -----------------------------------------------------------------------------------------------------
printf '{"optimizer": "muon", "train": {"lr": 0.02, "seed": 4}, "flag": true, "list": [1, "b"]}\n' > c.json
import again.csv --config c.json --set train.lr=0.03 -o c.h5 || fail "c.json: $(cat err)"
"$program" show c.h5 --parameters > out
for line in 'optimizer = muon' 'train.lr = 0.03' 'train.seed = 4' 'flag = 1' 'list.1 = b'; do grep -qx "$line" out || fail "c.json: no '$line': $(cat out)"; done
printf '{"a": \n' > bad.json; refused "half a configuration" "bad.json:" again.csv --config bad.json
printf 'optimizer: muon\ntrain:\n  lr: 0.02\n  betas: [0.9, 0.95]\n' > c.yaml
if import again.csv --config c.yaml -o y.h5; then
  "$program" show y.h5 --parameters > out
  for line in 'optimizer = muon' 'train.lr = 0.02' 'train.betas.1 = 0.95'; do grep -qx "$line" out || fail "c.yaml: no '$line': $(cat out)"; done
  printf 'a: [1\n' > bad.yaml; refused "half a YAML" "bad.yaml:2:" again.csv --config bad.yaml
  printf 'a: &x [*x, *x]\n' > bad.yaml; refused "a YAML in a circle" "bad.yaml: values deeper than 32" again.csv --config bad.yaml
  { echo 'a: &a [1, 2, 3, 4, 5, 6, 7, 8]'; for i in b:a c:b d:c; do echo "${i%:*}: &${i%:*} [*${i#*:}, *${i#*:}, *${i#*:}, *${i#*:}, *${i#*:}, *${i#*:}, *${i#*:}, *${i#*:}]"; done; echo "e: [*d, *d]"; } > bad.yaml
  refused "a YAML that unfolds" "or more than 10000" again.csv --config bad.yaml
else
  grep -q libyaml err && echo "no libyaml: YAML was not tried" || fail "c.yaml: $(cat err)"
fi

# --- many columns: seconds, where time that grew with their square would be minutes ------------------------------------

wide() { awk -v name="$1" 'BEGIN { printf "step"; for (i = 0; i < 60000; i++) printf "," name, i / 240, i % 240; print ""
  for (row = 1; row <= 2; row++) { printf row; for (i = 0; i < 60000; i++) printf "," i; print "" } }'; }
wide "attn/max_logit:l%dh%d" > wide.csv
(ulimit -t 10; import wide.csv -o wide.h5) || fail "60000 columns: $(tail -n 3 err)"
"$program" export wide.h5 attn/max_logit | grep -q ' 59999$' || fail "60000 columns"
wide "name%dx%d" > names.csv
(failures=0; ulimit -t 10; refused "60000 series" "more than 4096 series" names.csv; exit $failures) || fail "60000 series"
awk 'BEGIN { print "{"; for (i = 0; i < 60000; i++) print "\"k" i "\": 1,"; print "\"z\": 1}" }' > keys.json
(ulimit -t 10; import a.csv -n --config keys.json) || fail "60000 keys: $(tail -n 3 err)"

# --- npz and TensorBoard, written by Python ----------------------------------------------------------------------------
if python=$(command -v "${PYTHON:-python3}"); then
  "$python" - << 'END' || fail "npz"
import struct, zipfile
def npy(descr, shape, data, order="False", major=1):
    head = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY" + bytes([major, 0]) + struct.pack("<H" if major == 1 else "<I", len(head)) + head.encode() + data
def npz(name, **arrays):
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as z:
        for key, data in arrays.items(): z.writestr(key.replace("__", "/") + ".npy", data)
step = npy("<i8", "(2,)", struct.pack("<2q", 3, 9))
npz("a.npz", step=step, loss=npy("<f8", "(2,)", struct.pack("<2d", 2.5, float("nan"))),
    attn__max_logit=npy("<f4", "(2, 1, 2)", struct.pack("<4f", 1, 2, 3, 4), major=2), half=npy("<f2", "(2,)", struct.pack("<2e", 0.5, -2)), odd=npy("<f2", "(2,)", bytes([0, 252, 1, 0])), none=npy("<f2", "(2,)", bytes([1, 124, 0, 124])),
    small=npy("|i1", "(2,)", bytes([255, 3])), single=npy("<f8", "()", struct.pack("<d", 1)), layers=npy("<u2", "(2, 1)", struct.pack("<2H", 1, 65535)))
npz("rows.npz", loss=npy("<f8", "(2,)", struct.pack("<2d", 7, 8)))
npz("steps.npz", step=npy("<f8", "(2,)", struct.pack("<2d", 1, 2.5)), x=npy("<f8", "(2,)", bytes(16)))
npz("order.npz", step=step, x=npy("<f8", "(2, 2)", bytes(32), "True"))
npz("short.npz", step=step, x=npy("<f8", "(2,)", bytes(15)))
npz("rank.npz", step=step, x=npy("<f8", "(2, 1, 1, 1)", bytes(16)))
npz("rows2.npz", step=step, x=npy("<f8", "(3,)", bytes(24)))
npz("huge.npz", step=step, x=npy("<f8", "(4611686018427387905, 4)", bytes(24)))
npz("complex.npz", step=step, x=npy("<c8", "(2,)", bytes(16)))
import os
memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
npz("parts.npz", **{"x%d" % i: npy("<f8", "(1,)", bytes(8)) for i in range(2 + memory // (1 << 32))})
parts = open("parts.npz", "rb").read().split(b"PK\x01\x02") # of the central directory: each entry states nearly 4 GiB
open("parts.npz", "wb").write(b"PK\x01\x02".join([parts[0]] + [x[:20] + struct.pack("<I", (1 << 32) - 4096) + x[24:] for x in parts[1:]]))
whole = bytearray(open("a.npz", "rb").read())
open("cut.npz", "wb").write(whole[:200])
END
  if import a.npz; then
    fail "a.npz wrote over a.h5"
  elif grep -q libzip err; then echo "no libzip: npz was not tried"
  else
    import a.npz -o z.h5 || fail "a.npz: $(cat err)"
    has z.h5 loss '3:2.5 9:NaN'
    has z.h5 attn/max_logit '3:1:2 9:3:4'
    has z.h5 half '3:0.5 9:-2'
    has z.h5 small '3:-1 9:3'
    has z.h5 odd '3:-inf 9:5.9604645e-08'
    has z.h5 none '3:NaN 9:inf'
    refused "half a step" "steps.npz: step: 2.5 is no whole number from 0 on" steps.npz
    refused "no such steps" "a.npz: no array \[steps\] called its" a.npz --step its
    has z.h5 layers '3:1 9:65535'
    import rows.npz && has rows.h5 loss '0:7 1:8'
    refused "Fortran" "order.npz: x: Fortran" order.npz
    refused "short" "short.npz: x: cut short" short.npz
    refused "rank" "rank.npz: x: more than 3 axes" rank.npz
    refused "rows" "rows2.npz: x has 3 rows, step has 2" rows2.npz
    refused "huge" "huge.npz: x: cut short" huge.npz
    refused "entries that are small one by one" "parts.npz: its arrays are larger than memory" parts.npz
    refused "complex" "complex.npz: x: numbers of type <c8" complex.npz
    refused "cut" "cut.npz: no file of numpy.savez" cut.npz
  fi
fi
: > events.out.tfevents.1.host
PYTHON=$dir/nowhere refused "no Python" "tensorboard, which .*nowhere does not have" events.out.tfevents.1.host
if python=$(python_with tensorboard); then
  PYTHON=$python "$python" - << 'END' || fail "tensorboard"
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
w = EventFileWriter("tb")
for step in (0, 3): w.add_event(Event(step=step, summary=Summary(value=[Summary.Value(tag="train/loss", simple_value=2.5 + step), Summary.Value(tag="layers.1.max_logit", simple_value=float("nan"))])))
w.close()
END
  PYTHON=$python import tb/events* -o tb.h5 || fail "event files: $(cat err)"
  has tb.h5 loss '0:2.5 3:5.5'
  has tb.h5 attn/max_logit '0:NaN:NaN 3:NaN:NaN'
else
  echo "no Python with tensorboard: its event files were not tried"
fi
finish
