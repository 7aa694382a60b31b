/* random.c - Philox4x32-10 and draws from it */
#include "base/random.h"
#include <math.h>
#include "base/elementary.h"

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Key: the seed. Counter: 64 bits of block number, 56 bits of step, 8 bits of stream. */
static void draw_block(struct draw d, uint64_t block, uint32_t out[4])
{
  uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)d.step,
                         d.stream << 24 | (uint32_t)(d.step >> 32 & 0xffffff)};
  uint32_t key[2] = {(uint32_t)d.seed, (uint32_t)(d.seed >> 32)};
  philox(counter, key, out);
}

uint32_t draw_u32(struct draw d, uint64_t index)
{
  uint32_t word[4];
  draw_block(d, index / 4, word);
  return word[index % 4];
}

double draw_uniform(struct draw d, uint64_t index) { return draw_u32(d, index) * 0x1p-32; }

void draw_uniforms(struct draw d, uint64_t index, long n, double *out)
{
  uint32_t word[4];
  for (long i = 0; i < n; i++) {
    if (i % 2 == 0) draw_block(d, index / 4 + (uint64_t)i / 2, word);
    out[i] = word[i % 2 * 2] * 0x1p-32;
  }
}

uint64_t draw_below(struct draw d, uint64_t index, uint64_t n)
{
  uint32_t word[4];
  draw_block(d, index / 2, word);
  const uint32_t *half = word + index % 2 * 2;
  return (uint64_t)((unsigned __int128)((uint64_t)half[1] << 32 | half[0]) * n >> 64);
}

double draw_normal(struct draw d, uint64_t index)
{
  uint32_t word[4];
  draw_block(d, index / 4, word);
  const uint32_t *pair = word + index % 4 / 2 * 2;
  double cosine, sine;
  same_turn(0x1p-32 * pair[1], &cosine, &sine);
  return sqrt(-2 * same_log((pair[0] + 0.5) * 0x1p-32)) * (index % 2 ? sine : cosine);
}
