#include "zoo/log_yaml.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

typedef int each_value(void *, const char *key, const char *value);

static int walk(yaml_document_t *d, int node, const char *before, int depth, each_value *each, void *context)
{
  const yaml_node_t *n = yaml_document_get_node(d, node);
  char key[256];
  int stop = 0;
  if (!n || depth > 32) return 0; /* anchors may go in circles */
  if (n->type == YAML_SCALAR_NODE) return each(context, before, (const char *)n->data.scalar.value);
  if (n->type == YAML_MAPPING_NODE)
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top && !stop;
         p++) {
      const yaml_node_t *name = yaml_document_get_node(d, p->key);
      if (!name || name->type != YAML_SCALAR_NODE) continue;
      snprintf(key, sizeof key, "%s%s%s", before, *before ? "." : "", (const char *)name->data.scalar.value);
      stop = walk(d, p->value, key, depth + 1, each, context);
    }
  if (n->type == YAML_SEQUENCE_NODE) {
    int i = 0;
    for (const yaml_node_item_t *p = n->data.sequence.items.start; p < n->data.sequence.items.top && !stop;
         p++) {
      snprintf(key, sizeof key, "%s%s%d", before, *before ? "." : "", i++);
      stop = walk(d, *p, key, depth + 1, each, context);
    }
  }
  return stop;
}

int log_yaml(const char *path, each_value *each, void *context, struct error *e)
{
  yaml_parser_t parser;
  yaml_document_t document;
  FILE *f = fopen(path, "r");
  if (!f) return error_set(e, STATUS_USAGE, "%s: %s", path, strerror(errno));
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
    else
      status = walk(&document, 1, "", 0, each, context);
    yaml_document_delete(&document);
  }
  yaml_parser_delete(&parser);
  fclose(f);
  return status;
}
