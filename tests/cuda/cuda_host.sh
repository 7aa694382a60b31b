# cuda_host.sh - for tests: device = cuda with the CPU in the place of the GPU, in a build folder that has that plug-in
cd "${top_builddir:-.}" || exit 99
MAXLOGIT_CUDA=$PWD/tests/maxlogit_cuda_on_host.so
[ -f "$MAXLOGIT_CUDA" ] || { echo "skipped: no C++ compiler has built $MAXLOGIT_CUDA"; exit 77; }
export MAXLOGIT_CUDA
