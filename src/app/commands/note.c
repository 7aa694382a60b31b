/* maxlogit note: remarks in a run file, and what became of one that another program has changed */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/report.h"
#include "app/summary.h"
#include "storage/change.h"

struct arguments {
  const char *path, *text;
  int accept;
};

enum { KEY_ACCEPT = 256 };
static const struct argp_option options[] = {
  {"accept-edit", KEY_ACCEPT, NULL, 0,
   "Take a run file that another program has changed as it is now: what is in it is read, it gets a new "
   "checksum, and an event and a note keep that it was edited (TEXT says why)",
   0},
  {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
  struct arguments *a = state->input;
  switch (key) {
  case KEY_ACCEPT: a->accept = 1; return 0;
  case ARGP_KEY_ARG:
    if (state->arg_num > 1) argp_error(state, "one text: put it in quotes");
    *(state->arg_num ? &a->text : &a->path) = arg;
    return 0;
  case ARGP_KEY_NO_ARGS: argp_error(state, "which run? maxlogit note RUN.h5 [TEXT]"); return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

static int print(const char *path, struct error *e)
{
  struct run_file *r = NULL;
  struct notes notes;
  int status = run_open(&r, path, e);
  if (status) return status;
  status = run_notes(r, &notes, e);
  for (int i = 0; i < notes.count && !status; i++) summary_note("", &notes.note[i]);
  notes_free(&notes);
  run_close(r);
  return status;
}

static int check_text(const char *text, struct error *e)
{
  if (text && !*text) return error_set(e, STATUS_USAGE, "an empty text is no note");
  if (text && strlen(text) > NOTE_BYTES)
    return error_set(e, STATUS_USAGE, "a note of %zu bytes; at most %d", strlen(text), NOTE_BYTES);
  return STATUS_OK;
}

static int note(int argc, char **argv)
{
  static const struct argp argp = {
    options,
    parse,
    "RUN.h5 [TEXT]",
    "Keep a remark in a run file, with the date; without TEXT, print those that it has.\v"
    "The file is written anew under its checksum, and replaced at once: whoever is killed meanwhile leaves "
    "the "
    "old one. A run that is being written is refused: stop it, or wait. Notes are no part of what a run is: "
    "its "
    "id, its numbers and its pairs stay; resume and rerun keep them.",
    NULL,
    NULL,
    NULL};
  struct arguments a = {0};
  struct error e = {0};
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  int status = check_text(a.text, &e);
  if (!status)
    status = a.accept ? note_accept(a.path, a.text, &e)
             : a.text ? note_put(a.path, a.text, &e)
                      : print(a.path, &e);
  return *e.text ? report_error(&e) : status;
}

const struct command command_note = {
  .name = "note", .arguments = "RUN.h5 [TEXT]", .help = "remarks kept in a run file", .run = note};
