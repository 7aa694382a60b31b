#!/bin/sh
# run.sh [--keep] [TEXT [DIR]]: the four presets at one rate, their table and figures; before that the best
# constant rate, for which DIR/rates has the runs. See ../lib.sh.
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep rates.conf sweep.dir="$dir/rates"
sweep sweep.conf

runs "$dir/rates" '[p("optimizer"), p("train.lr"), .val_loss] | @tsv' >"$work/rates"
group '[.group, .seeds, (.val_loss | .mean, .hi), (.peak_max_logit_geometric | .mean, .lo, .hi),
  (.last_max_logit_geometric | .mean, .lo, .hi), .clips] | @tsv' "$dir" >"$work/groups"
{
  echo 'last validation loss by constant rate, mean over seeds 1 and 2; *: the lowest'
  awk '
      !($2 in seen) { seen[$2] = 1; rate[++rates] = $2 }
      { n[$1, $2]++; sum[$1, $2] += $3 }
      END {
        for (i = 1; i <= rates; i++) for (k = i + 1; k <= rates; k++) if (rate[k] + 0 < rate[i] + 0) { t = rate[i]; rate[i] = rate[k]; rate[k] = t }
        printf "%-10s", "lr"; for (i = 1; i <= rates; i++) printf " %8s", rate[i]; print ""
        m = split("adam muon", name, " ")
        for (o = 1; o <= m; o++) {
          best = ""
          for (i = 1; i <= rates; i++) { v = sum[name[o], rate[i]] / n[name[o], rate[i]]; if (best == "" || v < best) best = v }
          printf "%-10s", name[o]
          for (i = 1; i <= rates; i++) { v = sum[name[o], rate[i]] / n[name[o], rate[i]]; printf " %7.3f%s", v, v == best ? "*" : " " }
          print ""
        }
      }' "$work/rates"
  echo
  printf '%-9s %5s %17s %24s %24s %6s\n' preset seeds 'validation loss' 'peak max logit' 'last max logit' clips
  awk -F '\t' '{
    printf "%-9s %5d %8.3f +- %.3f  %8s %-15s  %8s %-15s %6.0f\n", $1, $2, $3, $4 - $3, sprintf("%.4g", $5),
      sprintf("[%.4g, %.4g]", $6, $7), sprintf("%.4g", $8), sprintf("[%.4g, %.4g]", $9, $10), $11
  }' "$work/groups"
} >"$dir/table.txt"
"$maxlogit" plot -o "$dir" "$dir" >/dev/null
finish logits.png heads.png loss.png
