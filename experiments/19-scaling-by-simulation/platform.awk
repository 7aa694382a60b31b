# platform.awk - a described cluster for SimGrid: awk -v kind=gpus|ethernet -v ranks=N -v speed=FLOP/s -f platform.awk
# ethernet: 25 Gb/s each way from each rank to a switch that blocks nothing, 20 us.
# gpus: 8 a node; 450 GB/s each way from each to its node's switch (NVLink 4), 1 us; a node has 400 Gb/s each way to a switch
# that blocks nothing, 2.5 us. So two ranks are 40 us apart; 2 us within a node, and 7 us between nodes.
BEGIN {
  print "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">"
  node = "<cluster id=\"node-%d\" prefix=\"host-\" suffix=\"\" radical=\"%d-%d\" speed=\"%sf\" bw=\"%s\" lat=\"%s\" router_id=\"switch-%d\"/>\n"
  if (kind == "ethernet") printf node, 0, 0, ranks - 1, speed, "3.125GBps", "20us", 0
  else {
    print "<zone id=\"all\" routing=\"Floyd\">"
    nodes = int((ranks + 7) / 8)
    for (i = 0; i < nodes; i++) printf node, i, 8 * i, 8 * i + 7, speed, "450GBps", "1us", i
    print "<zone id=\"core\" routing=\"Full\"><router id=\"spine\"/></zone>"
    for (i = 0; i < nodes; i++) printf "<link id=\"up-%d\" bandwidth=\"50GBps\" latency=\"2.5us\" sharing_policy=\"SPLITDUPLEX\"/>\n", i
    for (i = 0; i < nodes; i++)
      printf "<zoneRoute src=\"node-%d\" dst=\"core\" gw_src=\"switch-%d\" gw_dst=\"spine\"><link_ctn id=\"up-%d\" direction=\"UP\"/></zoneRoute>\n", i, i, i
    print "</zone>"
  }
  print "</platform>"
}
