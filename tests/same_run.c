/* same_run A.h5 B.h5: exit 0 when the two runs are the same, bit for bit (see same_run.h) */
#include "same_run.h"

int main(int argc, char **argv)
{
  int datasets = 0;
  if (argc != 3) {
    fprintf(stderr, "usage: same_run A.h5 B.h5\n");
    return 2;
  }
  int differences = same_run(argv[1], argv[2], 1, &datasets, stdout);
  if (!differences) printf("the same: %d datasets, events, weights\n", datasets);
  return differences ? 1 : 0;
}
