# model.awk - steps as they were simulated (steps.txt) against the model of cost of doc/cluster.md: the table; with -v points=FILE
# what the figure wants: set cluster ranks, milliseconds simulated and by the model, those of computing, kB sent, those of the model.
# Of computing one rank's run tells what it is; the rest is latency, bandwidth, and what is sent.
BEGIN {
  context_rows = 2048; layers = 2; width = 32 # as in run.sh
  apart["ethernet"] = 40e-6; rate["ethernet"] = 3.125e9
  apart["near"] = 2e-6; rate["near"] = 450e9; apart["far"] = 7e-6; rate["far"] = 50e9
}
{
  of = $1 " " $2 " " $3
  order[++n] = of; took[of] = $4; computed[of] = $5; sent[of] = $6
  for (i = 7; i < NF; i += ($i == "bits" ? 2 : 3)) {
    if ($i == "bits") bits[of] = $(i + 1)
    else { spent[of, $i] = $(i + 1); bytes[of, $i] = $(i + 2) }
  }
}
# a message of so many bytes to the rank `distance` away; so many ranks of a node use its link at the same time
function message(kind, ranks, distance, bytes, sharing,  link) {
  link = kind == "ethernet" ? kind : distance < 8 ? "near" : "far"
  return apart[link] + bytes * (link == "far" ? sharing : 1) / rate[link]
}
function point(set, kind, ranks, is, by_model, computes) {
  if (points) print set, kind, ranks, 1e3 * is, 1e3 * by_model, 1e3 * computes | "sort -k1,1 -k2,2 -k3,3n >" points
}
function log2(x) { return int(log(x) / log(2) + 0.5) }
function model(set, kind, ranks, parameters, seen,  k, s, rows, ring) {
  s = 0
  for (k = 0; k < log2(ranks); k++) {
    s += 2 * message(kind, ranks, 2 ^ k, 4 * parameters / 2 ^ (k + 1), 8)   # gradients, by halves and back
    s += message(kind, ranks, 2 ^ k, 4 * seen, 8)                           # what passes have seen
    s += message(kind, ranks, ranks > 8 ? 8 : 1, 8, 8)                      # has anyone failed, or to stop?
  }
  if (set == "context" || set == "longer") {
    rows = set == "context" ? context_rows / ranks : 64
    ring = 2 * 3 * (ranks - 1) * layers
    s += ring * message(kind, ranks, ranks > 8 ? 8 : 1, 4 * rows * width, 1)
  }
  return s
}
END {
  printf "%-9s %-9s %5s %10s %10s %7s %10s %7s %8s %6s %7s %7s\n", "set", "cluster", "ranks", "ms a step", "computing", "others", "by model", "off",
    "kB sent", "least", "seen us", "of step"
  for (i = 1; i <= n; i++) {
    split(order[i], w, " "); of = order[i]
    if (w[3] == 1) {
      point(w[1], w[2], 1, took[of], took[of], took[of])
      continue
    }
    L = log2(w[3])
    parameters = bytes[of, "all_sum"] / 4 / (2 * (w[3] - 1) / w[3])
    seen = bytes[of, "trade"] / 4 / L
    m = model(w[1], w[2], w[3], parameters, seen) + computed[of]
    point(w[1], w[2], w[3], took[of], m, computed[of])
    if (w[1] == "strong" && w[3] == 256) point("weak", w[2], w[3], took[of], m, computed[of])
    if (w[1] == "context" && w[3] == 32) point("longer", w[2], w[3], took[of], m, computed[of])
    if (w[1] == "states") m = 0
    least = 2 * (w[3] - 1) / w[3] * 4 * parameters
    if (w[1] == "context" || w[1] == "longer")
      least += 3 * (w[3] - 1) * layers * 2 * width * 4 * (w[1] == "context" ? context_rows / w[3] : 64)
    printf "%-9s %-9s %5d %10.4f %10.4f %5.1f %% %10s %7s %8.1f %6.3f %7.1f %5.2f %%\n", w[1], w[2], w[3], 1e3 * took[of], 1e3 * computed[of],
      100 * (1 - computed[of] / took[of]), m ? sprintf("%.4f", 1e3 * m) : "-", m ? sprintf("%+.1f %%", 100 * (took[of] / m - 1)) : "-",
      sent[of] / 1e3, sent[of] / least, 1e6 * spent[of, "trade"], 100 * spent[of, "trade"] / took[of]
  }
}
