#!/bin/sh
# which runs a command takes: conditions, chosen groups, order, the last; by the heads of files alone
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
tiny() { name=$1; shift; small_run "$name" train.steps=2 train.val_every=1 record.spectra_every=0 "$@"; }
mkdir "$dir/runs"
for seed in 1 2; do
  for lr in 9e-5 0.01 0.02; do tiny "runs/muon-$lr-$seed" preset=muon train.lr=$lr train.seed=$seed; done
  tiny "runs/clip-$seed" preset=muonclip qk_clip.tau=30 train.seed=$seed
done
tiny runs/adam preset=adam train.steps=3

files() { "$program" show "$dir/runs" "$@" 2> "$dir/err" | awk 'NR > 1 { sub(".h5$", "", $NF); printf "%s ", $NF }'; }
is() { # WANTED OPTION ...
  wanted=$1; shift
  found=$(files "$@"); test "$found" = "$wanted " || fail "$*: $found, not $wanted: $(cat "$dir/err")"
}
counts() { # WANTED CONDITION ...
  wanted=$1; shift
  for c in "$@"; do
    found=$(files --where "$c" | wc -w); test "$found" -eq "$wanted" || fail "--where '$c': $found runs, not $wanted"
  done
}
counts 9 'train.steps>0'
counts 2 'train.lr>0.01' 'train.lr>=0.02' 'train.lr=0.020' 'train.lr = 2e-2 , 5' ' train.lr != 0.01,9e-5' \
  'train.lr<0.01' 'train.lr=.00009' 'kind=muonclip' 'qk_clip.tau<=30' 'qk_clip.tau!=,5' 'stabilizers!=none'
counts 6 'kind=muon' 'train.lr<=0.01 & optimizer=muon'
counts 1 'steps=3' 'kind=muon & train.lr>=0.01 & train.lr<0.02 & seed=2' 'id='"$("$program" show --json "$dir/runs/adam.h5" | sed -n 's/.*"id": "\([0-9a-f]*\)".*/\1/p')"
counts 9 'date>2020' 'state=finished'
test "$(files --where kind=muon --where 'seed<2' | wc -w)" -eq 3 || fail "two --where: both hold"
is "muon-0.02-1 muon-0.02-2" --where 'train.lr=0.02 & kind=muon'

