#!/bin/sh
# spectra of the last checkpoint are those that the run file's last row has: another road to the same numbers
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
small_run mha preset=muonclip qk_clip.tau=2
small_run gqa preset=muon model.attention=gqa model.heads=4 model.kv_heads=2

# last FILE SERIES: head and value of its last row, a line each
last() {
  "$program" export "$1" "$2" | awk '/^# step/ { for (i = 3; i <= NF; i++) head[i - 1] = $i } !/^#/ { row = $0 }
    END { n = split(row, x, " "); for (i = 2; i <= n; i++) print head[i], x[i] }'
}

# six numbers close a line of spectra; the record has them in single precision
for run in mha gqa; do
  "$program" spectra "$dir/$run.h5" > "$dir/spectra" 2> "$dir/err" || fail "spectra: $(cat "$dir/err")"
  for object in head_q:w_q head_k:w_k head_qk:'w_q^T w_k'; do
    field=0
    for name in spectral_norm frobenius_norm svd_entropy effective_rank_p effective_rank_r stable_rank; do
      field=$((field + 1))
      last "$dir/$run.h5" "${object%%:*}/$name" > "$dir/wanted"
      test "$(grep -c . "$dir/wanted")" -gt 3 || fail "$run: no record of ${object%%:*}/$name"
      while read -r head value; do
        awk -v start="$head ${object#*:} " -v field=$field -v value="$value" 'index($0, start) == 1 {
          found = 1; off = $(NF - 6 + field) - value; if (off < 0) off = -off
          if (!(off <= 2e-4 * value + 1e-6)) { print; exit 1 } } END { exit !found }' \
          "$dir/spectra" > "$dir/off" || fail "$run: $head $object $name is $value: $(cat "$dir/off")"
      done < "$dir/wanted"
    done
  done
done
finish
