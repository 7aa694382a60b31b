/* http.h - a small read-only server of files that are made when they are asked for: by libmicrohttpd, where ./configure
   has found it */
#ifndef MAXLOGIT_APP_HTTP_H
#define MAXLOGIT_APP_HTTP_H
#include <stddef.h>
#include "base/error.h"

enum { HTTP_TOKEN = 33 };
/* The file `name` ("": the first); the values of ?runs= and &steps=, or NULL. Text for memory_free. Called on one
   thread at a time. STATUS_USAGE: there is none. */
typedef int http_file(void *context, const char *name, const char *runs, const char *steps, char **text,
                      size_t *length, const char **type, struct error *);

struct http;
/* Listens on an IPv4 address; *port: 0 for any that is free, and then which it is. Only paths that begin with the token
   get an answer. STATUS_USAGE: no such address, or this build has no server. */
int http_start(struct http **, const char *address, int *port, http_file *, void *context, struct error *);
const char *http_token(const struct http *);
/* To be called some times a second: ends connections that do not get on with asking. */
void http_tend(struct http *);
void http_stop(struct http *);
const char *http_version(void); /* of the library; NULL: there is none */
#endif
