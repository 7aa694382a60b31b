#!/bin/sh
# report.sh DIR: the table of the over-clipping sweep in DIR, and over-clipping.png and .svg beside this script.
# A head is dead when |w_q^h| |w_k^h| (Frobenius) ends below 0.01; layer 1 is the last.
set -eu
maxlogit=${MAXLOGIT:-./maxlogit}
here=$(cd "$(dirname "$0")" && pwd)
dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

parameter() { "$maxlogit" show --parameters "$1" | awk -v key="$2" '$1 == key { print $2 == "=" ? $3 : $2; exit }'; }

# products of the norms of layer 1's heads, one row a recorded step: step p0 p1 ...
products() {
  "$maxlogit" export "$1" head_q/frobenius_norm --layer=1 | grep -v '^#' >"$work/q"
  "$maxlogit" export "$1" head_k/frobenius_norm --layer=1 | grep -v '^#' >"$work/k"
  paste "$work/q" "$work/k" | awk '{ n = NF / 2; printf "%s", $1; for (i = 2; i <= n; i++) printf " %g", $i * $(n + i); print "" }'
}

printf '%-8s %4s %9s %9s %10s %12s %12s\n' clip seed val_loss max_logit dead_heads median_norm smallest_norm
for run in "$dir"/*.h5; do
  scope=none
  [ "$(parameter "$run" stabilizers)" = none ] || scope=$(parameter "$run" qk_clip.scope)
  seed=$(parameter "$run" train.seed)
  products "$run" >"$work/$scope-$seed.products"
  "$maxlogit" export "$run" attn/max_logit --layer=1 | grep -v '^#' >"$work/$scope-$seed.logits"
  val=$("$maxlogit" export "$run" val_loss | tail -n 1 | awk '{ print $2 }')
  # the median of the last 20 steps, of the largest head
  top=$("$maxlogit" export "$run" attn/max_logit --layer=1 --reduce=max | tail -n 20 | awk '{ print $2 }' | sort -g | sed -n 10p)
  tail -n 1 "$work/$scope-$seed.products" | tr ' ' '\n' | sed 1d | sort -g >"$work/sorted"
  awk -v c="$scope" -v s="$seed" -v v="$val" -v t="$top" '
    { x[NR] = $1; dead += $1 < 0.01 }
    END { printf "%-8s %4s %9.4f %9.4g %7d/%-2d %12.4g %12.4g\n", c, s, v, t, dead, NR, (x[int((NR+1)/2)] + x[int(NR/2)+1]) / 2, x[1] }
  ' "$work/sorted"
done | sort -k1,1 -k2,2n

for term in png svg; do
  gnuplot -e "work='$work'; term='$term'; out='$here/over-clipping.$term'; style='$here/../../plots/style.gp'" "$here/figure.gp"
done
