/* maxima.c - the largest and smallest products of a head's queries and keys
   Keys lie packed, a block of them at a time, in panels of NR. A tile of MR x NR sums lives in registers, and only
   its largest and smallest leave it. The mask is evaluated at the edges alone. The largest numbers are known after
   packing, so no product can be NaN or infinite. */
#include "numerics/cpu/cpu.h"
#include "numerics/maxima_kernels.h"

/* Rows as float32, [rows, size]; *most grows to the bits of the largest |number|, which are in order, NaN above all. */
static void copy_rows(const struct maxima_head *x, const void *from, long row, long first, long rows,
                      float *to, int32_t *most)
{
  int32_t largest = *most;
  for (long i = first; i < first + rows; i++, to += x->size) {
    const float *f = (const float *)from + i * row;
    const uint16_t *h = (const uint16_t *)from + i * row;
    if (x->number == MAXIMA_FLOAT32)
      memcpy(to, f, (size_t)x->size * sizeof *to);
    else if (x->number == MAXIMA_BFLOAT16)
      for (long d = 0; d < x->size; d++) {
        uint32_t bits = (uint32_t)h[d] << 16;
        memcpy(to + d, &bits, sizeof bits);
      }
    else
      for (long d = 0; d < x->size; d++) { /* exponents are 112 apart; 31 marks infinities and NaN */
        uint32_t bits = (uint32_t)(h[d] & 0x7fff) << 13 | ((h[d] & 0x7c00) == 0x7c00 ? 0x7f800000 : 0);
        float size;
        memcpy(&size, &bits, sizeof bits);
        to[d] = (h[d] & 0x8000 ? -0x1p112f : 0x1p112f) * size;
      }
    for (long d = 0; d < x->size; d++) {
      int32_t bits;
      memcpy(&bits, to + d, sizeof bits);
      bits &= 0x7fffffff;
      largest = bits > largest ? bits : largest;
    }
  }
  *most = largest;
}

struct strip {
  const float *q; /* [MR, size] */
  long first[MR], end[MR];
  vec largest, smallest;
};

/* Of columns below `to` and from `from` on; lanes are columns. */
INLINE vec between(vec column, float from, float to, vec x, vec other)
{
  return where_above(ALL(to), column, where_above(ALL(from), column, other, x), other);
}

/* MR x NR products with a panel, keys j on; edge: some pairs of the tile are masked. */
INLINE void tile(struct strip *s, const float *panel, long size, long j, int edge)
{
  const float *q = s->q;
  vec sum[MR][2] = {{{0}}};
#pragma GCC unroll 4
  for (long p = 0; p < size; p++, q++, panel += NR) {
    const vec k0 = VEC(panel), k1 = VEC(panel + LANES);
    UNROLL
    for (int r = 0; r < MR; r++) {
      const vec one = ALL(q[r * size]);
      sum[r][0] = fused(one, k0, sum[r][0]);
      sum[r][1] = fused(one, k1, sum[r][1]);
    }
  }
  vec largest[2] = {s->largest, s->largest}, smallest[2] = {s->smallest, s->smallest};
  UNROLL
  for (int r = 0; r < MR; r++) {
    UNROLL
    for (int half = 0; half < 2; half++) {
      vec most = sum[r][half], least = most;
      if (edge) { /* places within the panel, which a float holds */
        const vec column = LANE + (float)(half * LANES);
        const float from = (float)(s->first[r] > j ? min_long(s->first[r] - j, NR) : 0);
        const float to = (float)(s->end[r] > j ? min_long(s->end[r] - j, NR) : 0);
        most = between(column, from, to, most, ALL(-__builtin_inff()));
        least = between(column, from, to, least, ALL(__builtin_inff()));
      }
      largest[half] = larger(most, largest[half]);
      smallest[half] = smaller(least, smallest[half]);
    }
  }
  s->largest = larger(largest[0], largest[1]);
  s->smallest = smaller(smallest[0], smallest[1]);
}
/* Not inline: registers are for the sums. */
static __attribute__((noinline)) void tile_whole(struct strip *s, const float *panel, long size)
{
  tile(s, panel, size, 0, 0);
}
static __attribute__((noinline)) void tile_edge(struct strip *s, const float *panel, long size, long j)
{
  tile(s, panel, size, j, 1);
}

/* Keys [from, to) into panels. */
static void pack_keys(const struct maxima_head *x, long from, long to, float *panels, float *rows,
                      int32_t *most)
{
  for (long j = from; j < to; j += NR, panels += NR * x->size) {
    const long count = min_long(NR, to - j);
    copy_rows(x, x->k, x->k_row, j, count, rows, most);
    for (long half = 0; half < NR; half += LANES)
      pack_transposed(rows + half * x->size, x->size, count - half, x->size, panels + half, NR);
  }
}

int EXPORT(cpu_maxima)(const struct maxima_head *x, float *largest, float *smallest)
{
  float *panels = x->room, *rows = panels + MAXIMA_KEYS * x->size, most_q, most_k;
  int32_t bits_q = 0, bits_k = 0;
  struct strip s = {.q = rows, .largest = ALL(-__builtin_inff()), .smallest = ALL(__builtin_inff())};
  for (long from = 0; from < x->keys; from += MAXIMA_KEYS) {
    const long to = min_long(from + MAXIMA_KEYS, x->keys);
    pack_keys(x, from, to, panels, rows, &bits_k);
    for (long i = 0; i < x->queries; i += MR) {
      long any = to, all_first = from, all_end = to, end = from;
      for (long r = 0; r < MR; r++) { /* behind the last query it comes again */
        const long at = min_long(i + r, x->queries - 1);
        s.first[r] = x->first[at], s.end[r] = x->end[at];
        if (s.first[r] < s.end[r]) any = min_long(any, s.first[r]);
        if (s.first[r] < s.end[r] && s.end[r] > end) end = s.end[r];
        if (s.first[r] > all_first) all_first = s.first[r];
        all_end = min_long(all_end, s.end[r]);
      }
      end = min_long(end, to);
      if (any < from) any = from;
      if (any >= end) continue;
      const long count = min_long(MR, x->queries - i);
      copy_rows(x, x->q, x->q_row, i, count, rows, &bits_q);
      for (long r = count; r < MR; r++)
        memcpy(rows + r * x->size, rows + (count - 1) * x->size, (size_t)x->size * sizeof *rows);
      for (long j = from + (any - from) / NR * NR; j < end; j += NR) {
        const float *panel = panels + (j - from) * x->size;
        if (j >= all_first && j + NR <= all_end)
          tile_whole(&s, panel, x->size);
        else
          tile_edge(&s, panel, x->size, j);
      }
    }
  }
  memcpy(&most_q, &bits_q, sizeof bits_q), memcpy(&most_k, &bits_k, sizeof bits_k);
  /* no sum of so many products can leave the range */
  if (!((double)x->size * (double)most_q * (double)most_k < 0x1p126)) return 0;
  *largest = lane_max(s.largest) + 0.0f; /* 0, not -0, whichever came first */
  *smallest = 0.0f - lane_max(-s.smallest);
  return 1;
}
