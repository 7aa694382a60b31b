#!/bin/sh
# Wrong input: exit status 2, one message that names the place, the value and the way out, nothing on standard
# output, nothing written.
program=$(realpath "${MAXLOGIT:-./maxlogit}")
dir=$(mktemp -d "${TMPDIR:-/tmp}/maxlogit-test.XXXXXX") || exit 99
cd "$dir" || exit 99
out=$dir.out err=$dir.err
trap 'rm -rf "$dir" "$out" "$err"' EXIT
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

printf 'train.steps = 3\n[train]\nsteps = 4\n' > twice.conf
printf '# two\n\n[train]\nlrr = 3\n' > misspelt.conf
printf 'train.lr = 0.1, 0.2\n' > several.conf
printf 'train.lr = 0.1, 0.2\ntrain.batch = 4\ntrain.micro_batches = 1, 3\n' > badpoint.conf
printf 'just some words' > words.conf
printf 'too short' > short.txt
mkdir folder
mkfifo pipe
: > empty.txt
tiny='model.layers=1 model.width=16 model.heads=2 model.context=8 train.batch=2 train.steps=2 device.threads=1'
# shellcheck disable=SC2086
"$program" run -q $tiny record.path=done.h5 > "$out" 2> "$err" || { cat "$err"; exit 1; }
# shellcheck disable=SC2086
"$program" run $tiny train.steps=1 record.path=once.h5 > "$out" 2> "$err"
grep -q ' 1 layer, ' "$err" && grep -q ' after 1 step (' "$out" || fail "one of many: $(cat "$err" "$out")"
rm -r once.*

snapshot() { find . -type f -exec cksum {} + | sort; }

# wrong 'PART OF THE MESSAGE' ARGUMENTS
wrong() {
  wanted=$1; shift
  snapshot > "$out.before"
  "$program" "$@" > "$out" 2> "$err" < /dev/null
  status=$?
  snapshot > "$out.after"
  [ $status -eq 2 ] || fail "$*: exit status $status"
  [ ! -s "$out" ] || fail "$*: $(head -n 1 "$out") on standard output"
  grep -qF -- "$wanted" "$err" || fail "$*: said '$(cat "$err")', wanted '$wanted'"
  [ "$(grep -c '^maxlogit' "$err")" -eq 1 ] || fail "$*: not one message: $(cat "$err")"
  cmp -s "$out.before" "$out.after" || fail "$*: files changed"
  rm -f "$out.before" "$out.after"
}

wrong 'qk_norm undoes what ssmax does before it; allowed: qk_norm+ssmax' run stabilizers=ssmax+qk_norm
wrong 'softpick and sigmoid both make weights of scores; keep one' run stabilizers=softpick+sigmoid
wrong 'sigmoid and pointwise both make weights of scores; keep one' run stabilizers=sigmoid+pointwise
wrong 'pointwise and learned_sink both make weights of scores; keep one' run stabilizers=pointwise+learned_sink
wrong "'rnu' is not a command; did you mean 'run'?" rnu
wrong "'frobnicate' is not a command" frobnicate
wrong "did you mean 'maxlogit run preset=muon'?" preset=muon
wrong "no help on 'width'; did you mean 'model.width'?" help width
wrong "arm=none: no such file; a condition is --where 'arm=none'" show arm=none
wrong "no help on 'train.lrr'; did you mean 'train.lr'?" help train.lrr
wrong "'xyz' is not a kind; allowed: attention" list xyz
for command in run resume sweep list help; do
  wrong "$command: --no-such-option: no such option" $command --no-such-option
done

wrong "command line: train.lrr: unknown key; did you mean 'train.lr'?" run train.lrr=1
# what other programs call it
for words in out:record.path lr:train.lr seed:train.seed steps:train.steps epochs:train.steps wd:train.weight_decay \
  tau:qk_clip.tau batch_size:train.batch learning_rate:train.lr momentum:muon.momentum threads:device.threads; do
  wrong "${words%:*}: unknown key; did you mean '${words#*:}'?" run "${words%:*}=1"
