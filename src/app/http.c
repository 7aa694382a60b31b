#include "app/http.h"
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/text.h"

enum { CONNECTIONS = 512, CROWD = 48, REQUEST_BYTES = 16384, SILENCE = 5, PATIENCE = 8 }; /* seconds */

struct guest {   /* a connection */
  int fd, asked; /* asked: its request is there, and being answered */
  int known;     /* it has shown the token */
  double since;
};
struct http {
  struct MHD_Daemon *daemon;
  http_file *file;
  void *context;
  char token[HTTP_TOKEN];
  pthread_mutex_t mutex;
  struct guest *guest[CONNECTIONS];
};

const char *http_version(void) { return MHD_get_version(); }
const char *http_token(const struct http *h) { return h->token; }

/* --- connections ---------------------------------------------------------------------------------------- */

/* Above CROWD connections the oldest one without the token is closed: silent connections cannot lock the owner out. */
static void make_place(struct http *h)
{
  const struct guest *oldest = NULL;
  int guests = 0;
  for (int i = 0; i < CONNECTIONS; i++) {
    const struct guest *g = h->guest[i];
    guests += g != NULL;
    if (g && !g->asked && !g->known && (!oldest || g->since < oldest->since)) oldest = g;
  }
  if (oldest && guests > CROWD) shutdown(oldest->fd, SHUT_RDWR);
}

static void on_connection(void *context, struct MHD_Connection *c, void **guest,
                          enum MHD_ConnectionNotificationCode what)
{
  struct http *h = context;
  struct guest *g = *guest;
  pthread_mutex_lock(&h->mutex);
  if (what == MHD_CONNECTION_NOTIFY_STARTED) make_place(h);
  for (int i = 0; i < CONNECTIONS; i++) {
    if (what == MHD_CONNECTION_NOTIFY_STARTED ? h->guest[i] != NULL : h->guest[i] != g) continue;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
      g = memory_new(1, sizeof *g);
      g->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
      g->since = clock_seconds();
      *guest = h->guest[i] = g;
    } else {
      h->guest[i] = NULL;
      memory_free(g);
    }
    break;
  }
  pthread_mutex_unlock(&h->mutex);
}

static void mark(struct http *h, struct MHD_Connection *c, int asked, int known)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  struct guest *g = info ? info->socket_context : NULL;
  pthread_mutex_lock(&h->mutex);
  if (g) g->asked = asked, g->known |= known, g->since = clock_seconds();
  pthread_mutex_unlock(&h->mutex);
}

static void on_completed(void *context, struct MHD_Connection *c, void **request,
                         enum MHD_RequestTerminationCode how)
{
  (void)request, (void)how;
  mark(context, c, 0, 0);
}

/* The library ends connections that are silent; one that sends a byte now and then is not. */
void http_tend(struct http *h)
{
  double now = clock_seconds();
  pthread_mutex_lock(&h->mutex);
  for (int i = 0; i < CONNECTIONS; i++) {
    const struct guest *g = h->guest[i];
    if (g && !g->asked && now - g->since > PATIENCE) shutdown(g->fd, SHUT_RDWR);
  }
  pthread_mutex_unlock(&h->mutex);
}

/* --- answers -------------------------------------------------------------------------------------------- */

/* play.html has a policy of its own, with hashes of the scripts inside it. */
static const char *policy_of(const char *name)
{
  return !strcmp(name, "play.html")
           ? "frame-ancestors 'none'"
           : "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; "
             "form-action 'none'; frame-ancestors 'none'";
}

