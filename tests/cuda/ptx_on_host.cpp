/* ptx_on_host.cpp - which kernel of the program has which PTX, and the log of races
   PTX_FAULT=mma, barrier or vector: the kernel with that planted fault takes the place of its own. */
#include "tests/cuda/ptx_on_host.h"
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" char __executable_start[];
using namespace cuda_on_host;
namespace ptx_on_host
{

/* --- tables ------------------------------------------------------------------------------------------------ */

static std::map<std::string, const entry *> &by_name()
{
  static std::map<std::string, const entry *> all;
  return all;
}

table::table(const entry *entries, size_t count)
{
  const char *fault = getenv("PTX_FAULT");
  for (size_t i = 0; i < count; i++) {
    const entry *&known = by_name()[entries[i].name];
    const bool wanted = entries[i].fault && fault && !strcmp(fault, entries[i].fault);
    if (wanted || (!entries[i].fault && !(known && known->fault))) known = &entries[i];
  }
}

/* A kernel with internal linkage, which its PTX does not show: _ZL... */
static std::map<const void *, const entry *> in_program()
{
  std::map<const void *, const entry *> found;
  char line[8192], command[64];
  snprintf(command, sizeof command, "nm /proc/%d/exe", (int)getpid());
  FILE *symbols = popen(command, "r");
  while (symbols && fgets(line, sizeof line, symbols)) {
    char *end;
    const size_t at = strtoul(line, &end, 16);
    end[strcspn(end, "\n")] = 0;
    if (strncmp(end, " t _Z", 5)) continue;
    const auto known = by_name().find("_Z" + std::string(end + (end[5] == 'L' ? 6 : 5)));
    if (known != by_name().end()) found[__executable_start + at] = known->second;
  }
  if (!symbols || pclose(symbols) || found.size() < by_name().size()) {
    fprintf(stderr, "ptx_on_host: the program has %zu of %zu kernels of the PTX\n", found.size(), by_name().size());
    exit(99);
  }
  return found;
}

static const std::map<const void *, const entry *> &all_entries()
{
  static const std::map<const void *, const entry *> found = in_program();
  return found;
}

/* --- the log of races ---------------------------------------------------------------------------------------- */

/* Accesses to four bytes since the last barrier of the block. */
struct accessed {
  uint64_t when;        /* block_barriers at that time */
  int writer;           /* the last thread; -1: none */
  uint32_t writer_when; /* warp_barriers at that time */
  uint32_t warps;       /* those that have read */
  int warp;             /* the last of them, and its lanes since its own last barrier */
  uint32_t lanes, lanes_when;
};
static std::vector<accessed> log_of_words;
static uint64_t block_barriers[1024]; /* that a thread has passed; the start of a block is one */
static uint32_t warp_barriers[1024];
static size_t window; /* bytes of shared memory */

static void race(uint32_t offset, int warp)
{
  char message[128];
  snprintf(message, sizeof message, "a race of thread %d and warp %d for byte %u of shared memory",
           (int)(running - threads), warp, offset);
  demand(false, message);
}

static void log_access(uint32_t offset, bool writes)
{
  const int me = (int)(running - threads), warp = me / 32;
  const uint32_t lane = 1u << me % 32, now = warp_barriers[me];
  accessed &at = log_of_words[offset / 4];
  if (at.when != block_barriers[me]) at = {block_barriers[me], -1, 0, 0, -1, 0, 0};
  if (at.writer >= 0 && at.writer != me && (at.writer / 32 != warp || at.writer_when == now))
    race(offset, at.writer / 32);
  const bool lanes_are_ours = at.warp == warp && at.lanes_when == now;
  if (writes) {
    const uint32_t others = at.warps & ~(1u << warp);
    if (others) race(offset, __builtin_ctz(others));
    if (lanes_are_ours && at.lanes & ~lane) race(offset, warp);
    at.writer = me, at.writer_when = now;
  } else {
    if (!lanes_are_ours) at.warp = warp, at.lanes = 0, at.lanes_when = now;
    at.warps |= 1u << warp, at.lanes |= lane;
  }
}

void misaligned(uint64_t at, unsigned bytes)
{
  char message[128];
  snprintf(message, sizeof message, "a misaligned access: %u bytes at %#llx", bytes, (unsigned long long)at);
  demand(false, message);
}

char *shared_at(uint32_t offset, unsigned bytes, bool writes)
{
  if (offset % bytes) misaligned(offset, bytes);
  demand(offset < window && bytes <= window - offset, "an access outside of shared memory");
  for (unsigned i = 0; i < bytes; i += 4) log_access(offset + i, writes);
  return dynamic_shared + offset;
}

/* --- threads --------------------------------------------------------------------------------------------------- */

void begin() { block_barriers[running - threads]++; }

void meet_block()
{
  wait(IN_BLOCK, 0, 0, "bar.sync", "", 1);
  block_barriers[running - threads]++;
}

void meet_warp(unsigned mask)
{
  wait(IN_WARP, mask, 0, "bar.warp.sync", "", 1);
  if (mask == ~0u) warp_barriers[running - threads]++;
}

void find_all() { all_entries(); }

static const entry &entry_of(const void *kernel)
{
  const auto known = all_entries().find(kernel);
  demand(known != all_entries().end(), "no PTX of this kernel");
  return *known->second;
}

void run(const void *kernel, const parameters &given, dim3 grid, dim3 block, size_t bytes)
{
  const entry &e = entry_of(kernel);
  demand(given.used == e.parameter_bytes, "parameters of another size than in PTX");
  /* the same for all, and more than in earlier launches */
  std::fill(block_barriers, block_barriers + 1024, *std::max_element(block_barriers, block_barriers + 1024));
  std::fill(warp_barriers, warp_barriers + 1024, 0);
  function = kernel, arguments = given.bytes, cuda_on_host::kernel = e.run;
  static_shared = e.shared_bytes, window = e.shared_bytes + bytes;
  log_of_words.resize(std::max(log_of_words.size(), window / 4 + 1));
  cuda_on_host::run(grid, block, bytes);
}
} // namespace ptx_on_host
