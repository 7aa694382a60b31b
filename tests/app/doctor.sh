#!/bin/sh
# doctor: its fixed run has the same bits with all kernels that fuse multiply-add, on one thread as on all: the one
# number that doctor knows.
cd "${top_builddir:-.}" || exit 99
status=0
complain() { echo "$*"; status=1; }
all=$(./maxlogit doctor --json) || status=1
echo "$all"
number() { echo "$all" | sed -n "s/.*\"$1\": \"\([^\"]*\)\".*/\1/p"; }
bits=$(number bits)
echo "$bits" | grep -qE '^[0-9a-f]{16}$' || complain "bits: $bits"
echo "$all" | grep -qF ", $(number openblas), " || complain "the device's description is cut: $(number openblas)"
taskset 1 ./maxlogit doctor | grep -q "^  bits  *$bits, " || complain "other bits on one core"
for kernels in v4 v3 neon; do
  one=$(MAXLOGIT_KERNELS=$kernels ./maxlogit doctor 2>/dev/null)
  echo "$one" | grep -q "kernels $kernels," || continue # this machine has no such kernels
  echo "$one" | grep -qE "^  bits  +[0-9a-f]{16}, as everywhere$" || complain "kernels $kernels: $(echo "$one" | grep bits)"
done

dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
if [ "$(number kernels)" != base ]; then
  LC_ALL=C sed "s/$bits/0123456789abcdef/g" ./maxlogit >"$dir/expects-others" && chmod +x "$dir/expects-others"
  one=$("$dir/expects-others" doctor)
  [ $? = 1 ] && echo "$one" | grep -q '^  bits .*NOT as everywhere: 0123456789abcdef$' || complain "other bits: $one"
fi

case $(number system) in *aarch64) exit $status ;; esac # has no other kernels
# base has nothing fused: doctor and a run say it once and do not fail, other kernels have nothing to say
one=$(MAXLOGIT_KERNELS=base ./maxlogit doctor 2>&1) || complain "base: $one"
[ "$(echo "$one" | grep -c 'no fused multiply-add')" = 1 ] || complain "base: $one"
MAXLOGIT_KERNELS=base ./maxlogit doctor --json | grep -q '"kernels": "base"' || complain "other kernels than those asked for"
small="model.layers=1 model.width=16 model.heads=2 model.context=8 train.batch=2 train.steps=2"
words() { grep -c 'warning: the base kernels have no fused multiply-add' "$dir/errors"; }
for kernels in base "$(number kernels)"; do
  # shellcheck disable=SC2086 # a list of settings
  MAXLOGIT_KERNELS=$kernels ./maxlogit run -q $small record.path="$dir/$kernels.h5" record.overwrite=1 2>"$dir/errors"
  [ "$(words)" = "$([ "$kernels" = base ] && echo 1 || echo 0)" ] || complain "run on $kernels: $(cat "$dir/errors")"
done
echo "train.seed = 1, 2, 3" >"$dir/seeds.conf"
# shellcheck disable=SC2086
MAXLOGIT_KERNELS=base ./maxlogit sweep "$dir/seeds.conf" $small sweep.dir="$dir/sweep" -j 2 >/dev/null 2>"$dir/errors"
[ "$(words)" = 1 ] || complain "sweep on base: $(cat "$dir/errors")"
exit $status
