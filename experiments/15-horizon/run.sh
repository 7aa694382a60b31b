#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: rates for the four arms, their runs, the table and the figure. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

tuned rates record.spectra_every=100 record.bound=1 record.observe=default+drive+rotated

steps=$("$maxlogit" show --json --parameters "$dir" | jq -r '.[0].parameters["train.steps"]')
end='probe/max_logit:last5%:max' middle="probe/max_logit:$((steps * 3 / 10))-$((steps * 7 / 10)):max"
horizons="$((steps / 100)) $((steps * 3 / 100)) $((steps / 10)) $((steps * 3 / 10)) $steps"
of="val_loss:last3:mean,$middle,$end"
for h in $horizons; do of="$of,probe/max_logit:$((h * 19 / 20))-$h:max"; done
# a line a run: arm rate seed loss middle end, then the horizons
settings='p("arm"), p("train.lr"), p("train.seed")'
told "$dir" "$of" "$settings" >"$work/runs"
told "$dir/rates" "$of" "$settings" >"$work/rates"
awk -v horizons="$horizons" -v ratios="$work/ratios" -v tuned="$work/tuned" -f "$here/../order.awk" -f "$here/horizon.awk" \
  "$work/rates" "$work/runs" >"$dir/table.txt"
cut -f 1,2 "$work/rates" | sort -k 1,1 -k 2,2g -u | tr '\t' ':' >"$work/blocks"
while IFS=: read -r arm rate; do curve "$dir/rates" "p(\"arm\") == \"$arm\" and p(\"train.lr\") == \"$rate\""; done <"$work/blocks" >"$work/paths"
draw rates.gp rates paths="$work/paths" blocks="$(tr '\n' ' ' <"$work/blocks")" tuned="$work/tuned" steps="$steps"
for arm in adam-constant muon-constant adam-cosine muon-cosine; do curve "$dir" "p(\"arm\") == \"$arm\""; done >"$work/curves"
draw figure.gp horizon curves="$work/curves" ratios="$work/ratios" tuned="$work/tuned" steps="$steps" seeds_are="$(cut -f 3 "$work/runs" | sort -u | wc -l) seeds"
finish horizon.png rates.png
