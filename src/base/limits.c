/* limits.c - resource limits of this process */
#include "base/limits.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LENGTH = 4096 };

/* Find the first line of a file that begins with `word`, and copy its rest; 0: there is none. */
static int line_in(const char *path, const char *word, char out[256])
{
  FILE *f = fopen(path, "r");
  int found = 0;
  while (f && !found && fgets(out, 256, f)) found = !strncmp(out, word, strlen(word));
  if (f) fclose(f);
  if (found) memmove(out, out + strlen(word), strlen(out + strlen(word)) + 1);
  return found;
}

static double number_in(const char *folder, const char *name, const char *word)
{
  char path[2 * LENGTH], line[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return line_in(path, word, line) ? strtod(line, NULL) : 0; /* "max" means no limit */
}

/* Does a comma-separated list contain a word? */
static int lists(const char *list, const char *word)
{
  for (size_t n; *list; list += n + (list[n] == ',')) {
    n = strcspn(list, ",");
    if (n == strlen(word) && !strncmp(list, word, n)) return 1;
  }
  return 0;
}

typedef void group_reader(const char *folder, const char *group, void *to);

/* Visit the folder of this process's control group for a controller, and those of all enclosing groups. */
static void each_group(const char *root, const char *controller, group_reader *read, void *to)
{
  char line[LENGTH], path[2 * LENGTH];
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f)) { /* number:controllers:/group, without controllers in version 2 */
    line[strcspn(line, "\n")] = 0;
    char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0, list++;
    if (*list && !lists(list, controller)) continue;
    for (char *end = group;; *end = 0) {
      const char *of = *list ? "/" : "";
      snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s%s", root, of, *list ? controller : "", group);
      read(path, *group ? group : "/", to);
      if (!(end = strrchr(group, '/'))) break;
    }
  }
  if (f) fclose(f);
}

static void smaller(struct memory_limit *limit, double bytes, const char *by)
{
  if (!(bytes > 0) || bytes >= limit->bytes) return;
  limit->bytes = bytes;
  snprintf(limit->by, sizeof limit->by, "%.199s", by);
}

static void read_memory(const char *folder, const char *group, void *to)
{
  char by[LENGTH];
  snprintf(by, sizeof by, "the control group of this job (%.150s) allows", group);
  smaller(to, number_in(folder, "memory.max", ""), by);
  smaller(to, number_in(folder, "memory.limit_in_bytes", ""), by);
}

struct memory_limit memory_limit(const char *root)
{
  static const struct {
    int resource;
    const char *by;
  } limits[] = {{RLIMIT_AS, "ulimit -v allows"}, {RLIMIT_DATA, "ulimit -d allows"}};
  struct memory_limit limit = {(double)sysconf(_SC_PAGESIZE) * (double)sysconf(_SC_PHYS_PAGES),
                               "this machine has"};
  struct rlimit own;
  limit.bytes += 1024 * number_in(root, "proc/meminfo", "SwapTotal:");
  each_group(root, "memory", read_memory, &limit);
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (getrlimit(limits[i].resource, &own) == 0 && own.rlim_cur != RLIM_INFINITY)
      smaller(&limit, (double)own.rlim_cur, limits[i].by);
  return limit;
}

static void read_cores(const char *folder, const char *group, void *to)
{
  double *least = to, quota = number_in(folder, "cpu.cfs_quota_us", ""),
         period = number_in(folder, "cpu.cfs_period_us", "");
  char path[2 * LENGTH], line[256], *end;
  (void)group;
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (line_in(path, "", line)) quota = strtod(line, &end), period = strtod(end, NULL);
  if (quota > 0 && period > 0) *least = fmin(*least, quota / period);
}

int limits_cores(const char *root)
{
  double least = INFINITY;
  each_group(root, "cpu", read_cores, &least);
  return least < 1e6 ? (int)ceil(least) : 0;
}
