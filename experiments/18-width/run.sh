#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: rates for every width and optimiser, their runs, the table and the figure; MORE=large: those of
# large.conf, too. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

# told RUNS: a line a run: optimiser width rate seed loss logit
told() {
  "$maxlogit" show --json --parameters "$1" >"$work/parameters"
  "$maxlogit" show --json --where state=finished --of val_loss:last3:mean,attn/max_logit:last5%:max "$1" >"$work/metrics"
  jq -r --slurpfile all "$work/parameters" '($all[0] | map({(.id): .parameters}) | add) as $p | .[] |
    [($p[.id] | .optimizer, .["model.width"], .["train.lr"], .["train.seed"]), .metrics["val_loss:last3:mean"],
     .metrics["attn/max_logit:last5%:max"]] | @tsv' "$work/metrics"
}
for rungs in rates ${MORE:-}; do
  tuned "$rungs"
  told "$dir/$rungs"
done >"$work/rates"
told "$dir" >"$work/runs"
awk -v logits="$work/logits" -v ratios="$work/ratios" -f "$here/../order.awk" -f "$here/width.awk" "$work/rates" "$work/runs" >"$dir/table.txt"
draw figure.gp width logits="$work/logits" ratios="$work/ratios" seeds_are="$(cut -f 4 "$work/runs" | sort -u | wc -l) seeds"
finish width.png
