/* import.c - starts the importer of the Python package: logs of other programs as a run file */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "analysis/share.h"
#include "app/command.h"
#include "base/apart.h"
#include "base/file.h"
#include "base/memory.h"

struct options {
  struct request request;
  const char *output, *step, *form, *decimal, *data;
  struct words map, tag, set, config, unit;
  long dry_run, keep_later, overwrite;
};

static const struct command_option options[] = {
  TEXT(
    output, 'o', "PATH", NULL,
    "The run file, or a folder for several runs (default: the first FILE's name with .h5, in this folder)"),
  FLAG(dry_run, 'n',
       "Write nothing: show the steps, the series with their columns, and the map from columns to series"),
  MANY(map, "RULES",
       "'SERIES=NAME,SERIES[l,h]=PATTERN': which columns a series is made of; in a pattern {l}, {h}, {e} are "
       "the numbers "
       "of layer, head and expert; SERIES -: left out. Columns without a rule are matched by name"),
  TEXT(step, 0, "NAME", NULL, "The column of the steps (default: step, iteration, global_step and the like)"),
  MANY(tag, "FILE=NAME", "A prefix for the names of this file's series"),
  FLAG(keep_later, 0, "Keep rows that a run left behind when it went back to an earlier step"),
  MANY(set, "KEY=VALUE", "A value of the configuration, as optimizer=muon, train.lr=0.01, train.seed=3"),
  MANY(config, "FILE",
       "The configuration: a YAML or JSON file; keys inside of others become a.b. --set overrides"),
  MANY(unit, "SERIES=UNIT", "A unit; losses, logits and attention entropies have nat"),
  TEXT(form, 0, "FORMAT", "guess", "The format of the files, by its name in the manual"),
  TEXT(decimal, 0, "SIGN", NULL,
       "The decimal sign of tables, . or , (default: ., but 2,345 is refused unless commas separate the "
       "columns)"),
  TEXT(data, 0, "TEXT", NULL, "What it was trained on, for people (default: the files' names)"),
  FLAG(overwrite, 0, "Replace a run file that is there"),
  NO_OPTION,
};

/* Python is started without the current folder in its path. Folders of PYTHONPATH and of the user come last. */
static const char start[] =
  "import os, site, sys\n"
  "code, folder = sys.argv.pop(1), sys.argv.pop(1)\n"
  "sys.path[:0] = [folder] if folder else []\n"
  "more = os.environ.get('PYTHONPATH', '').split(':') + [site.getusersitepackages()]\n"
  "sys.path += [p for p in more if p.startswith('/')]\n"
  "def refuse(text): sys.exit(print('maxlogit: import needs ' + text, file=sys.stderr) or 2)\n"
  "if sys.version_info < (3, 9): refuse('Python 3.9 or later: PYTHON names another than ' + sys.executable)\n"
  "try: import numpy\n"
  "except ImportError:\n"
  "  system = '/usr/bin/python3'\n" /* the distribution's, where another one comes before it */
  "  if not os.environ.get('PYTHON') and os.access(system, os.X_OK) and sys.executable != system:\n"
  "    os.execv(system, [system, '-I', '-B', '-c', code, code, folder] + sys.argv[1:])\n"
  "  refuse(f'numpy, which {sys.executable} does not have: install python3-numpy (apt) or numpy (pip), or "
  "name "
  "another Python in PYTHON')\n"
  "try: import maxlogit.importer\n"
  "except ImportError as problem: refuse(f'the Python package maxlogit ({problem}): `make install` puts it "
  "beside the program, `pip install ./python` in the sources into Python')\n"
  "sys.exit(maxlogit.importer.main(sys.argv[1:]))\n";

struct line { /* of the command; it ends with NULL */
  const char **word;
  size_t count;
};

static void add(struct line *l, const char *word)
{
  l->word = memory_grow(l->word, l->count, l->count + 2, sizeof *l->word);
  l->word[l->count++] = word;
}

static void add_option(struct line *l, struct buffer *text, const struct command_option *o, const char *value)
{
  char name[OPTION_NAME];
  command_option_name(o, name);
  memset(text, 0, sizeof *text);
  buffer_add(text, value ? "--%s=%s" : "--%s", name, value);
  add(l, text->text);
}

/* The options that were given, as one line again. */
static void add_options(struct line *l, struct options *r)
{
  struct buffer text;
  for (const struct command_option *o = options; o->row.name; o++) {
    char *field = (char *)r + o->row.offset;
    const struct words *w = (const void *)field;
    if (o->row.type == OPTION_BOOL) {
      if (*(long *)(void *)field) add_option(l, &text, o, NULL);
    } else if (o->row.flags & OPTION_MANY)
      for (int i = 0; i < w->count; i++) add_option(l, &text, o, w->word[i]);
    else if (*(const char **)(void *)field)
      add_option(l, &text, o, *(const char **)(void *)field);
  }
  add(l, "--");
  for (int i = 0; i < r->request.words.count; i++) add(l, r->request.words.word[i]);
}

/* The library of this program: beside it as built, or as installed. NULL: the package looks for one. */
static const char *find_library(char out[4200])
{
  char path[4096];
  if (!file_beside_program(path, "libmaxlogit.so.1") &&
      !file_beside_program(path, "../" LIB "/libmaxlogit.so.1")) {
    snprintf(path, sizeof path, "%s", PKGLIBDIR "/../libmaxlogit.so.1");
    if (access(path, R_OK)) return NULL;
  }
  snprintf(out, 4200, "MAXLOGIT_LIBRARY=%s", path);
  return out;
}

static int import(void *request, struct error *e)
{
  char library[4200], folder[4096];
  struct line l = {0};
  struct error none = {0};
  const char *python = getenv("PYTHON");
  if (!python || !*python) python = "python3";
  if (!getenv("MAXLOGIT_LIBRARY") && find_library(library)) add(&l, library);
  if (share_folder("python", "the Python package", "MAXLOGIT_PYTHON", folder, &none)) *folder = 0;
  const char *const words[] = {python, "-I", "-B", "-c", start, start, folder};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) add(&l, words[i]);
  add_options(&l, request);
  program_become(l.word);
  return error_set(
    e, STATUS_USAGE,
    "import needs Python, and %s cannot be started: install python3 and python3-numpy, or name another "
    "Python in PYTHON",
    python);
}

const struct command command_import = {
  .name = "import",
  .arguments = "FILE ...",
  .help = "convert logs of other programs into a run file",
  .about = "Make a run file of logs: tables, JSON, printed lines, event files and folders of trackers and "
           "trainers; the manual "
           "lists the formats. FILE - is standard input. It needs Python with numpy. "
           "Several FILEs are one run. Layers and heads are found in the names of columns. The command "
           "prints the series that "
           "it found; "
           "then show, export, plot, compare, report and serve take the run as any other.",
  .more =
    "maxlogit import metrics.jsonl -o runs/a.h5 --set optimizer=muon --set train.seed=1\n"
    "maxlogit import train.log --dry-run\n"
    "maxlogit import wandb.csv --map 'loss=train/loss,attn/max_logit[l,h]=model.layers.{l}.attn.{h}.max'",
  OPTIONS,
  .wanted = "which logs?",
  .most = MANY_WORDS,
  .run = import,
};
