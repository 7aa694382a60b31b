#!/bin/sh
# report.sh DIR: the table of the latent-attention sweep in DIR, mean +- standard deviation over seeds, and
# mla-family.png and .svg beside this script. Losses are on the last quarter of each row, at one, two and four
# times the trained context; "4x+50" after 50 further steps at four times the context.
set -eu
maxlogit=${MAXLOGIT:-./maxlogit}
here=$(cd "$(dirname "$0")" && pwd)
dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

parameter() { "$maxlogit" show --parameters "$1" | awk -v key="$2" '$1 == key { print $2 == "=" ? $3 : $2; exit }'; }

for run in "$dir"/*.h5; do
  cure=$(parameter "$run" stabilizers)
  [ "$cure" != qk_clip ] || cure=qk_clip-$(parameter "$run" qk_clip.mla)
  val=$("$maxlogit" export "$run" val_loss | tail -n 1 | awk '{ print $2 }')
  # the median of the last 30 steps, of the largest head of both layers
  top=$("$maxlogit" export "$run" attn/max_logit --reduce=max | tail -n 30 | awk '{ print $2 }' | sort -g | sed -n 15p)
  tails=$("$maxlogit" eval "$run" --context=1x,2x,4x train.val_batches=32 | awk 'NR > 1 { printf " %s", $4 }')
  tails="$tails $("$maxlogit" eval "$run" --context=4x --continue=50 train.val_batches=32 | awk 'NR > 1 { print $4 }')"
  [ -n "$tails" ] || exit 1
  echo "$cure $(parameter "$run" train.seed) $val $top$tails"
done >"$work/rows"

awk '
  { n[$1]++; for (i = 3; i <= 8; i++) { s[$1, i] += $i; q[$1, i] += $i * $i }
    rise = $7 - $5; s[$1, 9] += rise; q[$1, 9] += rise * rise }
  function both(c, i,  m, v) { m = s[c, i] / n[c]; v = n[c] > 1 ? (q[c, i] - n[c] * m * m) / (n[c] - 1) : 0
    return sprintf(i == 4 ? "%.4g+-%.2g" : "%.3f+-%.3f", m, sqrt(v > 0 ? v : 0)) }
  END {
    printf "%-18s %5s %14s %11s %14s %14s %14s %14s %14s\n", "cure", "seeds", "val_loss", "max_logit", "1x", "2x", "4x", "4x-1x", "4x+50"
    m = split("none qk_clip-exact qk_clip-kr_layer qk_clip-kr_head qk_norm_partial qk_norm", order, " ")
    for (k = 1; k <= m; k++) if (n[order[k]]) {
      c = order[k]
      printf "%-18s %5d %14s %11s %14s %14s %14s %14s %14s\n", c, n[c], both(c, 3), both(c, 4), both(c, 5), both(c, 6), both(c, 7), both(c, 9), both(c, 8)
    }
  }' "$work/rows" | tee "$work/table"

for term in png svg; do
  gnuplot -e "rows='$work/rows'; term='$term'; out='$here/mla-family.$term'; style='$here/../../plots/style.gp'" "$here/figure.gp"
done
