#!/bin/sh
# kernels.sh PLUGIN - names of the kernels in it, one a line, as MAXLOGIT_CUDA_KERNELS writes them
nm -C "$1" | sed -n 's/^[0-9a-f]* t \(.*_kernel[<(].*\)$/\1/p' | grep -vE '__device_stub__|\[clone|::' | sort -u
