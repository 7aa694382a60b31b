#!/bin/bash
# The developer guide's examples of a new optimizer, stabilizer and observable: one file and one row each in a copy of the
# sources. They must be listed, explained, trained with and recorded, and resumable. The copy is built --without-mpi, which
# is told, and computes what the program here does.
set -e
src=${top_srcdir:-.}
command -v automake >/dev/null 2>&1 || { echo "no automake here"; exit 77; }
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
file=src/training/optimizers/nsgd.c
list=src/training/optimizers/list.am

for part in $(cd "$src" && ls); do
  case $part in
    src | cuda | m4 | plots | tests | doc | experiments | notebooks-c | page | python | *.am | *.ac | *.in | README.md | CONTRIBUTING.md | CHANGELOG.md | LICENSE | CITATION.cff | bootstrap)
      cp -r "$src/$part" "$to/" ;;
  esac
done
chmod -R u+w "$to"
mkdir -p "$to/.ci" && cp "$src/.ci/run" "$to/.ci/"
find "$to" -name '*.o' -delete
find "$to" -name .deps -prune -exec rm -r {} + # they know what a first build has to find out
cd "$to"
observable=src/observe/observables/output.c
stabilizer=src/training/stabilizers/norm_cap.c
for f in "$file" $observable $stabilizer; do
  awk -v file="$f" 'index($0, "<!-- " file " -->") { found = 1 } /^```/ && inside { exit }
    inside { print } /^```c/ && found { inside = 1 }' doc/developer.md >"$f"
  [ "$(wc -l <"$f")" -gt 20 ] || { echo "doc/developer.md has no example for $f"; exit 1; }
done
sed -i "s,^observables = .*,&\n\t$observable \\\\," src/observe/observables/list.am
sed -i "s,^optimizers = .*,&\n\t$file \\\\," "$list"
# and a stabilizer with a series by tensor: every matrix's number is its own
cat >src/training/stabilizers/counts.c <<'END'
#include "model/model.h"
static const struct series emits[] = {
  {"counts", PER_TENSOR, AXIS_STEP, "1", "elements", "numbers that the tensor has", EVENT_NONE}, {0}};
static void after_step(struct stabilizer_context *c, struct program *p)
{
  const struct params *all = &c->model->params;
  double count[64];
  int n = 0;
  for (int i = 0; i < all->count; i++)
    if (param_is_matrix(all->list[i])) count[n++] = (double)(all->list[i]->value.rows * all->list[i]->value.cols);
  PROGRAM_CALL(p, copy, .y = c->series[0], .x = program_reals(p, 1, n, count, "counts"));
}
const struct stabilizer stabilizer_counts = {
  .name = "counts", .help = "how many numbers tensors have", .emits = emits, .after_step = after_step};
END
sed -i "s,^stabilizers = ,&$stabilizer src/training/stabilizers/counts.c ," src/training/stabilizers/list.am
rm -f src/plugins.def src/build.h
{ autoreconf -i && ./configure -q --without-mpi --prefix="$to/away" CFLAGS='-O0 -Wall -Werror' && make -j2 maxlogit; } >log 2>&1 || { tail -n 30 log; exit 1; }
./maxlogit list optimizer | grep '^  nsgd '
./maxlogit help nsgd | grep 'nsgd.momentum = 0.9'
run="optimizer=nsgd model.width=16 model.heads=2 train.batch=2 train.warmup=2"
# shellcheck disable=SC2086 # a list of settings
./maxlogit run -q $run train.steps=20 record.path=whole.h5
# shellcheck disable=SC2086
./maxlogit run -q $run train.steps=10 record.path=half.h5
./maxlogit resume -q half.h5 train.steps=20
./maxlogit export whole.h5 loss >whole.txt
./maxlogit export half.h5 loss >half.txt
cmp whole.txt half.txt
./maxlogit run -q model.layers=1 model.width=16 model.heads=2 model.ffn_width=32 train.steps=2 train.batch=2 \
  stabilizers=qk_norm+counts record.path=counts.h5
# embed and head, q k v o, gate up down
counts=$(./maxlogit export counts.h5 counts | tail -n 1)
[ "$counts" = "1 1024 1024 256 256 256 256 512 512 512" ] || { echo "counts by tensor: $counts"; exit 1; }
./maxlogit list observable | grep '^  output '
./maxlogit help output | grep 'series output/rms (nat)'
# the size of the logits hangs on no number of micro-batches; of a uniform start it is far below that of one sure of itself
for parts in 1 4; do
  ./maxlogit run -q model.width=16 model.heads=2 train.batch=4 train.steps=6 train.warmup=2 train.micro_batches=$parts \
    record.observe=default+output record.path=out$parts.h5
  ./maxlogit export out$parts.h5 output/rms | grep -v '^#' >out$parts.txt
done
paste out1.txt out4.txt | awk '{ d = $2 / $4 - 1; n++ } $2 < 0.05 || $2 > 20 || d * d > 1e-6 { print; bad = 1 } END { exit bad || n != 6 }'
./maxlogit export whole.h5 output/rms 2>/dev/null && { echo "recorded though nobody asked"; exit 1; }

# the stabilizer: no factor where the limit is far above the norms; at a half of them the first step halves them, a later one
# cuts off a step's growth alone, and each factor below 1 is a clip
./maxlogit list stabilizer | grep '^  norm_cap '
run="model.layers=2 model.width=16 model.heads=2 train.batch=2 train.warmup=2 stabilizers=norm_cap"
for limit in 1000 2; do
  # shellcheck disable=SC2086
  ./maxlogit run -q $run norm_cap.limit=$limit train.steps=6 record.spectra_every=1 record.path=cap$limit.h5
  ./maxlogit export cap$limit.h5 norm_cap/gamma | grep -v '^#' >cap$limit.txt
done
awk '$2 != 1 || $3 != 1 { bad = 1 } END { exit bad || NR != 6 }' cap1000.txt
awk '{ for (i = 2; i <= 3; i++) if (NR == 1 ? $i < 0.3 || $i > 0.7 : $i < 0.8 || $i > 1) bad = 1 } END { exit bad || NR != 6 }' cap2.txt
clips=$(awk '{ n += ($2 < 1) + ($3 < 1) } END { print n }' cap2.txt)
./maxlogit show --json --of=clips cap2.h5 | grep -q "\"clips\": $clips\b" || { cat cap2.txt; ./maxlogit show --json --of=clips cap2.h5; exit 1; }
# shellcheck disable=SC2086
./maxlogit run -q $run norm_cap.limit=2 train.steps=3 record.spectra_every=1 record.path=cap.h5
./maxlogit resume -q cap.h5 train.steps=6
./maxlogit export cap.h5 norm_cap/gamma | grep -v '^#' | cmp - cap2.txt

# without MPI
grep '^  MPI  *no module, every run has one rank: not asked for (--without-mpi)$' log
[ ! -e maxlogit_mpi.so ] || { echo "a module of MPI was built though nobody wants it"; exit 1; }
./maxlogit doctor >doctor.txt
grep "^  ranks  *1: no MPI module was built ($to/away/.*): configure and make do it where mpicc is" doctor.txt
grep '^  bits  *[0-9a-f]*, ' doctor.txt >bits.txt
"${top_builddir:-$src}/maxlogit" doctor | grep '^  bits ' | cmp - bits.txt
run="preset=muonclip qk_clip.tau=0.3 model.width=16 model.heads=2 model.context=16 train.batch=4 train.micro_batches=4 train.warmup=2
  train.lr=0.03 train.steps=20 record.spectra_every=4"
# shellcheck disable=SC2086
./maxlogit run -q $run record.path=without.h5
# shellcheck disable=SC2086
"${top_builddir:-$src}/maxlogit" run -q $run record.path=with.h5
"${top_builddir:-$src}/tests/same_run" with.h5 without.h5
for rank in 0 1; do # as a launcher starts them: refused, once
  status=0
  # shellcheck disable=SC2086
  OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$rank ./maxlogit run -q $run record.path=ranks.h5 2>log || status=$?
  [ $status = 2 ] && [ ! -e ranks.h5 ] && [ "$(grep -c 'started 2 ranks: no MPI module was built' log)" = $((1 - rank)) ] ||
    { echo "rank $rank without MPI: exit $status"; cat log; exit 1; }
done
echo "one file and one row: $file, $stabilizer, $observable"
