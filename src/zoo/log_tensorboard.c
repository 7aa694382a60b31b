/* log_tensorboard.c - event files, read by Python's tensorboard, whose own they are */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/apart.h"
#include "zoo/log.h"

/* A JSON object a value. All of them: size_guidance 0. Tensors are how newer writers tell scalars. */
static const char script[] =
  "import sys\n"
  "sys.path[:] = [p for p in sys.path if p.startswith('/')]\n" /* nothing of the current folder */
  "import json\n"
  "try:\n"
  "  from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
  "  from tensorboard.util.tensor_util import make_ndarray\n"
  "except ImportError: sys.exit(77)\n"
  "a = EventAccumulator(sys.argv[1], {'scalars': 0, 'tensors': 0})\n"
  "a.Reload()\n"
  "for tag in a.Tags()['scalars']:\n"
  "  for x in a.Scalars(tag): print(json.dumps({'step': x.step, tag: x.value}))\n"
  "for tag in a.Tags()['tensors']:\n"
  "  for x in a.Tensors(tag):\n"
  "    v = make_ndarray(x.tensor_proto)\n"
  "    if v.dtype.kind in 'fiu' and v.size and v.ndim < 3:\n"
  "      print(json.dumps({'step': x.step, tag: v.tolist() if v.ndim else float(v)}))\n";

int log_tensorboard(struct log *l, const char *path, struct error *e)
{
  const char *python = getenv("PYTHON");
  int ends[2];
  if (!python || !*python) python = "python3";
  if (pipe(ends)) return error_set(e, STATUS_FAIL, "no pipe: %s", strerror(errno));
  pid_t child =
    program_start((const char *const[]){python, "-c", script, path, NULL}, -1, ends[1], STDERR_FILENO);
  close(ends[1]);
  FILE *f = fdopen(ends[0], "r");
  struct error problem = {0};
  int status = child < 0 || !f ? error_set(&problem, STATUS_FAIL, "%s cannot be started", python)
                               : log_jsonl(l, f, path, &problem);
  if (f) fclose(f);
  int how = program_wait(child);
  if (how == 77 || how == 127)
    return error_set(
      e, STATUS_USAGE,
      "%s: event files of TensorBoard are read by Python's package tensorboard, which %s does not have "
      "(pip install tensorboard; PYTHON names another Python)",
      path, python);
  if (how) return error_set(e, STATUS_USAGE, "%s: no event file that tensorboard can read", path);
  if (status) return error_set(e, status, "%s", problem.text);
  return STATUS_OK;
}
