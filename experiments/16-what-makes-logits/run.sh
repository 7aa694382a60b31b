#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: the runs that fit the law and those that test it; runs of 15-horizon as one more test, and those of
# 14's equal-loss.sh for the level, where HORIZON and LEDGER (default: the folders that those scripts make) have them. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep text.conf sweep.dir="$dir/text"
text='' # the other sources are built in
sweep fit.conf
sweep test.conf

# heads RUNS FROM SPAN [SET]: what is told of every head of the runs, a line each; SET: their set, where the arm does not say it
heads() {
  drive='lr drive/gain drive/norm update/frobenius_norm weight/frobenius_norm update/spectral_norm weight/spectral_norm'
  test -z "${4:-}" || drive=''
  runs "$1" "select(.state == \"finished\" or .state == \"blown-up\") | [.file, (if \"${4:-}\" == \"\" then p(\"arm\") else \"${4:-}-\" + p(\"optimizer\") end),
    p(\"train.lr\"), p(\"train.seed\"), p(\"train.weight_decay\")] | @tsv" >"$work/list"
  while IFS="$(printf '\t')" read -r run arm rate seed decay; do
    # shellcheck disable=SC2086 # a list of series
    "$maxlogit" export "$run" probe/max_logit probe/max_abs_logit attn/max_logit attn/bound_tightness head_qk/spectral_norm \
      head_q/spectral_norm head_k/spectral_norm head_qk/rotated_norm $drive |
      awk -v name="$arm" -v rate="$rate" -v seed="$seed" -v decay="$decay" -v from="$2" -v span="$3" -f "$here/heads.awk"
  done <"$work/list"
}
start=${FROM:-100} span=${SPAN:-25} # steps
horizon=${HORIZON:-horizon} ledger=${LEDGER:-what-must-be-held-equal/equal-loss}
{
  heads "$dir" "$start" "$span"
  heads "$dir/text" "$start" "$span"
  # spectra are 100 steps apart there: its growth is from step 100, too, but each end is of all rows within 50 steps or 100
  if [ -d "$horizon" ]; then heads "$horizon" 150 101 | awk '{ $2 = $1 "-" $2; $1 = "horizon"; $3 = "tuned"; print }'; fi
} >"$work/heads"
for set in fit seeds rates rms norm wide narrow recall others clip text horizon; do grep "^$set " "$work/heads" || :; done >"$dir/heads.txt"
cp "$dir/heads.txt" "$work/levels"
if [ -d "$ledger" ]; then heads "$ledger" 100 51 ledger >>"$work/levels"; fi
{
  awk -v points="$work/points" -v judged="$work/judged" -v sums="$work/sums" -f "$here/../order.awk" -f "$here/law.awk" "$dir/heads.txt"
  echo
  awk -v only=1 -f "$here/../order.awk" -f "$here/law.awk" "$dir/heads.txt"
  echo
  awk -f "$here/../order.awk" -f "$here/level.awk" "$work/levels"
} >"$dir/table.txt"
draw figure.gp what-makes-logits points="$work/points" judged="$work/judged" sums="$work/sums" sets="$(tr '\n' ' ' <"$work/judged.sets")"
finish what-makes-logits.png
