/* http.c - fuzz target: what is sent to `maxlogit serve`
   "TOKEN" in the input becomes the server's. No answer but to a request with the token may have the file's text. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "app/http.h"
#include "base/memory.h"
#include "base/text.h"
#include "fuzz.h"

enum { WITHOUT_TOKEN = 1, WITH_TOKEN = 2 };
unsigned fuzz_untaken = WITHOUT_TOKEN | WITH_TOKEN;

static const char secret[] = "the content of a file";

static int give(void *context, const char *name, const char *runs, const char *steps, char **text,
                size_t *length, const char **type, struct error *e)
{
  (void)context;
  REQUIRE(name);
  if (strlen(name) > 64) return error_set(e, STATUS_USAGE, "no such file");
  struct buffer b = {0};
  buffer_add(&b, "%s %s %s", secret, runs ? runs : "", steps ? steps : "");
  *text = b.text, *length = b.length, *type = "text/plain; charset=utf-8";
  return STATUS_OK;
}

static int connect_to(int port)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct timeval patience = {.tv_sec = 10};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(fd >= 0);
  if (connect(fd, (struct sockaddr *)&at,
              sizeof at)) { /* all ports of this machine wait for their time to end */
    close(fd);
    sleep(1);
    return -1;
  }
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct http *server;
  static int port;
  struct error e = {0};
  struct buffer request = {0};
  char answer[4096];
  size_t got = 0;
  if (!server) REQUIRE(!http_start(&server, "127.0.0.1", &port, give, NULL, &e));
  int has_token = memmem(data, size, "TOKEN", 5) != NULL;
  for (size_t i = 0; i < size; i++)
    if (size - i >= 5 && !memcmp(data + i, "TOKEN", 5)) {
      buffer_add(&request, "%s", http_token(server));
      i += 4;
    } else
      buffer_add(&request, "%c", data[i]);
  int fd = connect_to(port);
  if (fd < 0) {
    memory_free(request.text);
    return 0;
  }
  if (request.length && send(fd, request.text, request.length, MSG_NOSIGNAL) > 0) shutdown(fd, SHUT_WR);
  for (ssize_t n; got < sizeof answer && (n = recv(fd, answer + got, sizeof answer - got, 0)) > 0;)
    got += (size_t)n;
  close(fd);
  memory_free(request.text);
  if (got)
    fuzz_untaken &= ~(unsigned)(memmem(answer, got, secret, sizeof secret - 1) ? WITH_TOKEN : WITHOUT_TOKEN);
  REQUIRE(has_token || !memmem(answer, got, secret, sizeof secret - 1));
  return 0;
}
