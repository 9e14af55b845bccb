/* Philox4x32-10 (Salmon et al., SC'11) and permutations for the CPU, bit for bit what reference.py computes in torch.

   Loops over lanes of a fixed number are plain, so that the compiler makes vectors of them. Nothing is allocated, kept
   or shared: any number of threads may call. Words are 32 bits in 64-bit integers, as torch has them. */

#include <stdint.h>

#define LANES 32

/* Words first..last-1 of the draw of each of `count` seeds; out (count, last - first).
   Word i of a draw is word i / blocks of the block i % blocks, of which there are `blocks`.
   steps: one for each seed (each = 1), or one for all (each = 0). */
void lengthwise_words(int64_t *out, const int64_t *seeds, const int64_t *steps, int64_t each, int64_t count,
                      int64_t site, int64_t stream, int64_t blocks, int64_t first, int64_t last) {
    const int64_t size = last - first;
    const int64_t needed = size < blocks ? size : blocks; /* blocks that hold a word that is asked for, in a circle */
    const int64_t start = blocks ? first % blocks : 0;
    const int64_t total = count * needed;
    for (int64_t at = 0; at < total; at += LANES) {
        const int64_t lanes = total - at < LANES ? total - at : LANES;
        uint64_t c0[LANES] = {0}, c1[LANES], c2[LANES] = {0}, c3[LANES], k0[LANES] = {0}, k1[LANES] = {0};
        int64_t seed = at / needed, place = at - seed * needed;
        for (int64_t j = 0; j < lanes; j++) {
            const int64_t block = start + place;
            c0[j] = (uint64_t)(block < blocks ? block : block - blocks);
            c2[j] = (uint64_t)steps[seed * each];
            k0[j] = (uint64_t)seeds[seed] & 0xFFFFFFFFu;
            k1[j] = (uint64_t)seeds[seed] >> 32;
            if (++place == needed) {
                place = 0;
                seed++;
            }
        }
        for (int64_t j = 0; j < LANES; j++) {
            uint64_t a = c0[j], b = (uint64_t)site, c = c2[j], d = (uint64_t)stream, k = k0[j], l = k1[j];
            for (int turn = 0; turn < 10; turn++) {
                const uint64_t p = (a & 0xFFFFFFFFu) * 0xD2511F53u, q = (c & 0xFFFFFFFFu) * 0xCD9E8D57u;
                a = (q >> 32) ^ b ^ k;
                b = q & 0xFFFFFFFFu;
                c = (p >> 32) ^ d ^ l;
                d = p & 0xFFFFFFFFu;
                k = (k + 0x9E3779B9u) & 0xFFFFFFFFu;
                l = (l + 0xBB67AE85u) & 0xFFFFFFFFu;
            }
            c0[j] = a, c1[j] = b, c2[j] = c, c3[j] = d;
        }
        const uint64_t *words[4] = {c0, c1, c2, c3};
        seed = at / needed, place = at - seed * needed;
        for (int64_t j = 0; j < lanes;) { /* a run of blocks of one seed that follow one another */
            const int64_t begin = start + place, block = begin < blocks ? begin : begin - blocks;
            int64_t run = needed - place < lanes - j ? needed - place : lanes - j;
            if (run > blocks - block) run = blocks - block;
            for (int64_t word = 0; word < 4; word++) {
                const int64_t i = word * blocks + block;
                const int64_t low = i < first ? first - i : 0, high = i + run > last ? last - i : run;
                int64_t *to = out + seed * size + i - first;
                for (int64_t r = low; r < high; r++) to[r] = (int64_t)words[word][j + r];
            }
            j += run, place += run;
            if (place == needed) {
                place = 0;
                seed++;
            }
        }
    }
}

#define MOST 64 /* as in library.py */

/* The first `take` (at most MOST) entries of permutations of 0..n-1, n < 2^31, one entry after another.
   words (count, take, batch); out (count, batch, take). */
void lengthwise_sequential(int64_t *out, const int64_t *words, int64_t count, int64_t batch, int64_t n, int64_t take) {
    for (int64_t s = 0; s < count; s++) {
        for (int64_t row = 0; row < batch; row += LANES) {
            const int64_t lanes = batch - row < LANES ? batch - row : LANES;
            int32_t drawn[MOST][LANES], taken[MOST][LANES]; /* taken: ascending */
            for (int64_t index = 0; index < take; index++) {
                const int64_t *from = words + (s * take + index) * batch + row;
                int32_t entry[LANES] = {0};
                for (int64_t j = 0; j < lanes; j++) entry[j] = (int32_t)((from[j] * (n - index)) >> 32);
                for (int64_t place = 0; place < index; place++) /* the entry-th number that is not yet taken */
                    for (int64_t j = 0; j < LANES; j++) entry[j] += entry[j] >= taken[place][j];
                for (int64_t j = 0; j < LANES; j++) drawn[index][j] = entry[j];
                for (int64_t place = 0; place < index; place++)
                    for (int64_t j = 0; j < LANES; j++) {
                        const int32_t low = taken[place][j], rest = entry[j];
                        taken[place][j] = low < rest ? low : rest;
                        entry[j] = low < rest ? rest : low;
                    }
                for (int64_t j = 0; j < LANES; j++) taken[index][j] = entry[j];
            }
            int64_t *to = out + (s * batch + row) * take;
            for (int64_t j = 0; j < lanes; j++)
                for (int64_t index = 0; index < take; index++) to[j * take + index] = drawn[index][j];
        }
    }
}

#define ROWS 8

/* The places of the `take` smallest of n < 2^31 words in each of `rows` rows, ascending, the earlier of equal ones first.
   words (rows, n); out (rows, take); scratch: 8 n integers. Batcher's merge exchange (Knuth 5.2.2, algorithm M). */
void lengthwise_order(int64_t *out, const int64_t *words, uint64_t *scratch, int64_t rows, int64_t n, int64_t take) {
    int64_t top = 1;
    while (2 * top < n) top *= 2;
    for (int64_t row = 0; row < rows; row += ROWS) {
        const int64_t lanes = rows - row < ROWS ? rows - row : ROWS;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < ROWS; j++)
                scratch[i * ROWS + j] = j < lanes ? (uint64_t)words[(row + j) * n + i] << 32 | (uint64_t)i : 0;
        for (int64_t p = top; p > 0; p /= 2) {
            int64_t q = top, r = 0, d = p & 0xFFFFFFFFu;
            for (;;) {
                for (int64_t i = 0; i + d < n; i++) {
                    if ((i & p) != r) continue;
                    uint64_t *one = scratch + i * ROWS, *other = scratch + (i + d) * ROWS;
                    for (int64_t j = 0; j < ROWS; j++) {
                        const uint64_t a = one[j], b = other[j];
                        one[j] = a < b ? a : b;
                        other[j] = a < b ? b : a;
                    }
                }
                if (q == p) break;
                d = q - p;
                q /= 2;
                r = p;
            }
        }
        for (int64_t j = 0; j < lanes; j++)
            for (int64_t i = 0; i < take; i++) out[(row + j) * take + i] = (int64_t)(scratch[i * ROWS + j] & 0xFFFFFFFFu);
    }
}