static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *text, size_t length,
                              const char *type, const char *policy)
{
  const char *const headers[][2] = {
    {"Cache-Control", "no-store"},       {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},  {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Content-Security-Policy", policy},
  };
  struct MHD_Response *r =
    MHD_create_response_from_buffer(length, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
  if (!r) return MHD_NO;
  MHD_add_response_header(r, "Content-Type", type);
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
    MHD_add_response_header(r, headers[i][0], headers[i][1]);
  if (code == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(r, "Allow", "GET, HEAD");
  enum MHD_Result result = MHD_queue_response(c, code, r);
  MHD_destroy_response(r);
  return result;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned code, const char *text)
{
  return answer(c, code, text, strlen(text), "text/plain; charset=utf-8", policy_of(""));
}

/* Names are taken as they are sent: none needs a %, and nothing is found by another spelling. */
static size_t as_it_is(void *context, struct MHD_Connection *c, char *text)
{
  (void)context, (void)c;
  return strlen(text);
}

/* The part of the URL after the token; NULL: a wrong token. Takes the same time for every wrong token. */
static const char *behind_token(const struct http *h, const char *url)
{
  size_t length = strlen(h->token);
  unsigned char differ = 0;
  if (strlen(url) < length + 2) return NULL;
  for (size_t i = 0; i < length; i++) differ |= (unsigned char)(url[1 + i] ^ h->token[i]);
  return differ || *url != '/' || url[1 + length] != '/' ? NULL : url + length + 2;
}

/* Is the Host a numeric address, localhost or this machine's name? A page of another name that leads here is not. */
static int is_our_host(struct MHD_Connection *c)
{
  const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
  char name[256], own[256] = "";
  struct in_addr address;
  if (!host) return 1; /* HTTP 1.0, which no browser speaks */
  size_t length = strcspn(host, ":");
  const char *port = host + length + (host[length] == ':');
  if (port[strspn(port, "0123456789")]) return 0;
  snprintf(name, sizeof name, "%.*s", (int)length, host);
  gethostname(own, sizeof own - 1);
  return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, &address) == 1 ||
         (*own && !strcasecmp(name, own));
}

static int has_body(struct MHD_Connection *c)
{
  return MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
         MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

/* The library calls this twice per request, and closes the connection if the first call answers. So only a request
   without a body, with the token, leaves the connection open for the next one. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
  struct http *h = context;
  struct error error = {0};
  char *text = NULL;
  const char *type = NULL;
  size_t length = 0;
  (void)version, (void)upload, (void)upload_size;
  const char *name = is_our_host(c) ? behind_token(h, url) : NULL;
  mark(h, c, 1, name != NULL);
  if (!name) return refuse(c, MHD_HTTP_FORBIDDEN, "maxlogit serve: open the address that it has printed\n");
  if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
    return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "read only\n");
  if (!*state && !has_body(c)) {
    *state = h;
    return MHD_YES;
  }
  const char *runs = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "runs");
  const char *steps = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "steps");
  int status = h->file(h->context, name, runs, steps, &text, &length, &type, &error);
  enum MHD_Result result = status == STATUS_USAGE ? refuse(c, MHD_HTTP_NOT_FOUND, "no such file\n")
                           : status               ? refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, error.text)
                                    : answer(c, MHD_HTTP_OK, text, length, type, policy_of(name));
  memory_free(text);
  return result;
}

/* --- beginning and end ---------------------------------------------------------------------------------- */

static int make_token(char token[HTTP_TOKEN], struct error *e)
{
  unsigned char bytes[(HTTP_TOKEN - 1) / 2];
  if (platform_random(bytes, sizeof bytes))
    return error_set(e, STATUS_FAIL, "no random numbers for a token: %s", strerror(errno));
  for (size_t i = 0; i < sizeof bytes; i++) {
    token[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
    token[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
  }
  token[HTTP_TOKEN - 1] = 0;
  return STATUS_OK;
}

int http_start(struct http **out, const char *address, int *port, http_file *file, void *context,
               struct error *e)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
  if (inet_pton(AF_INET, address, &at.sin_addr) != 1)
    return error_set(e, STATUS_USAGE, "%s: no IPv4 address, as 127.0.0.1 is one", address);
  struct http *h = memory_new(1, sizeof *h);
  h->file = file, h->context = context;
  pthread_mutex_init(&h->mutex, NULL);
  int status = make_token(h->token, e);
  if (!status)
    h->daemon = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD, (uint16_t)*port, NULL, NULL, on_request, h, MHD_OPTION_SOCK_ADDR, &at,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
      h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_UNESCAPE_CALLBACK, as_it_is, NULL,
      MHD_OPTION_END);
  if (!status && !h->daemon)
    status = error_set(e, STATUS_FAIL, "cannot listen on %s port %d: %s", address, *port, strerror(errno));
  if (status) {
    memory_free(h);
    return status;
  }
  *port = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
  *out = h;
  return STATUS_OK;
}

void http_stop(struct http *h)
{
  MHD_stop_daemon(h->daemon);
  pthread_mutex_destroy(&h->mutex);
  memory_free(h);
}
