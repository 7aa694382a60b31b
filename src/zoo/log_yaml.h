/* log_yaml.h - YAML by libyaml, where ./configure has found it */
#ifndef MAXLOGIT_ZOO_LOG_YAML_H
#define MAXLOGIT_ZOO_LOG_YAML_H
#include "base/error.h"

int log_yaml(const char *path, int (*each)(void *, const char *key, const char *value), void *,
             struct error *);
#endif
