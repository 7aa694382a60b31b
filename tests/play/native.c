/* native.c - play.h in the program's own code, to be compared with the module: `native bits WORDS` prints the bits of a
   run, `native speed WORDS STEPS ROUNDS` steps per second of processor time, `native level` the kernels */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "play/play.h"

static void put(const char *text) { memcpy(play_room((int)strlen(text) + 1), text, strlen(text) + 1); }

static int fail(void)
{
  fprintf(stderr, "%s\n", play_error());
  return 1;
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "bits")) {
    put(argv[2]);
    const char *bits = play_bits();
    return bits ? puts(bits) < 0 : fail();
  }
  if (argc == 2 && !strcmp(argv[1], "level")) return puts(play_level()) < 0;
  if (argc != 5 || strcmp(argv[1], "speed")) return 2;
  put(argv[2]);
  const int run = play_new(), steps = (int)strtol(argv[3], NULL, 10);
  if (!run || play_step(run, 5) < 0) return fail();
  for (long round = strtol(argv[4], NULL, 10); round-- > 0;) {
    const clock_t began = clock(); /* of the processor: other programs do not count */
    if (play_step(run, steps) != steps) return fail();
    printf("%.2f\n", (double)steps * CLOCKS_PER_SEC / (double)(clock() - began));
  }
  play_free(run);
  return 0;
}
