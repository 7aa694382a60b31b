#!/bin/sh
# report.sh DIR: the cures' table of the two sweeps in DIR, and cures.png and .svg beside this script.
set -eu
maxlogit=${MAXLOGIT:-./maxlogit}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "name|val|half-width|peak|low|high", by the peak
"$maxlogit" show --group "$1" | grep -E '^muon' |
  sed -e 's/^muonclip per_head=none */QK-Clip, tau 30  /' -e 's/^muonclip per_head=qkv */split + QK-Clip  /' \
      -e 's/^muon optimizer= lr= weight_decay= per_head=none */no cure  /' \
      -e 's/^muon optimizer= lr= weight_decay= per_head=qkv */per-head Muon (split)  /' \
      -e 's/^muon .*weight_decay=w[^ ]* .*per_head=none */10x decay on w_q, w_k  /' \
      -e 's/^muon .* lr=w[^ ]* .*per_head=none */0.1x rate on w_q, w_k  /' \
      -e 's/^muon optimizer=w[^ ]* .*per_head=none */Adam on w_q, w_k  /' \
      -e 's/^muon_quack */QuacK  /' -e 's/^muon+//' |
  sed -E 's/^(.*[^ ])  +([0-9]+) +([0-9]+) +([0-9.]+) ± ([0-9.]+) +([0-9.]+) ± ([0-9.]+) +([0-9.]+) \[([0-9.]+), ([0-9.]+)\].*/\1|\6|\7|\8|\9|/; t rest; d; :rest' >"$work/short"
"$maxlogit" show --group "$1" | grep -E '^muon' |
  sed -E 's/.* \[[0-9.]+, ([0-9.]+)\] +[0-9.]+ \[[0-9.]+, [0-9.]+\] +[0-9.]+ *$/\1/' >"$work/high"
paste -d '' "$work/short" "$work/high" | sort -t '|' -k4,4gr >"$work/rows"

printf '%-24s %18s %26s\n' cure 'validation loss' 'peak max logit'
awk -F '|' '{ printf "%-24s %9.3f +- %.3f %10.4g [%.4g, %.4g]\n", $1, $2, $3, $4, $5, $6 }' "$work/rows"
for term in png svg; do
  gnuplot -e "rows='$work/rows'; term='$term'; out='$here/cures.$term'; style='$here/../../plots/style.gp'" "$here/figure.gp"
done
