#!/bin/sh
# In the main loops of products, at least 60 % of the instructions are fused multiply-adds (single precision), or at least
# 25 % (bf16) and 20 % (tf32) are products of tensor cores in tiles of 128 rows. Smaller tiles convert more numbers per
# product. Counted are loops that load 128 bits at a time, which serve all matrices but those that are not aligned.
cd "${top_builddir:-.}" || exit 99
object=cuda/product.gpu.o
[ -f $object ] || { echo "skipped: no $object (make cuda)"; exit 77; }
dump=$(command -v cuobjdump || ls "${CUDA_DIR:-/usr/local/cuda}/bin/cuobjdump" \
  "$(dirname "$(dirname "${PYTHON:-/nowhere}")")"/lib/python3*/site-packages/triton/backends/nvidia/bin/cuobjdump 2>/dev/null |
  head -n 1)
[ -x "$dump" ] || { echo 'skipped: no cuobjdump'; exit 77; }
PATH=$(dirname "$dump"):$PATH "$dump" -sass $object | awk '
  # counts instructions of the loop from line `first` to the end, by kind
  function loop(first,   i, multiplies, wide, cores, all) {
    for (i = first; i <= count; i++) {
      multiplies += name[i] ~ /FFMA/
      cores += name[i] ~ /HMMA/
      wide += name[i] ~ /LDG\.E\.128/
    }
    all = count - first + 1
    if (!wide) return
    if (kernel ~ /^_Z14product_kernel/) least = 60
    else if (kernel ~ /core_tileILi128.*Li1EEv/) least = 20
    else if (kernel ~ /core_tileILi128.*Li2EEv/) least = 25
    else return
    share = 100 * (multiplies + cores) / all
    printf "%s %s: %.1f %% of %d instructions multiply, at least %d\n", target, kernel, share, all, least
    seen[least]++
    if (share < least) bad = 1
  }
  /^arch = / { target = $3 }
  /Function : / { kernel = $3; count = 0; delete at }
  /^[ \t]*\/\*[0-9a-f]+\*\// {
    sub(/^[ \t]*\/\*0*/, "")
    address = substr($0, 1, index($0, "*") - 1)
    sub(/^[^ \t]*[ \t]+(@!?U?P[0-9T]+[ \t]+)?/, "")
    name[++count] = $1
    at[address] = count
    if ($1 ~ /^BRA/ && match($0, /0x[0-9a-f]+/)) {
      to = substr($0, RSTART + 2, RLENGTH - 2)
      sub(/^0+/, "", to)
      if (to in at) loop(at[to])
    }
  }
  END {
    # each of two targets: four tiles of numbers, and three ways in which words lie
    if (seen[60] != 8 || seen[20] != 6 || seen[25] != 6) { print "not all loops were found"; bad = 1 }
    exit bad
  }'
