#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: the sweep of cures for latent attention, its table (mean +- standard deviation over
# seeds) and figure. Losses are on the last quarter of each row, at one, two and four times the trained context;
# "4x+50" after 50 further steps at four times the context. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"
order='none qk_clip-exact qk_clip-kr_layer qk_clip-kr_head qk_norm_partial qk_norm'

sweep sweep.conf
runs '[.file, (p("stabilizers") | gsub("^qk_clip$"; "qk_clip-")) + (if p("stabilizers") == "qk_clip" then p("qk_clip.mla") else "" end),
  p("train.seed"), .val_loss] | @tsv' >"$work/runs"
while read -r run cure seed val; do
  top=$(median 30 "$run" attn/max_logit --reduce=max) # of the largest head of both layers
  "$maxlogit" eval "$run" --context=1x,2x,4x train.val_batches=32 >"$work/tails"
  "$maxlogit" eval "$run" --context=4x --continue=50 train.val_batches=32 >"$work/after"
  awk -v begin="$cure $seed $val $top" 'BEGIN { printf "%s", begin } FNR > 1 { printf " %s", $4 } END { print "" }' \
    "$work/tails" "$work/after"
done <"$work/runs" >"$work/rows"

awk -v order="$order" '
  { n[$1]++; for (i = 3; i <= 8; i++) { s[$1, i] += $i; q[$1, i] += $i * $i }
    rise = $7 - $5; s[$1, 9] += rise; q[$1, 9] += rise * rise }
  function both(c, i,  m, v) { m = s[c, i] / n[c]; v = n[c] > 1 ? (q[c, i] - n[c] * m * m) / (n[c] - 1) : 0
    return sprintf(i == 4 ? "%.4g+-%.2g" : "%.3f+-%.3f", m, sqrt(v > 0 ? v : 0)) }
  END {
    printf "%-18s %5s %14s %11s %14s %14s %14s %14s %14s\n", "cure", "seeds", "val_loss", "max_logit", "1x", "2x", "4x", "4x-1x", "4x+50"
    m = split(order, name, " ")
    for (k = 1; k <= m; k++) if (n[name[k]]) {
      c = name[k]
      printf "%-18s %5d %14s %11s %14s %14s %14s %14s %14s\n", c, n[c], both(c, 3), both(c, 4), both(c, 5), both(c, 6), both(c, 7), both(c, 9), both(c, 8)
    }
  }' "$work/rows" >"$dir/table.txt"
draw figure.gp mla-family rows="$work/rows" cures="$order"
finish mla-family.png mla-family.svg
