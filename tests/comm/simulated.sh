#!/bin/sh
# The program as it is on 64 and 256 ranks that SimGrid simulates, on Ethernet and on nodes of 8 GPUs: the bits of one rank,
# and what a step's messages take there, by SimGrid's
# measure of a certain cluster's TCP (against a model of cost: experiments/19-scaling-by-simulation). Left to check-long; skipped, saying so, where there
# is no SimGrid. What is computed takes no time there: the time is that of messages alone.
cd "${top_builddir:-.}" || exit 99
command -v smpirun >/dev/null || { echo "simulated.sh: skipped: no smpirun (package libsimgrid-dev)"; exit 77; }
. "${top_srcdir:-.}/tests/small_runs.sh"
program=$PWD/maxlogit
make -s maxlogit_simulated >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }

# gpus: 450 GB/s each way from a GPU to its node's switch (NVLink 4), 1 us; a node has 400 Gb/s to a switch that blocks
# nothing, 5 us. ethernet: 25 Gb/s each way from each rank to such a switch, 20 us.
platform() { # gpus|ethernet RANKS
  awk -v kind="$1" -v ranks="$2" 'BEGIN {
    print "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">"
    cluster = "<cluster id=\"node-%d\" prefix=\"host-\" suffix=\"\" radical=\"%d-%d\" speed=\"1Tf\" bw=\"%s\" lat=\"%s\" router_id=\"switch-%d\"/>\n"
    if (kind == "ethernet")
      printf cluster, 0, 0, ranks - 1, "3.125GBps", "20us", 0
    else {
      print "<zone id=\"all\" routing=\"Full\">"
      nodes = ranks / 8
      for (i = 0; i < nodes; i++) printf cluster, i, 8 * i, 8 * i + 7, "450GBps", "1us", i
      for (i = 0; i < nodes; i++) printf "<link id=\"up-%d\" bandwidth=\"50GBps\" latency=\"5us\" sharing_policy=\"SPLITDUPLEX\"/>\n", i
      for (i = 0; i < nodes; i++)
        for (j = i + 1; j < nodes; j++)
          printf "<zoneRoute src=\"node-%d\" dst=\"node-%d\" gw_src=\"switch-%d\" gw_dst=\"switch-%d\"><link_ctn id=\"up-%d\" direction=\"UP\"/><link_ctn id=\"up-%d\" direction=\"DOWN\"/></zoneRoute>\n", i, j, i, j, i, j
      print "</zone>"
    }
    print "</platform>"
  }'
}
small="preset=muonclip qk_clip.tau=0.3 model.width=16 model.heads=2 model.context=16 train.lr=0.03 train.val_every=0
  train.val_batches=1 device.threads=1 comm.timeout=1e5"
cd "$dir" || exit 99
# shellcheck disable=SC2086 # a list of settings
simulated() { # KIND RANKS STEPS: the seconds it took there
  kind=$1 n=$2 steps=$3
  platform "$kind" "$n" >platform.xml
  seq 0 $((n - 1)) | sed 's/^/host-/' >hosts
  rm -rf ranks.*
  smpirun -np "$n" -platform platform.xml -hostfile hosts --cfg=smpi/simulate-computation:no --cfg=smpi/test:1e-6 \
    --cfg=smpi/iprobe:1e-6 --cfg=smpi/host-speed:1Tf --cfg=smpi/display-timing:yes --log=root.thres:error \
    --log=smpi.thres:info "$OLDPWD/maxlogit_simulated" run -q $small train.batch="$n" train.micro_batches="$n" \
    train.steps="$steps" record.path=ranks.h5 >log 2>&1 || fail "$kind, $n ranks: $(tail -n 5 log)"
  sed -n 's/.*Simulated time: \([0-9.]*\).*/\1/p' log
}
for n in ${RANKS:-64 256}; do
  rm -rf one.*
  # shellcheck disable=SC2086
  "$program" run -q $small train.batch="$n" train.micro_batches="$n" train.steps=6 record.path=one.h5 || fail "one rank"
  for kind in ethernet gpus; do
    short=$(simulated $kind "$n" 2)
    long=$(simulated $kind "$n" 6)
    "$OLDPWD/tests/same_run" one.h5 ranks.h5 >log || fail "$kind, $n ranks: other bits: $(head -n 3 log)"
    awk -v kind="$kind" -v n="$n" -v short="$short" -v long="$long" 'BEGIN {
      printf "%s, %d ranks: %.3f ms a step of messages\n", kind, n, (long - short) / 4 * 1e3
      exit !(long > short) }' || fail "$kind, $n ranks: no time is told: '$short' '$long'"
  done
done
finish
