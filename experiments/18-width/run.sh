#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: rates for every width and optimizer, their runs, the table and the figure; MORE=large: those of
# large.conf, too. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

# a line a run: optimizer width rate seed loss logit
of='val_loss:last3:mean,attn/max_logit:last5%:max'
settings='p("optimizer"), p("model.width"), p("train.lr"), p("train.seed")'
for rungs in rates ${MORE:-}; do
  tuned "$rungs"
  told "$dir/$rungs" "$of" "$settings"
done >"$work/rates"
told "$dir" "$of" "$settings" >"$work/runs"
awk -v logits="$work/logits" -v ratios="$work/ratios" -f "$here/../order.awk" -f "$here/width.awk" "$work/rates" "$work/runs" >"$dir/table.txt"
draw figure.gp width logits="$work/logits" ratios="$work/ratios" seeds_are="$(cut -f 4 "$work/runs" | sort -u | wc -l) seeds"
finish width.png
