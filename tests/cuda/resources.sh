#!/bin/sh
# No kernel of maxlogit_cuda.so exceeds its limits of registers, stack and shared memory (resources.txt), nor spills
# registers where it may have no stack.
cd "${top_builddir:-.}" || exit 99
set -- cuda/*.gpu.log
[ -f "$1" ] || { echo "skipped: no $1, which nvcc writes (make cuda)"; exit 77; }
cat "$@" | awk -v limits="${top_srcdir:-.}/tests/cuda/resources.txt" '
  BEGIN { while ((getline line < limits) > 0) if (line !~ /^#/) row[rows++] = line }
  function complain(what, used, most) {
    print kernel " (" target "): " what " " used ", at most " most
    bad = 1
  }
  /Compiling entry function/ { split($0, word, "\047"); kernel = word[2]; target = word[4] }
  /spill stores/ { stack = $1; spilt = $5 + $9 }
  /: Used [0-9]+ registers/ {
    shared = 0
    for (i = 1; i < NF; i++) if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
    for (i = 0; i < rows; i++) {
      split(row[i], limit)
      if (kernel ~ limit[1]) break
    }
    seen[i]++
    count[target]++
    if ($5 > limit[2]) complain("registers", $5, limit[2])
    if (stack > limit[3]) complain("bytes of stack", stack, limit[3])
    if (shared > limit[4]) complain("bytes of shared memory", shared, limit[4])
    if (spilt && !limit[3]) complain("bytes of spilt registers", spilt, 0)
  }
  END {
    for (i = 0; i < rows; i++) if (!seen[i]) { print "no kernel is of this row: " row[i]; bad = 1 }
    for (target in count) print count[target] " kernels for " target
    if (count["sm_80"] < 100 || count["sm_90"] != count["sm_80"]) { print "not all kernels were compiled"; bad = 1 }
    exit bad
  }'
