#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: the over-clipping sweep, its table and figure. See ../lib.sh.
# A head is dead when |w_q^h| |w_k^h| (Frobenius) ends below 0.01; layer 1 is the last.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

# products of the norms of layer 1's heads, one row a recorded step: step p0 p1 ...
products() {
  rows "$1" head_q/frobenius_norm --layer=1 >"$work/q"
  rows "$1" head_k/frobenius_norm --layer=1 >"$work/k"
  paste "$work/q" "$work/k" | awk '{ n = NF / 2; printf "%s", $1; for (i = 2; i <= n; i++) printf " %g", $i * $(n + i); print "" }'
}

sweep sweep.conf
runs '[.file, (if p("stabilizers") == "none" then "none" else p("qk_clip.scope") end), p("train.seed"), .val_loss] | @tsv' >"$work/runs"
while read -r run scope seed val; do
  products "$run" >"$work/$scope-$seed.products"
  rows "$run" attn/max_logit --layer=1 >"$work/$scope-$seed.logits"
  top=$(median 20 "$run" attn/max_logit --layer=1 --reduce=max)
  tail -n 1 "$work/$scope-$seed.products" | tr ' ' '\n' | sed 1d | sort -g | awk -v c="$scope" -v s="$seed" -v v="$val" -v t="$top" '
    { x[NR] = $1; dead += $1 < 0.01 }
    END { printf "%-8s %4s %9.4f %9.4g %7d/%-2d %12.4g %12.4g\n", c, s, v, t, dead, NR, (x[int((NR+1)/2)] + x[int(NR/2)+1]) / 2, x[1] }'
done <"$work/runs" >"$work/rows"
{
  printf '%-8s %4s %9s %9s %10s %12s %12s\n' clip seed val_loss max_logit dead_heads median_norm smallest_norm
  for scope in none layer head; do grep "^$scope " "$work/rows" | sort -k2,2n; done
} >"$dir/table.txt"
draw figure.gp over-clipping work="$work"
finish over-clipping.png over-clipping.svg
