#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: the runs that fit the law and those that test it; the runs of 15-horizon as one more test, where
# HORIZON (default: horizon) has them. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep text.conf sweep.dir="$dir/text"
text='' # the other sources are built in
sweep fit.conf
sweep test.conf

# heads RUNS FROM SPAN: what is told of every head of the runs, a line each
heads() {
  runs "$1" 'select(.state == "finished") | [.file, p("arm"), p("train.lr"), p("train.seed"), p("train.weight_decay")] | @tsv' >"$work/list"
  while IFS="$(printf '\t')" read -r run arm rate seed decay; do
    "$maxlogit" export "$run" probe/max_logit probe/max_abs_logit attn/max_logit attn/bound_tightness lr drive/gain drive/norm \
      head_qk/spectral_norm head_q/spectral_norm head_k/spectral_norm update/frobenius_norm weight/frobenius_norm \
      update/spectral_norm weight/spectral_norm |
      awk -v name="$arm" -v rate="$rate" -v seed="$seed" -v decay="$decay" -v from="$2" -v span="$3" -f "$here/heads.awk"
  done <"$work/list"
}
{
  heads "$dir" 100 25
  heads "$dir/text" 100 25
  horizon=${HORIZON:-horizon}
  if [ -d "$horizon" ]; then heads "$horizon" 100 25 | awk '{ $2 = $1 "-" $2; $1 = "horizon"; $3 = "tuned"; print }'; fi
} >"$dir/heads.txt"
awk -v points="$work/points" -v judged="$work/judged" -v sums="$work/sums" -f "$here/../order.awk" -f "$here/law.awk" "$dir/heads.txt" >"$dir/table.txt"
draw figure.gp what-makes-logits points="$work/points" judged="$work/judged" sums="$work/sums" sets="$(tr '\n' ' ' <"$work/judged.sets")"
finish what-makes-logits.png
