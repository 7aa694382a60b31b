/* log_tensorboard.c - event files, read by Python's tensorboard, whose own they are */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "zoo/log.h"

/* A JSON object a value. All of them: size_guidance 0. Tensors are how newer writers tell scalars. */
static const char script[] =
  "import json, sys\n"
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
  int ends[2], how = 0;
  if (!python || !*python) python = "python3";
  if (pipe(ends)) return error_set(e, STATUS_FAIL, "no pipe: %s", strerror(errno));
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]), close(ends[1]);
    execlp(python, python, "-c", script, path, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  FILE *f = fdopen(ends[0], "r");
  struct error problem = {0};
  int status = child < 0 || !f ? error_set(&problem, STATUS_FAIL, "%s cannot be started", python)
                               : log_jsonl(l, f, path, &problem);
  if (f) fclose(f);
  if (child > 0) waitpid(child, &how, 0);
  if (WIFEXITED(how) && (WEXITSTATUS(how) == 77 || WEXITSTATUS(how) == 127))
    return error_set(
      e, STATUS_USAGE,
      "%s: event files of TensorBoard are read by Python's package tensorboard, which %s does not have "
      "(pip install tensorboard; PYTHON names another Python)",
      path, python);
  if (how) return error_set(e, STATUS_USAGE, "%s: no event file that tensorboard can read", path);
  if (status) return error_set(e, status, "%s", problem.text);
  return STATUS_OK;
}
