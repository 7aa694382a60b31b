/* bpe.h - byte-pair encoding: symbols of several bytes, learned from the words of a text (arXiv 1508.07909) */
#ifndef MAXLOGIT_TRAINING_BPE_H
#define MAXLOGIT_TRAINING_BPE_H
#include <stddef.h>
#include <stdint.h>

enum { BPE_BYTES = 256, BPE_MOST = 65536 };

/* A word of a text with the space before it, or one other byte. */
struct piece {
  const unsigned char *text;
  size_t length, place; /* in the text, in pieces */
  size_t count;         /* of equal pieces; only in the first of them */
};

struct bpe {
  long vocab; /* symbols 0 to 255 are the bytes */
  struct merge {
    int left, right;
  } * of;           /* [vocab]: the two symbols that make one, from 256 */
  size_t *length;   /* [vocab]: bytes of a symbol */
  uint16_t *symbol; /* of all words, one after another */
  size_t *first;    /* [words + 1]: where the symbols of a word begin */
};

/* Merges the most frequent pair of neighbors within words until there are `most` symbols, or no pair occurs twice.
   Of equally frequent pairs the one with the smaller left symbol is merged, then the one with the smaller right symbol.
   The caller frees the encoding. */
struct bpe bpe_learn(struct piece *const *word, size_t words, long most);
void bpe_free(struct bpe *);
#endif
