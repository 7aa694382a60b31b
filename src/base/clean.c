/* clean.c - cleans texts from outside for terminals, tables and pages; also part of the GPU plug-in */
#include <string.h>
#include "base/text.h"

/* The bytes of the UTF-8 character that begins here (RFC 3629); 0 if it is not UTF-8, -1 if `end` cuts it off. */
static int letter_length(const unsigned char *at, const unsigned char *end)
{
  int length = *at < 0x80 ? 1 : *at < 0xC2 ? 0 : *at < 0xE0 ? 2 : *at < 0xF0 ? 3 : *at < 0xF5 ? 4 : 0;
  for (int i = 1; i < length; i++) {
    int least = 0x80,
        most = 0xBF; /* of the second byte: rejects overlong forms, surrogates and too large code points */
    if (i == 1 && *at == 0xE0) least = 0xA0;
    if (i == 1 && *at == 0xF0) least = 0x90;
    if (i == 1 && *at == 0xED) most = 0x9F;
    if (i == 1 && *at == 0xF4) most = 0x8F;
    if (at + i == end) return -1;
    if (at[i] < least || at[i] > most) return 0;
  }
  return length;
}

/* Is this a character that a terminal or browser may execute: a line end, cursor control, or a change of direction? */
static int is_control(const unsigned char *letter, int length)
{
  const unsigned char *u = letter;
  if (length == 1) return *u < 0x20 || *u == 0x7F;
  if (length == 2) return (*u == 0xC2 && u[1] < 0xA0) || (*u == 0xD8 && u[1] == 0x9C); /* C1; U+061C */
  if (length == 3 && *u == 0xEF) return u[1] == 0xBF && u[2] >= 0xBE; /* U+FFFE and F: not XML characters */
  if (length != 3 || *u != 0xE2) return 0;
  if (u[1] == 0x80)
    return u[2] == 0x8E || u[2] == 0x8F || (u[2] >= 0xA8 && u[2] <= 0xAE); /* U+200E, F; U+2028 to E */
  return u[1] == 0x81 && u[2] >= 0xA6 && u[2] <= 0xA9;                     /* U+2066 to 9 */
}

size_t text_clean(char *text, size_t room, const char *keep)
{
  if (!room) return 0;
  unsigned char *out = (unsigned char *)text;
  const unsigned char *from = out, *end = out + strnlen(text, room - 1);
  while (from < end) {
    int length = letter_length(from, end);
    if (length < 0) break; /* the text was cut within its last character */
    if (!length || (is_control(from, length) && !strchr(keep, *from))) {
      *out++ = '?';
      from += length ? length : 1;
    } else
      for (int i = 0; i < length; i++) *out++ = *from++;
  }
  *out = 0;
  return (size_t)((char *)out - text);
}

size_t text_fill(char *out, size_t room, const char *text)
{
  if (!room) return 0;
  size_t length = text ? strnlen(text, room - 1) : 0;
  if (length) memmove(out, text, length);
  out[length] = 0;
  return text_clean(out, room, "");
}