# order, and the last of it
is "muon-9e-5-1 muon-0.01-1 muon-0.02-1" --where 'kind=muon & seed=1' --sort train.lr
is "muon-0.02-1 muon-0.01-1 muon-9e-5-1" --where 'kind=muon & seed=1' --sort=-train.lr
is "muon-0.01-1 muon-0.02-1" --where 'kind=muon & seed=1' --sort train.lr --last 2
# by metrics: the order and the bounds of the values that export prints
by_value() { # SERIES: names in the order of its last value; a clip that never acts would be a tie
  for f in "$dir"/runs/muon*.h5 "$dir/runs/adam.h5"; do
    name=${f##*/}
    echo "$("$program" export "$f" "$1" --reduce=max | awk '{ value = $2 } END { print value }') ${name%.h5}"
  done | sort -g | tee "$dir/values" | cut -d' ' -f2 | tr '\n' ' ' | sed 's/ $//'
}
is "$(by_value val_loss)" --sort val --where kind=muon,adam
is "$(by_value attn/max_logit)" --sort attn/max_logit:last:max --where kind!=muonclip
between() { sed -n "$1p;$(($1 + 1))p" "$dir/values" | awk '{ sum += $1 } END { printf "%.9g", sum / 2 }'; }
counts 2 "last<$(between 2) & kind!=muonclip" "kind!=muonclip & attn/max_logit:last:max < $(between 2)"
counts 1 "last<=$(between 2) & last>=$(between 1) & kind!=muonclip"
test "$(files --sort=-last --last 1 --where kind!=muonclip)" = "$(sed -n '1s/.* //p' "$dir/values") " || fail "the last downwards"
is "adam" --sort steps --last 1
test "$(files --last 4 | wc -w)" -eq 4 || fail "--last"
sleep 1
tiny runs/young preset=adam train.seed=5
is "young" --last 1

# groups by chosen keys, in the order of their numbers; a curve each
"$program" show --by optimizer "$dir/runs" > "$dir/out" || fail "--by optimizer"
grep -q '^muon  *8  *0 ' "$dir/out" && grep -q '^adam  *2  *0 ' "$dir/out" || fail "--by optimizer: $(cat "$dir/out")"
head -n 1 "$dir/out" | grep -q '^group  *runs ' && tail -n 1 "$dir/out" | grep -q 'over runs that have the same optimizer ' || fail "--by optimizer: seeds of other rates: $(cat "$dir/out")"
"$program" show --group "$dir/runs" > "$dir/out" || fail "--group"
head -n 1 "$dir/out" | grep -q '^group  *seeds ' && tail -n 1 "$dir/out" | grep -q 'over seeds ' || fail "--group: $(cat "$dir/out")"
"$program" show --by train.lr,optimizer --where kind=muon,adam "$dir/runs" | sed -e 1d -e '$d' |
  awk '{ print $1, $2, $3 }' > "$dir/a"
printf 'lr=9e-05 muon 2\nlr=0.01 adam 2\nlr=0.01 muon 2\nlr=0.02 muon 2\n' | cmp -s - "$dir/a" ||
  fail "--by two keys: $(cat "$dir/a")"
"$program" show --by train.lr --sort=-train.lr --where kind=muon "$dir/runs" | sed -e 1d -e '$d' |
  awk '{ print $1, $2 }' > "$dir/a"
printf 'lr=0.02 2\nlr=0.01 2\nlr=9e-05 2\n' | cmp -s - "$dir/a" || fail "groups in order: $(cat "$dir/a")"
"$program" show --by kind,qk_clip.tau "$dir/runs" | grep -q '^muonclip tau=30  *2 ' || fail "--by kind,qk_clip.tau"
test "$("$program" export --band --by optimizer "$dir/runs" loss | grep -c '^# group')" -eq 2 || fail "export --by"
"$program" export --band --by optimizer "$dir/runs" loss | grep -q 'that have the same optimizer; between' || fail "export does not say by what"
"$program" plot --script --figure=loss --by optimizer "$dir/runs" > "$dir/out" || fail "plot --by"
grep -q "^one_is = 'run'$" "$dir/out" || fail "plot --by: other rates are seeds"
grep -q '^groups = 2$' "$dir/out" && grep -q "^array kind\[2\] = \['muon', 'adam'\]\|^array kind\[2\] = \['adam', 'muon'\]" "$dir/out" ||
  fail "plot --by: $(grep -E '^(groups|array kind)' "$dir/out")"

# wrong ones are refused, and helped
wrong() { # WHAT-IT-SAYS OPTION ...
  says=$1; shift
  "$program" show "$dir/runs" "$@" > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 2 && grep -q -- "$says" "$dir/err" || fail "$*: exit $status, $(cat "$dir/err")"
}
wrong "did you mean 'train.lr'" --where lr=1
wrong "did you mean 'peak'" --sort peek
wrong "'&' joins conditions: 'seed=1 & kind=muon'" --where 'seed=1 and kind=muon'
wrong "one '&' joins conditions" --where 'seed=1 && kind=muon'
wrong 'there is val from [0-9.]* to [0-9.]*$' --where 'val<0.1'
wrong 'has no series losss' --sort losss:last
wrong "did you mean 'kind'" --where kid=muon
wrong 'KEY=VALUE is wanted' --where kind
wrong 'KEY=VALUE is wanted' --where 'kind=muon &'
wrong 'KEY=VALUE is wanted' --where '=3'
wrong 'KEY=VALUE is wanted' --where 'train.lr=<3'
wrong 'wants one number' --where 'train.lr<fast'
wrong 'wants one number' --where 'train.lr<1,2'
wrong 'there is kind = muon, muonclip, adam\|there is kind = adam, muon, muonclip' --where kind=sgd
wrong "did you mean 'optimizer'" --by optimizr
wrong "did you mean 'train.lr'" --sort lr
wrong 'one key' --sort train.lr,seed
wrong 'at least 1' --last 0

# heads alone: a damaged file is no hindrance to those who do not want it, and refused to who does
size=$(wc -c < "$dir/runs/adam.h5")
printf 'x' | dd of="$dir/runs/adam.h5" bs=1 seek=$((size / 2)) conv=notrunc 2> /dev/null
is "young" --where 'kind=adam & seed=5'
"$program" show "$dir/runs/adam.h5" > "$dir/out" 2> "$dir/err" && grep -q ' 1 finished .* [0-9]' "$dir/out" && fail "numbers out of a damaged file"
grep -q '^maxlogit: [^:]*adam.h5 is damaged' "$dir/err" || fail "the path stands twice: $(cat "$dir/err")"
"$program" export "$dir/runs" loss --where 'kind=adam & seed=1' > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 1 && grep -q 'adam.h5 is damaged' "$dir/err" || fail "a damaged file: exit $status, $(cat "$dir/err")"
# of many it is left out, and named; so are a file without a head, a link to nowhere, a pipe, and what must not be read
: > "$dir/runs/empty.h5"
ln -s /nowhere "$dir/runs/link.h5"
mkfifo "$dir/runs/pipe.h5"
cp "$dir/runs/empty.h5" "$dir/runs/shut.h5"
chmod 000 "$dir/runs/shut.h5"
for command in "show" "show --events" "export --list" "export loss" "plot --script --figure=loss" "plot --script --x seed"; do
  "$program" $command "$dir/runs" --where kind=adam > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 1 && test "$(grep -c '^maxlogit: left out: ' "$dir/err")" -eq 5 && grep -q 'adam.h5 is damaged' "$dir/err" &&
    grep -q 'empty.h5 is not an HDF5 file' "$dir/err" && grep -q 'link.h5: No such file' "$dir/err" && test -s "$dir/out" || fail "$command: exit $status, $(cat "$dir/err")"
done
is "young" --where kind=adam
"$program" compare "$dir/runs" 'kind=muon & train.lr=0.01' kind=muonclip --of loss > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 1 && grep -q 'n=2 pairs' "$dir/out" && grep -q 'left out: .*empty.h5' "$dir/err" || fail "compare beside an empty file: exit $status, $(cat "$dir/err")"
mkdir "$dir/one" "$dir/other"
for seed in 1 2; do ln "$dir/runs/muon-0.01-$seed.h5" "$dir/one" && ln "$dir/runs/clip-$seed.h5" "$dir/other" || fail "ln"; done
: > "$dir/other/empty.h5" # whichever arm it is of
for arms in "$dir/one $dir/other" "$dir/other $dir/one"; do
  # shellcheck disable=SC2086 # a list of words
  "$program" compare $arms --of loss > "$dir/out" 2> "$dir/err"; status=$?
  test $status -eq 1 && grep -q 'n=2 pairs' "$dir/out" || fail "compare $arms: exit $status, $(cat "$dir/out" "$dir/err")"
done
"$program" show "$dir/runs/young.h5" "$dir/runs/none.h5" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 2 && test ! -s "$dir/out" || fail "a path that is not there is no damage: exit $status"
rm "$dir/runs/empty.h5"
LC_ALL=C sed 's/finished/finishex/' "$dir/runs/young.h5" > "$dir/other.h5"
"$program" show --where state=finished "$dir/other.h5" > "$dir/out" 2> "$dir/err"; status=$?
test $status -eq 1 && grep -q 'other.h5 is damaged' "$dir/err" || fail "a changed head: exit $status, $(cat "$dir/err")"
# a text with a comma: chosen by the whole of it, printed so that run reads it
seq 1 400 > "$dir/one,two.txt"
small_run comma data=bytes "data.path=\"$dir/one,two.txt\""
"$program" show "$dir/comma.h5" --where "data.path=$dir/one,two.txt" > "$dir/out" 2>&1 || fail "--where of a text with a comma: $(cat "$dir/out")"
"$program" show "$dir/comma.h5" --parameters > "$dir/comma.conf"
"$program" run --dry-run "$dir/comma.conf" > "$dir/out" 2>&1 || fail "its parameters are no configuration: $(cat "$dir/out")"

# the loss before any training is none of the last three
small_run short preset=muon train.steps=10 train.val_every=10
last() { "$program" show --of "val_loss:$1" --csv "$dir/short.h5" | awk -F, 'NR == 2 { print $6 }'; }
test "$(last last3:mean)" = "$(last last)" || fail "last3: $(last last3:mean), the last $(last last)"
finish
