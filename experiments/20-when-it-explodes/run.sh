#!/bin/sh
# run.sh [--keep] [DIR]: the arms at like rates, rates and runs of the tuned arms, the table and the figures. See ../lib.sh.
builtin=1
# shellcheck source=experiments/lib.sh
. "$(dirname "$0")/../lib.sh"

sweep arms.conf
SEEDS=${SEEDS:-2}
tuned rates

steps=$("$maxlogit" show --json --parameters "$dir" | jq -r '.[0].parameters["train.steps"]')
early="$((steps / 10))-$((steps / 5))" late="$((steps * 9 / 10))-$steps"
# a line a run: arm rate seed, then exponent, end, loss, training loss, shares of heads and steps without a clip
of="probe/max_logit:$((steps / 10))-$steps:slope,probe/max_logit:last5%:max,val_loss:last3:mean,loss:last5%:mean"
told "$dir" "$of,qk_clip/gamma:$early:over=0.9999999,qk_clip/gamma:$late:over=0.9999999" \
  'p("arm"), p("train.lr"), p("train.seed")' >"$work/runs"
awk -v exponents="$work/exponents" -f "$here/../order.awk" -f "$here/when.awk" "$work/runs" >"$dir/table.txt"

# shown ARM: the arm's first run
shown() { runs "select((.state == \"finished\" or .state == \"blown-up\") and p(\"arm\") == \"$1\") | .file" | head -n 1; }
{
  for arm in muon adam muonclip; do
    rows "$(shown $arm)" probe/max_logit
    printf '\n\n'
  done
} >"$work/heads"
arms='adam muon muonclip polargrad normuon lion soap'
for arm in $arms; do curve "$dir" "p(\"arm\") == \"$arm\""; done >"$work/curves"
# a block a regime: the middle of a hundredth of the run, the share of heads and steps that are clipped
for arm in muonclip muonclip-decay; do
  runs "select((.state == \"finished\" or .state == \"blown-up\") and p(\"arm\") == \"$arm\") | .file" >"$work/of"
  while read -r run; do rows "$run" qk_clip/gamma; done <"$work/of" |
    awk -v part="$((steps / 40 > 0 ? steps / 40 : 1))" '{
        b = int($1 / part); for (i = 2; i <= NF; i++) { n[b]++; clipped[b] += $i < 1 } if (b > last) last = b
      }
      END { for (b = 0; b <= last; b++) if (n[b]) print (b + 0.5) * part, clipped[b] / n[b]; print "\n" }'
done >"$work/clips"
draw figure.gp when-it-explodes heads="$work/heads" curves="$work/curves" arms="$arms" exponents="$work/exponents" steps="$steps"
for arm in muonclip muonclip-decay muon muon-decay; do curve "$dir" "p(\"arm\") == \"$arm\""; done >"$work/regimes"
draw clip.gp tug-of-war clips="$work/clips" regimes="$work/regimes" steps="$steps"
finish when-it-explodes.png tug-of-war.png
