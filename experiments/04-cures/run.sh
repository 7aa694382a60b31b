#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: the sweeps of cures, their table and figure, by the peak. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep presets.conf
sweep stabilizers.conf
sweep spheres.conf
sweep gains.conf

# cure<tab>file: the preset's name where the cure is a preset, else the stabiliser's
runs '[({muon: "no cure", muonclip: "QK-Clip, tau 30", muonclip_split: "split + QK-Clip",
  muon_split: "per-head Muon (split)", muon_qk_slow: "0.1x rate on w_q, w_k",
  muon_qk_decay: "10x decay on w_q, w_k", muon_qk_adam: "Adam on w_q, w_k", muon_quack: "QuacK",
  muonh: "hyperball (MuonH)", muon_sphere: "MuonSphere", manifold_muon: "Manifold Muon"}[p("preset")] as $name |
  if p("train.decay_gains") == "1" then {muon: "decay of gains", muonclip: "decay of gains + QK-Clip"}[p("preset")]
  elif p("preset") == "muon" and p("stabilizers") != "none" then p("stabilizers") else $name // p("preset") end),
  .file] | @tsv' >"$work/runs"
sort "$work/runs" >"$work/files"

# "name|val|lo|hi|peak|lo|hi|seeds"
cut -f 1 "$work/files" | uniq | while read -r cure; do
  # shellcheck disable=SC2046 # names of files without blanks
  group "[\"$cure\", (.val_loss | .mean, .lo, .hi), (.peak_max_logit_geometric | .mean, .lo, .hi), .seeds] |
    map(tostring) | join(\"|\")" $(awk -F '\t' -v cure="$cure" '$1 == cure { print $2 }' "$work/files")
done | sort -t '|' -k5,5gr >"$work/rows"

{
  printf '%-24s %18s %26s\n' cure 'validation loss' 'peak max logit'
  awk -F '|' '{ printf "%-24s %9.3f +- %.3f %10.4g [%.4g, %.4g]\n", $1, $2, $4 - $2, $5, $6, $7 }' "$work/rows"
} >"$dir/table.txt"
draw figure.gp cures rows="$work/rows"
finish cures.png cures.svg
