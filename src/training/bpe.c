/* bpe.c - byte-pair encoding in time and memory that follow the bytes of the distinct words, not the merges
   Each byte of the distinct words is a place. A symbol is written at its first and at its last place, so that both of
   its neighbors find it. The places where a pair begins form a list in the order of the words, and a merge visits only
   those. The count of a pair never grows after the merge that made its newer symbol. A count in the heap is therefore
   never too small, and it is corrected when it arrives at the top. */
#include "training/bpe.h"
#include "base/memory.h"

#define NONE SIZE_MAX

struct bpe_place {
  int symbol;                  /* -1 between words */
  size_t count;                /* of the word */
  size_t pair, earlier, later; /* the pair that begins here; its list */
};

struct bpe_pair {
  int left, right;
  size_t count, first, last; /* in the text; places */
};

struct bpe_entry {
  size_t count, pair;
};

struct learning {
  struct bpe *bpe;
  struct bpe_place *place;
  struct bpe_pair *pair;
  struct bpe_entry *heap;
  size_t
    *recent; /* [2 * BPE_MOST]: the latest pair with a symbol on its left or right, and the newest symbol */
  size_t pairs, heaped, room;
};

/* --- the most frequent pair --------------------------------------------------------------------------- */
static int goes_first(const struct learning *l, struct bpe_entry a, struct bpe_entry b)
{
  const struct bpe_pair *x = &l->pair[a.pair], *y = &l->pair[b.pair];
  if (a.count != b.count) return a.count > b.count;
  return x->left != y->left ? x->left < y->left : x->right < y->right;
}

static void heap_swap(struct bpe_entry *a, struct bpe_entry *b)
{
  const struct bpe_entry old = *a;
  *a = *b, *b = old;
}

static void heap_push(struct learning *l, size_t pair)
{
  size_t at = l->heaped++;
  l->heap[at] = (struct bpe_entry){l->pair[pair].count, pair};
  for (; at && goes_first(l, l->heap[at], l->heap[(at - 1) / 2]); at = (at - 1) / 2)
    heap_swap(&l->heap[at], &l->heap[(at - 1) / 2]);
}

static void heap_sink(struct learning *l)
{
  for (size_t at = 0, child; (child = 2 * at + 1) < l->heaped; at = child) {
    if (child + 1 < l->heaped && goes_first(l, l->heap[child + 1], l->heap[child])) child++;
    if (!goes_first(l, l->heap[child], l->heap[at])) return;
    heap_swap(&l->heap[child], &l->heap[at]);
  }
}

/* NULL if no pair occurs twice. */
static const struct bpe_pair *most_frequent(struct learning *l)
{
  while (l->heaped && l->heap[0].count != l->pair[l->heap[0].pair].count) {
    l->heap[0].count = l->pair[l->heap[0].pair].count;
    heap_sink(l);
  }
  return l->heaped && l->heap[0].count > 1 ? &l->pair[l->heap[0].pair] : NULL;
}

/* --- places of a pair --------------------------------------------------------------------------------- */
/* A pair of bytes, or one of the newest symbol: only those are added to. */
static size_t find_pair(struct learning *l, int left, int right)
{
  const int newest = (int)l->bpe->vocab - 1;
  size_t *found = &l->recent[newest < BPE_BYTES ? left * BPE_BYTES + right
                             : right == newest  ? left
                                                : BPE_MOST + right];
  if (*found < l->pairs && l->pair[*found].left == left && l->pair[*found].right == right) return *found;
  if (l->pairs == l->room) {
    l->pair = memory_grow(l->pair, l->room, 2 * l->room, sizeof *l->pair);
    l->heap = memory_grow(l->heap, l->room, 2 * l->room, sizeof *l->heap);
    l->room *= 2;
  }
  l->pair[l->pairs] = (struct bpe_pair){left, right, 0, NONE, NONE};
  return *found = l->pairs++;
}

static void add_place(struct learning *l, size_t at, int left, int right)
{
  struct bpe_place *x = &l->place[at];
  x->pair = find_pair(l, left, right);
  struct bpe_pair *p = &l->pair[x->pair];
  x->earlier = p->last, x->later = NONE;
  *(p->last == NONE ? &p->first : &l->place[p->last].later) = at;
  p->last = at, p->count += x->count;
}

