#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: small twins of six models, their table (by the peak) and figure. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep sweep.conf

# the largest logit of any head by step, a file a run; which heads passed 100 at any step, and where the peak was
runs '[p("preset"), p("train.seed"), .file] | @tsv' >"$work/files"
while read -r preset seed run; do
  rows "$run" attn/max_logit --reduce=max >"$work/$preset-$seed.curve"
  "$maxlogit" export "$run" attn/max_logit >"$work/export"
  awk -v preset="$preset" '
    $1 == "#" && $2 == "step" { for (i = 3; i <= NF; i++) name[i - 1] = $i }
    $1 == "#" { next }
    { for (i = 2; i <= NF; i++) { if ($i > 100) over[i] = 1; if ($i > peak) { peak = $i; layer = substr(name[i], 2, 1) } } heads = NF - 1 }
    END { for (i in over) n++; printf "%s %d %d %d\n", preset, n, heads, layer }' "$work/export"
done <"$work/files" >"$work/heads"
{
  while read -r preset seed _; do
    cat "$work/$preset-$seed.curve"
    echo
    echo
  done
} <"$work/files" >"$work/curves"

# "model|attention|optimizer|cure|seeds|val|lo|hi|peak|lo|hi|last|clips", with the share of heads and the layer
runs '[p("preset"), p("model.attention"), p("optimizer") + (if p("muon.per_head") == "qkv" then " by heads" else "" end),
  p("stabilizers")] | @tsv' | sort -u >"$work/what"
cut -f 1 "$work/what" | while read -r preset; do
  # shellcheck disable=SC2046 # names of files without blanks
  group "[\"$preset\", .seeds, (.val_loss | .mean, .lo, .hi), (.peak_max_logit_geometric | .mean, .lo, .hi),
    .last_max_logit_geometric.mean, .clips] | map(tostring) | join(\"|\")" \
    $(awk -F '\t' -v preset="$preset" '$1 == preset { print $3 }' "$work/files")
done | sort -t '|' -k6,6gr >"$work/groups"
awk -F '[| ]' -v heads="$work/heads" '
  FILENAME == heads { over[$1] += $2; all[$1] += $3; where[$1] = where[$1] (index(where[$1], $4) ? "" : (where[$1] == "" ? "" : ",") $4); next }
  { print $0 "|" over[$1] "|" all[$1] "|" where[$1] }' "$work/heads" "$work/groups" >"$work/rows"
{
  printf '%-12s %-4s %-14s %-9s %5s %17s %24s %10s %16s %6s %6s\n' model attn optimizer cure seeds 'validation loss' \
    'peak max logit' 'last' 'heads over 100' layer clips
  awk -F '|' -v what="$work/what" '
    BEGIN { while ((getline line < what) > 0) { split(line, w, "\t"); attention[w[1]] = w[2]; optimizer[w[1]] = w[3]; cure[w[1]] = w[4] } }
    { one = $5 == "null" # a single seed has no interval
      printf "%-12s %-4s %-14s %-9s %5d %9.3f %-8s %8s %-15s %10.4g %8d of %-5d %6s %6.0f\n", $1, attention[$1], optimizer[$1], cure[$1], $2,
        $3, one ? "" : sprintf("+- %.3f", $5 - $3), sprintf("%.4g", $6), one ? "" : sprintf("[%.4g, %.4g]", $7, $8), $9, $11, $12, $13, $10 }' "$work/rows"
} >"$dir/table.txt"
draw figure.gp six-models curves="$work/curves" order="$(cut -d '|' -f 1 "$work/rows" | tr '\n' ' ')" \
  files="$(cut -f 1 "$work/files" | tr '\n' ' ')"
finish six-models.png six-models.svg
