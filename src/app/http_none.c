/* http_none.c - in the place of http.c where there is no libmicrohttpd */
#include "app/http.h"

int http_start(struct http **out, const char *address, int *port, http_file *file, void *context,
               struct error *e)
{
  (void)out, (void)address, (void)port, (void)file, (void)context;
  return error_set(e, STATUS_USAGE,
                   "this build has no server: ./configure has not found libmicrohttpd (package "
                   "libmicrohttpd-dev); maxlogit report writes the same page into a folder");
}

const char *http_token(const struct http *h) { return (const char *)h; }
void http_tend(struct http *h) { (void)h; }
void http_stop(struct http *h) { (void)h; }
const char *http_version(void) { return 0; }
