#include "zoo/log_yaml.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>
#include "base/file.h"

typedef int each_value(void *, const char *key, const char *value);

/* Anchors may go in circles, and ten lines of them may stand for more than any memory holds. */
enum { MOST_DEPTH = 32, MOST_NODES = 10000 };
struct yaml_walk {
  yaml_document_t *document;
  each_value *each;
  void *context;
  int nodes, too_many;
};

static int walk(struct yaml_walk *w, int node, const char *before, int depth)
{
  const yaml_node_t *n = yaml_document_get_node(w->document, node);
  char key[256];
  int stop = 0;
  if (!n) return 0;
  if (depth > MOST_DEPTH || ++w->nodes > MOST_NODES) return w->too_many = 1;
  if (n->type == YAML_SCALAR_NODE) return w->each(w->context, before, (const char *)n->data.scalar.value);
  if (n->type == YAML_MAPPING_NODE)
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top && !stop;
         p++) {
      const yaml_node_t *name = yaml_document_get_node(w->document, p->key);
      if (!name || name->type != YAML_SCALAR_NODE) continue;
      snprintf(key, sizeof key, "%s%s%s", before, *before ? "." : "", (const char *)name->data.scalar.value);
      stop = walk(w, p->value, key, depth + 1);
    }
  if (n->type == YAML_SEQUENCE_NODE) {
    int i = 0;
    for (const yaml_node_item_t *p = n->data.sequence.items.start; p < n->data.sequence.items.top && !stop;
         p++) {
      snprintf(key, sizeof key, "%s%s%d", before, *before ? "." : "", i++);
      stop = walk(w, *p, key, depth + 1);
    }
  }
  return stop;
}

int log_yaml(const char *path, each_value *each, void *context, struct error *e)
{
  yaml_parser_t parser;
  yaml_document_t document;
  int fd = file_open(path, e);
  if (fd < 0) return STATUS_USAGE;
  FILE *f = fdopen(fd, "r");
  int status = STATUS_OK;
  yaml_parser_initialize(&parser);
  yaml_parser_set_input_file(&parser, f);
  if (!yaml_parser_load(&parser, &document))
    status = error_set(e, STATUS_USAGE, "%s:%zu: %s", path, parser.problem_mark.line + 1,
                       parser.problem ? parser.problem : "no YAML");
  else {
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    if (!root || root->type != YAML_MAPPING_NODE)
      status = error_set(e, STATUS_USAGE, "%s: no keys with values", path);
    else {
      struct yaml_walk w = {&document, each, context, 0, 0};
      status = walk(&w, 1, "", 0);
      if (w.too_many)
        status = error_set(e, STATUS_USAGE, "%s: values deeper than %d, or more than %d", path, MOST_DEPTH,
                           MOST_NODES);
    }
    yaml_document_delete(&document);
  }
  yaml_parser_delete(&parser);
  fclose(f);
  return status;
}