done
wrong "did you mean 'cuda'?" run device=gpu
wrong "--by wd: no such key; did you mean 'train.weight_decay'?" show done.h5 --by wd
wrong "command line: train.lr: 'fast' is not a number" run train.lr=fast
wrong "command line: train.steps: '-1' is out of range" run train.steps=-1
wrong "command line: optimizer: 'mun' is not one of" run optimizer=mun
wrong "misspelt.conf:4: train.lrr: unknown key; did you mean 'train.lr'?" run misspelt.conf
wrong "twice.conf:3: train.steps: given twice (first in line 1)" run twice.conf
wrong "words.conf:1: neither 'key = value' nor [section]" run words.conf
wrong "cannot read missing.conf: No such file or directory" run missing.conf
wrong "done.h5: an HDF5 file, not a configuration" run done.h5
wrong "maxlogit sweep" run several.conf
wrong "model.head_dim" run model.width=30 model.heads=4
wrong "train.micro_batches" run train.batch=4 train.micro_batches=3
wrong "model.kv_heads" run model.attention=gqa model.heads=4 model.kv_heads=3
wrong "model.kv_heads: 2, but with model.attention = mha it follows from model.heads = 4" run model.heads=4 model.kv_heads=2
wrong "model.kv_heads: 2, but with model.attention = mla every head has a key" run model.attention=mla model.heads=4 model.kv_heads=2
wrong "model.rope_dim: 3 is odd" run model.attention=mla model.rope_dim=3
wrong "model.rope_dim: 4 is for model.attention = mla; with mha it must be 0" run model.rope_dim=4
wrong "model.value_dim: 4 is for model.attention = mla; with gqa it must be 0" run model.attention=gqa model.kv_heads=2 model.value_dim=4
wrong "model.bias: 1, but mla has no biases" run model.attention=mla model.bias=1
wrong "model.window: 8, but model.mask = causal has none" run model.window=8
wrong "model.prefix: 8, but model.mask = window has none" run model.mask=window model.prefix=8
wrong "model.vocab: 63 is fewer than the 64 symbols of the data" run model.vocab=63
wrong "layers 0 to 1, heads 0 to 3" run model.layers=2 model.heads=4 train.plant=2:0:2
wrong "layers 0 to 1, heads 0 to 3" run model.layers=2 model.heads=4 train.plant=0:4:2
wrong "wanted LAYER:HEAD:FACTOR" run train.plant=0:0:2x
wrong "wanted LAYER:HEAD:FACTOR" run train.plant=0:0:inf
wrong "moe.active: 9 of moe.experts = 8; allowed: 1 to 8" run model.ffn=moe moe.experts=8 moe.active=9
wrong "train.batch: 1000000 sequences of model.context = 1048576 tokens are 1.05e+12 tokens in one pass" run train.batch=1000000 model.context=1048576
wrong "moe.groups: 3 does not divide moe.experts = 8" run model.ffn=moe moe.experts=8 moe.groups=3
wrong "moe.groups_kept: 5 of moe.groups = 4; allowed: 1 to 4" run model.ffn=moe moe.experts=8 moe.groups=4 moe.groups_kept=5
wrong "a divisor of moe.active = 3 whose quotient is at most the 2 experts of a group" run model.ffn=moe moe.experts=8 moe.active=3 moe.groups=4
wrong "a divisor of moe.active = 3 whose" run model.ffn=moe moe.experts=8 moe.active=3 moe.groups=2 moe.groups_kept=2
wrong "moe.dense_layers: 3 of model.layers = 2; allowed: 0 to 2" run model.ffn=moe model.layers=2 moe.dense_layers=3
wrong 'record.dense: removed; `maxlogit rerun RUN.h5 --from STEP' run record.dense=0.8
wrong "data=copy wants model.context of at least 4, not 3" run data=copy model.context=3
wrong "data=recall wants model.context of at least 4, not 3" run data=recall model.context=3
wrong "data.separator: empty, but data.packing=documents" run data=bytes data.path=words.conf data.packing=documents data.separator= model.context=2 data.val_fraction=0.3
wrong 'data.separator: "qq" does not occur' run data=bytes data.path=words.conf data.packing=documents data.separator=qq model.context=2 data.val_fraction=0.3
wrong "data.path" run data=bytes
wrong "missing.txt" run data=bytes data.path=missing.txt
wrong "empty.txt" run data=bytes data.path=empty.txt
(ulimit -t 2; wrong "/dev/zero: a device" run data=bytes data.path=/dev/zero; exit "$failures") || failures=$((failures + 1))
wrong "too short" run data=bytes data.path=short.txt
wrong "record.overwrite=1" run record.path=done.h5
mkdir gone.ckpt && cp done.ckpt/* gone.ckpt # those of a run file that was renamed
wrong "gone.ckpt is of a run that was at gone.h5 and is not there: rename it as well, or remove it (record.overwrite=1 does)" run record.path=gone.h5
for setting in 0 1; do
  for name in several.conf folder pipe; do
    wrong "record.path: $name exists, and is not a run file" run record.path=$name record.overwrite=$setting
  done
done

wrong "cannot read missing.h5: No such file or directory" resume missing.h5
wrong "words.conf" resume words.conf
wrong "train.lr" resume done.h5 train.lr=0.5
wrong "train.lrr" resume done.h5 train.lrr=0.5
wrong "which run?" resume
"$program" spectra done.h5 -o numbers.h5 > "$out" 2> "$err" || fail "spectra -o: $(cat "$err")"
for command in resume watch rerun eval; do
  wrong "numbers.h5: numbers of a checkpoint" $command numbers.h5
  wrong "words.conf" $command words.conf
done
mkdir site && echo '<title>maxlogit: the ledger of claims</title>' > site/index.html
wrong "site/index.html exists, and site/index.html is not a page with the title 'maxlogit: runs': write into another folder" report done.h5 -o site
rm site/index.html && echo 'body {}' > site/style.css
wrong "site/style.css exists, and site/index.html is not a page with the title" report done.h5 -o site
rm site/style.css && mkdir site/data && echo 'mine' > site/data/index.js
wrong "site/data/index.js exists, and site/index.html is not a page with the title" report done.h5 -o site
"$program" report done.h5 -o page > "$out" 2> "$err" && "$program" report done.h5 -o page > "$out" 2> "$err" || fail "report twice: $(cat "$err")"
wrong "--config and --set are for checkpoints of others" spectra done.h5 --set head_dim=4
wrong "with --of" show done.h5 --mean=median
wrong "has no series vall; did you mean val?" show done.h5 --of vall
wrong "--x train.lrr: no such key; did you mean 'train.lr'?" plot done.h5 --x train.lrr
wrong "--y train.sed: no such key; did you mean 'train.seed'?" plot done.h5 --x train.lr --y train.sed --of peak
wrong "done.h5: attn/max_logit: no such layer or head; there are layers 0 to 0, heads 0 to 1" \
  export done.h5 attn/max_logit --head=2
wrong "eval --continue: '' is not a whole number (allowed: 0 to 1000000000)" eval done.h5 --continue=
wrong "bench --stack: 'foo' is not one of toy, small, medium" bench --stack=foo
wrong "bench --stack=large: of device=cuda alone" bench --stack=large
wrong "only device=cpu or device=cuda" bench device=gpu
wrong "only device=cpu or device=cuda" bench toy
wrong "bench --seconds: '0' is out of range (allowed: at least 0.001)" bench --seconds=0
wrong "bench --seconds: 'nan' is not a number" bench --seconds nan
wrong "show: --oof: no such option; did you mean '--of'?" show done.h5 --oof
wrong "show: -x: no such option" show -x done.h5
wrong "run --quiet: takes no argument" run --quiet=3
wrong "plot --figure: 'los' is not one of logits, " plot --figure los done.h5
wrong "did you mean 'loss'?" plot --figure los done.h5
wrong "show --of: METRIC,... is wanted" show done.h5 --of
wrong "sweep --jobs: N is wanted" sweep several.conf -j
wrong "eval --decode: '' is not one of materialised, absorbed" eval done.h5 --decode
wrong "doctor: 'me': no arguments, please" doctor me
choices=0
for command in $("$program" list command | awk '{ print $1 }'); do # every option that has choices knows them
  for option in $("$program" "$command" --usage | grep -oE -e '--[a-z-]+\[?=[a-z]+\|' | grep -oE -e '^--[a-z-]+'); do
    wrong "$command $option: 'none-of-them' is not one of " "$command" "$option=none-of-them"
    choices=$((choices + 1))
  done
done
[ $choices -ge 9 ] || fail "$choices options with choices"
wrong "the reduction is above=nan" show done.h5 --of attn/max_logit:all:above=nan
wrong "empty.txt exists, and is empty: record.overwrite=1 replaces it" run record.path=empty.txt
wrong "no help on '' (topics" help ''
wrong "~/a.h5: the shell has left ~ as it is" run record.path='~/a.h5'
cp done.h5 alone.h5
wrong "maxlogit: alone.h5 has no checkpoint" eval alone.h5
wrong "wanted a list" eval done.h5 --context=infx
wrong "a comma in a text: put it in quotes" run data=bytes data.path=one,two

mkdir -p above/.hidden above/a.ckpt above/empty above/sweep
for folder in .hidden a.ckpt sweep; do cp done.h5 above/$folder/done.h5; done
wrong "above: no run file (*.h5) in this folder; did you mean above/sweep?" show above

wrong "copy.distinct: a prefix of up to 9 different symbols" run data=copy copy.distinct=1 copy.symbols=8 model.context=18
wrong "--figure=map: it is drawn by --x KEY --y KEY --of METRIC" plot --figure map a.h5
wrong "of a ratio a factor above 1 is wanted" compare a.h5 b.h5 --ratio --margin 1
wrong "export --every: '0' is out of range (allowed: at least 1)" export a.h5 loss --every 0
wrong "which sweep?" sweep
wrong "sweep.dir: one value, for the whole sweep" sweep several.conf sweep.dir=a,b
wrong "is not I/N" sweep several.conf --shard 3/2
wrong "sweep --jobs: '0' is out of range (allowed: 1 to 1024)" sweep several.conf -j 0
wrong "cannot read missing.conf" sweep missing.conf
wrong "point 2 (train.lr=0.1 train.micro_batches=3): train.micro_batches" sweep badpoint.conf
wrong "record.path: a sweep names its runs itself" sweep several.conf record.path=x.h5

# standard streams that are closed are no files of the run; a limit of a file's size is told, whatever is written
# shellcheck disable=SC2086
"$program" run $tiny record.path=closed.h5 >&- 2>&-
[ $? -eq 1 ] && [ "$("$program" export --follow closed.h5 | cut -f 1 | tr '\n' ' ')" = 'step 0 1 ' ] || fail "closed streams: $("$program" export --follow closed.h5)"
# shellcheck disable=SC2086
(ulimit -f 8; exec "$program" run -q $tiny record.path=limited.h5) > "$out" 2> "$err"
[ $? -eq 1 ] && grep -q 'cannot write limited.h5: File too large' "$err" || fail "a limit of size: $(cat "$err")"
# limits of the process are the reason, not the file that is read
for limit in '-n 4 Too many open files (see ulimit -n)' '-n 5 .*Too many open files (see ulimit -n)' '-f 1 .*File too large (see ulimit -f)'; do
  # shellcheck disable=SC2086,SC2164 # the option and its value
  (set -- $limit; ulimit $1 $2 && exec "$program" show closed.h5) > "$out" 2> "$err"
  [ $? -eq 1 ] && grep -q "cannot \(read\|check\) closed.h5: ${limit#-? ? }" "$err" || fail "ulimit $limit: $(cat "$err")"
done

# the last values that are allowed
for right in 'model.ffn=moe moe.experts=8 moe.active=8' 'model.ffn=moe moe.experts=8 moe.groups=4 moe.groups_kept=4 moe.active=8' 'model.vocab=64' \
  'data=copy model.context=4' 'data=recall model.context=4' 'model.layers=2 model.heads=4 train.plant=1:3:2'; do
  # shellcheck disable=SC2086
  "$program" run -n $right > "$out" 2> "$err" || fail "$right: $(cat "$err")"
done
# where every block is dense there is no router, and the run is that of a stack without experts
for ffn in 'swiglu' 'moe moe.experts=4 moe.active=2 moe.dense_layers=1'; do
  # shellcheck disable=SC2086
  "$program" run -q $tiny model.ffn=$ffn record.path=dense.h5 record.overwrite=1 2> "$err" || fail "all blocks dense: $(cat "$err")"
  "$program" export dense.h5 loss | grep -v '^#' > "$out.${ffn%% *}"
done
cmp -s "$out.swiglu" "$out.moe" && [ "$(grep -c . "$out.moe")" -eq 2 ] || fail "all blocks dense: $(cat "$out.swiglu" "$out.moe")"
rm -rf "$out.swiglu" "$out.moe" dense.*

# and what is right: help everywhere, without a terminal and without a home
for command in $("$program" list command | awk '{ print $1 }'); do
  "$program" "$command" --help > "$out" 2> "$err" < /dev/null || fail "$command --help: exit status $?"
  grep -q '^Usage: maxlogit ' "$out" || fail "$command --help says no usage"
  [ ! -s "$err" ] || fail "$command --help: $(cat "$err")"
  env -i "$program" help "$command" > "$out" 2>&1 || fail "help $command: exit status $?"
done
"$program" --version | grep -q '^maxlogit [0-9]' || fail "--version"
"$program" > "$out" || fail "no arguments: exit status $?"
"$program" help | cmp -s - "$out" || fail "no arguments and help say different things"
if grep -q "$(printf '\033')" "$out"; then fail "colours"; fi
"$program" help --markdown | grep -q '^| .train.lr. | .0.01. |' || fail "help --markdown"
"$program" show "$(printf 'a\033[31mb.h5')" > "$out" 2> "$err"
[ $? -eq 2 ] && grep -q 'a?\[31mb' "$err" || fail "a name steers the terminal: $(cat -v "$err")"
MAXLOGIT_KERNELS=none "$program" run -q train.steps=1 model.width=16 model.heads=2 record.path=kernels.h5 2> "$err" && [ "$(grep -c MAXLOGIT_KERNELS=none "$err")" -eq 1 ] ||
  fail "kernels that are none: $(cat "$err")"
# shellcheck disable=SC2086
"$program" run -q $tiny data=markov data.path=done.h5 record.path=chain.h5 2> "$err" && grep -q 'data.path has no effect: data = markov reads no file' "$err" || fail "a text that is not read: $(cat "$err")"
printf '%2000s' '' > blank.txt
# shellcheck disable=SC2086
"$program" run -q $tiny data.path=blank.txt data.label_noise=0.1 record.path=blank.h5 2> "$err"
[ $? -eq 2 ] && grep -q 'data.label_noise = 0.1: .* has one symbol' "$err" || fail "noise of one symbol: $(cat "$err")"
rm -f blank.txt
long=$(printf 'a/%.0s' $(seq 2500))x.h5
for command in watch rerun resume show note; do
  "$program" $command "$long" > "$out" 2> "$err" < /dev/null
  [ $? -eq 2 ] && grep -q '^maxlogit: .*a/a/' "$err" || fail "$command of a path of 5000 characters: $(cut -c1-100 "$err")"
done
if [ -w /dev/full ]; then
  "$program" help config > /dev/full 2> "$err"
  [ $? -eq 1 ] || fail "a full disk behind standard output: exit status $?"
fi
[ "$failures" -eq 0 ] && echo ok
exit $((failures > 0))