static void remove_place(struct learning *l, size_t at)
{
  const struct bpe_place *x = &l->place[at];
  struct bpe_pair *p = &l->pair[x->pair];
  *(x->earlier == NONE ? &p->first : &l->place[x->earlier].later) = x->later;
  *(x->later == NONE ? &p->last : &l->place[x->later].earlier) = x->earlier;
  p->count -= x->count;
}

/* --- learning ----------------------------------------------------------------------------------------- */
static void start(struct learning *l, struct piece *const *word, size_t words)
{
  size_t n = 1;
  for (size_t w = 0; w < words; w++) n += word[w]->length + 1;
  l->place = memory_new(n, sizeof *l->place);
  l->place[0].symbol = -1;
  for (size_t w = 0, at = 1; w < words; w++, l->place[at++].symbol = -1)
    for (size_t i = 0; i < word[w]->length; i++, at++) {
      l->place[at].symbol = word[w]->text[i];
      l->place[at].count = word[w]->count;
      if (i) add_place(l, at - 1, word[w]->text[i - 1], word[w]->text[i]);
    }
}

static void merge(struct learning *l, size_t pair, struct merge of)
{
  const size_t *length = l->bpe->length;
  const int made = (int)l->bpe->vocab - 1;
  for (size_t at; (at = l->pair[pair].first) != NONE;) {
    const size_t middle = at + length[of.left], end = middle + length[of.right];
    const int before = l->place[at - 1].symbol, after = l->place[end].symbol;
    remove_place(l, at);
    if (before >= 0) remove_place(l, at - length[before]);
    if (after >= 0) remove_place(l, middle);
    l->place[at].symbol = l->place[end - 1].symbol = made;
    if (before >= 0) add_place(l, at - length[before], before, made);
    if (after >= 0) add_place(l, at, made, after);
  }
}

static void write_symbols(struct learning *l, struct piece *const *word, size_t words)
{
  struct bpe *b = l->bpe;
  size_t n = 0, at = 1;
  for (size_t w = 0; w < words; w++) n += word[w]->length;
  b->symbol = memory_new(n, sizeof *b->symbol);
  b->first = memory_new(words + 1, sizeof *b->first);
  for (size_t w = n = 0; w < words; w++, at++) {
    for (; l->place[at].symbol >= 0; at += b->length[l->place[at].symbol])
      b->symbol[n++] = (uint16_t)l->place[at].symbol;
    b->first[w + 1] = n;
  }
}

struct bpe bpe_learn(struct piece *const *word, size_t words, long most)
{
  struct bpe bpe = {.vocab = BPE_BYTES};
  struct learning l = {.bpe = &bpe, .room = BPE_MOST};
  bpe.of = memory_new((size_t)most, sizeof *bpe.of);
  bpe.length = memory_new((size_t)most, sizeof *bpe.length);
  for (int b = 0; b < BPE_BYTES; b++) bpe.length[b] = 1;
  l.pair = memory_new(l.room, sizeof *l.pair);
  l.heap = memory_new(l.room, sizeof *l.heap);
  l.recent = memory_new(2 * BPE_MOST, sizeof *l.recent);
  start(&l, word, words);
  for (const struct bpe_pair *p;;) {
    while (l.heaped < l.pairs) heap_push(&l, l.heaped);
    if (bpe.vocab == most || !(p = most_frequent(&l))) break;
    const struct merge of = {p->left, p->right};
    bpe.length[bpe.vocab] = bpe.length[of.left] + bpe.length[of.right];
    bpe.of[bpe.vocab++] = of;
    merge(&l, l.heap[0].pair, of);
  }
  write_symbols(&l, word, words);
  memory_free(l.place), memory_free(l.pair), memory_free(l.heap), memory_free(l.recent);
  return bpe;
}

void bpe_free(struct bpe *b)
{
  memory_free(b->of), memory_free(b->length), memory_free(b->symbol), memory_free(b->first);
}
