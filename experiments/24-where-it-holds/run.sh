#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: Adam and Muon in each regime, the table and the figure. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

whole=$text top=$dir
mkdir -p "$top/memorized" "$top/text"
head -c 4096 "$whole" >"$top/memorized/text"
# a line a run: regime optimizer seed exponent end loss (validation) loss (training)
of="probe/max_logit:last90%:slope,probe/max_logit:last5%:max,val_loss:last3:mean,loss:last5%:mean"
for dir in "$top/memorized" "$top/text"; do
  text=$whole
  [ "$dir" = "$top/text" ] || text=$dir/text
  sweep text.conf
  told "$dir" "$of" "\"$(basename "$dir")\", p(\"arm\"), p(\"train.seed\")" >>"$work/runs"
done
dir=$top text=''
sweep arms.conf
told "$top" "$of" '(p("arm") | split("-") | .[0], .[1]), p("train.seed")' >>"$work/runs"
awk -v exponents="$work/exponents" -f "$here/../order.awk" -f "$here/where.awk" "$work/runs" >"$dir/table.txt"
for arm in adam muon; do curve "$dir" "p(\"arm\") == \"long-$arm\""; done >"$work/curves"
draw figure.gp where-it-holds curves="$work/curves" exponents="$work/exponents"
finish where-it-holds.png
