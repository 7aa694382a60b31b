/* maxlogit run: train, show progress, write one run file */
#include <argp.h>
#include <stdio.h>

#include "app/command.h"
#include "app/report.h"
#include "app/words.h"
#include "base/memory.h"

struct arguments {
  struct words words;
  int dry, quiet;
};

static const struct argp_option options[] = {
  {"dry-run", 'n', NULL, 0,
   "print the resolved configuration, where every value came from and the memory wanted; train nothing", 0},
  {"quiet", 'q', NULL, 0, "no progress, no summary", 0},
  {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
  struct arguments *a = state->input;
  (void)arg;
  switch (key) {
  case 'n': a->dry = 1; return 0;
  case 'q': a->quiet = 1; return 0;
  case ARGP_KEY_INIT: state->child_inputs[0] = &a->words; return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

static int configure(struct config *c, const struct words *a, struct error *e)
{
  if (a->file && config_file(c, a->file, e)) return e->status;
  for (int i = 0; i < a->count; i++)
    if (config_assign(c, a->assignment[i], e)) return e->status;
  if (config_finish(c, e)) return e->status;
  config_warn_unused(c);
  return STATUS_OK;
}

static int print_entry(void *context, const struct config_entry *x)
{
  (void)context;
  if (x->used) printf("%-28s = %-24s # %s\n", x->key, x->value, x->origin);
  return 0;
}

static void print_memory(const struct trainer *t)
{
  size_t bytes[MEMORY_PARTS];
  double all = 0;
  trainer_memory(t, bytes);
  for (int i = 0; i < MEMORY_PARTS; i++) all += (double)bytes[i];
  printf("# memory: %.1f MiB", all / 0x1p20);
  for (int i = 0; i < MEMORY_PARTS; i++)
    printf("%s%.1f for %s", i ? ", " : ": ", (double)bytes[i] / 0x1p20, memory_part_names[i]);
  printf("; this machine has %.1f GiB. Rows of the "
         "record come to it, and a checkpoint while it is written\n",
         memory_there_is() / 0x1p30);
}

static int run(int argc, char **argv)
{
  static const struct argp argp = {
    options,
    parse,
    "[FILE.conf] [key=value ...]",
    "Train one run and write its record. Without arguments: the default toy stack on a built-in source.\v"
    "Keys: maxlogit help config. Presets and plug-ins: maxlogit list.\n"
    "Ctrl-C, SIGTERM or SIGUSR1: the step in hand is finished, the state saved, exit status 75; maxlogit "
    "resume goes "
    "on. Before the first step too; only while the program is still being loaded does a signal end it as it "
    "ends "
    "any, with nothing written. A second Ctrl-C ends it at once.",
    words_child,
    NULL,
    NULL};
  struct arguments a = {.words = {.once = "one configuration file at most"}};
  struct error e = {0};
  struct trainer *t = NULL;
  drive_catch_signals();
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  struct config *c = config_new();
  int status = configure(c, &a.words, &e);
  if (!status) status = trainer_init(&t, c, a.dry ? TRAINER_NO_RECORD : 0, &e);
  if (!status && a.dry) {
    printf("# run %s\n", trainer_id(t));
    print_memory(t);
    config_each(c, print_entry, NULL);
    trainer_abandon(t);
  } else if (!status) {
    status = report_drive(t, a.quiet, &e);
  }
  if (*e.text) status = report_error(&e);
  config_free(c);
  words_free(&a.words);
  return status;
}

const struct command command_run = {.name = "run",
                                    .arguments = "[FILE.conf] [key=value ...]",
                                    .help = "train; prints progress; writes one run file",
                                    .run = run};
