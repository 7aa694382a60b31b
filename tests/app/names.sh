#!/bin/sh
# list and help say the same of every plug-in, whatever it is called by
. "${top_srcdir:-.}/tests/small_runs.sh"
count=0

"$program" list --json > "$dir/all.json" || fail "list --json: exit $?"
for kind in attention ffn stabilizer optimizer schedule data preset command claim operation; do
  "$program" list $kind > "$dir/one" || fail "list $kind: exit $?"
  test -s "$dir/one" || fail "list $kind: nothing"
  if [ $kind != data ]; then
    "$program" list ${kind}s | cmp -s - "$dir/one" || fail "list ${kind}s is not list $kind"
  fi
  "$program" list --json $kind > "$dir/json" || fail "list --json $kind: exit $?"
  while read -r name rest; do
    count=$((count + 1))
    grep -qF "{\"name\": \"$name\", \"help\": \"" "$dir/json" || fail "list --json $kind: no $name"
    grep -qF "{\"name\": \"$name\", \"help\": \"" "$dir/all.json" || fail "list --json: no $kind $name"
    case $kind in command | operation) continue ;; esac
    "$program" help "$name" > "$dir/help" || fail "help $name: exit $?"
    grep -qF "$kind $name: $rest" "$dir/help" || fail "help $name does not explain the $kind"
    # every option that help names, with its default
    sed -n "s/^  $name\.\([a-z0-9_]*\) = \([^ ]*\) .*/\1 \2/p" "$dir/help" | while read -r option standard; do
      grep -F "{\"name\": \"$name\", \"help\": \"" "$dir/json" |
        grep -qF "{\"name\": \"$option\", \"default\": \"$standard\"" || echo "$name.$option"
    done > "$dir/missing"
    case $kind in attention | preset) ;; *) test -s "$dir/missing" && fail "not in list --json $kind: $(cat "$dir/missing")" ;; esac
  done < "$dir/one"
done
[ $count -gt 60 ] || fail "looked at $count names only"
"$program" help muon | grep -q '^  optimizer=muon stabilizers=none$' || fail "help muon: no settings of the preset"
"$program" help kimi_k2 | grep -q '^  source: arXiv 2507.20534' || fail "help kimi_k2: no source"
"$program" help kimi_k2 | grep -q '^  qk_clip.tau  *100  *100$' || fail "help kimi_k2: no original values"
"$program" help kimi_k2 | grep -q '^  train.lr  *0.01  *2e-4$' || fail "help kimi_k2: not the default"
"$program" help gemma2 | grep -q '^  cap of the final logits  *none  *30$' || fail "help gemma2: what there is not"
"$program" help muon | grep -q '^  muon.momentum = 0.95 ' || fail "help muon: no options of the optimizer"
"$program" help train.lr | grep -q '^  train.lr = 0.01 ' || fail "help train.lr"
"$program" help train | grep -q '^  train.lr = 0.01 ' || fail "help train"
"$program" help c-29 | grep -c 'measured: .*w_vo\|measured: .*w_\[vo\]\|measured: .*w_\[qk\]' | grep -qx 2 || fail "help c-29: the arms' own metrics"
"$program" help C-05 | grep -q '^  needs scale a model of' || fail "help C-05: why it is not settled here"
finish
