/* maxlogit note: remarks in a run file, and acceptance of one that another program has changed */
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/summary.h"
#include "base/file.h"
#include "storage/notes.h"

struct options {
  struct request request;
  long accept_edit;
};

static const struct command_option options[] = {
  FLAG(accept_edit, 0,
       "Take a run file that another program has changed as it is now: what is in it is read, it gets a new "
       "checksum, and an event and a note keep that it was edited (TEXT says why)"),
  NO_OPTION,
};

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
  if (text && !*text) return error_set(e, STATUS_USAGE, "an empty text is not a note");
  if (text && strlen(text) > NOTE_BYTES)
    return error_set(e, STATUS_USAGE, "a note of %zu bytes; at most %d", strlen(text), NOTE_BYTES);
  return STATUS_OK;
}

static int note(void *request, struct error *e)
{
  const struct options *r = request;
  const struct words *words = &r->request.words;
  char resolved[4096];
  const char *path = file_resolve(words->word[0], resolved), *text = words->count > 1 ? words->word[1] : NULL;
  if (check_text(text, e)) return e->status;
  return r->accept_edit ? note_accept(path, text, e) : text ? note_put(path, text, e) : print(path, e);
}

const struct command command_note = {
  .name = "note",
  .arguments = "RUN.h5 [TEXT]",
  .help = "add or print remarks of a run file",
  .about = "Keep a remark in a run file, with the date; without TEXT, print those that it has.",
  .more = "The file is written anew under its checksum, and replaced at once: whoever is killed meanwhile "
          "leaves the "
          "old one. A run that is being written is refused: stop it, or wait. Notes are not part of what a "
          "run is: its "
          "id, its numbers and its pairs stay; resume and rerun keep them.\n\n"
          "maxlogit note a.h5 'the first run with a clip'\nmaxlogit note a.h5",
  OPTIONS,
  .wanted = "which run?",
  .most = 2,
  .once = "one text: put it in quotes",
  .run = note,
};
