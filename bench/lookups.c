// One row of 8-bit numbers times rows of weights of 1 and 2 bits, by four methods: products of
// bytes, planes of bits, and tables of sums (T-MAC, LUT-GEMM), exact and rounded. What
// bench/lookups times; each in the order of weights that suits it.
//
// x [K] i8, weights [N, K] of b bits, unsigned; results i32 [N]. A table has what each choice of
// four neighbours of x adds up to: 16 numbers of 10 bits, which a shuffle of bytes looks up for 64
// (32) rows at once, in halves or rounded to 8 bits.
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define WIDE                                                                                       \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,avx512vpopcntdq")))
#define NARROW __attribute__((target("avx2,bmi,bmi2,popcnt")))

static int code(const uint8_t *w, long k, long row, long at) { return w[row * k + at]; }

// ---- Weights in each method's order. `w` has a byte for each.

/// Panels of 16 rows: of each four k 64 codes, `8 / bits` such lines in the digits of 64 bytes.
void pack_bytes(const uint8_t *w, long n, long k, int bits, uint8_t *to) {
  long digits = 8 / bits;
  for (long panel = 0; panel < n; panel += 16)
    for (long at = 0; at < k; at += 4 * digits, to += 64)
      for (int i = 0; i < 64; ++i) {
        to[i] = 0;
        for (long digit = 0; digit < digits; ++digit)
          to[i] |= (uint8_t)(code(w, k, panel + i / 4, at + 4 * digit + i % 4) << (digit * bits));
      }
}

/// Of each row and plane its bits.
void pack_planes(const uint8_t *w, long n, long k, int bits, uint8_t *to) {
  memset(to, 0, (size_t)(n * k * bits / 8));
  for (long row = 0; row < n; ++row)
    for (int bit = 0; bit < bits; ++bit)
      for (long at = 0; at < k; ++at)
        to[(row * bits + bit) * (k / 8) + at / 8] |=
            (uint8_t)((code(w, k, row, at) >> bit & 1) << (at % 8));
}

/// Panels of so many rows: of each plane and each eight k a byte of each row, which has two
/// indices.
void pack_tables(const uint8_t *w, long n, long k, int bits, long rows, uint8_t *to) {
  for (long panel = 0; panel < n; panel += rows)
    for (long at = 0; at < k; at += 8)
      for (int bit = 0; bit < bits; ++bit)
        for (long row = 0; row < rows; ++row, ++to) {
          *to = 0;
          for (int i = 0; i < 8; ++i)
            *to |= (uint8_t)((code(w, k, panel + row, at + i) >> bit & 1) << i);
        }
}

// ---- Tables of x: of each four numbers 16 sums, first their lower bytes, then their upper ones;
// or rounded to 8 bits.

static void tables(const int8_t *x, long k, uint8_t *to) {
  for (long at = 0; at < k; at += 4, to += 32)
    for (int choice = 0; choice < 16; ++choice) {
      int sum = 0;
      for (int i = 0; i < 4; ++i)
        sum += choice >> i & 1 ? x[at + i] : 0;
      to[choice] = (uint8_t)sum, to[16 + choice] = (uint8_t)(sum >> 8);
    }
}
static void rounded_tables(const int8_t *x, long k, uint8_t *to) {
  for (long at = 0; at < k; at += 4, to += 16)
    for (int choice = 0; choice < 16; ++choice) {
      int sum = 0;
      for (int i = 0; i < 4; ++i)
        sum += choice >> i & 1 ? x[at + i] : 0;
      to[choice] = (uint8_t)((sum + 2) >> 2);
    }
}

// ---- AVX-512

WIDE void bytes_wide(const int8_t *x, const uint8_t *w, long n, long k, int bits, int32_t *y,
                     uint8_t *scratch) {
  (void)scratch;
  __m512i mask = _mm512_set1_epi8((char)((1 << bits) - 1));
  long digits = 8 / bits;
  for (long panel = 0; panel < n; panel += 16) {
    __m512i sums[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                       _mm512_setzero_si512()};
    for (long at = 0; at < k; at += 4 * digits, w += 64) {
      __m512i line = _mm512_loadu_si512(w);
      for (int digit = 0; digit < digits; ++digit) {
        int32_t four;
        memcpy(&four, x + at + 4 * digit, 4);
        __m512i codes = _mm512_and_si512(_mm512_srli_epi16(line, (unsigned)(digit * bits)), mask);
        sums[digit & 3] = _mm512_dpbusd_epi32(sums[digit & 3], codes, _mm512_set1_epi32(four));
      }
    }
    _mm512_storeu_si512(y + panel, _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]),
                                                    _mm512_add_epi32(sums[2], sums[3])));
  }
}

WIDE void planes_wide(const int8_t *x, const uint8_t *w, long n, long k, int bits, int32_t *y,
                      uint8_t *scratch) {
  for (long at = 0; at < k; at += 64) { // x's planes; the last stands for -128
    __m512i numbers = _mm512_loadu_si512(x + at);
    for (int bit = 0; bit < 8; ++bit) {
      uint64_t plane = _mm512_test_epi8_mask(numbers, _mm512_set1_epi8((char)(1 << bit)));
      memcpy(scratch + bit * (k / 8) + at / 8, &plane, 8);
    }
  }
  for (long row = 0; row < n; ++row) {
    int64_t total = 0;
    for (int of = 0; of < bits; ++of, w += k / 8) {
      __m512i sums[8];
      for (int bit = 0; bit < 8; ++bit)
        sums[bit] = _mm512_setzero_si512();
      for (long at = 0; at < k / 8; at += 64) {
        __m512i plane = _mm512_loadu_si512(w + at);
        for (int bit = 0; bit < 8; ++bit)
          sums[bit] = _mm512_add_epi64(
              sums[bit], _mm512_popcnt_epi64(_mm512_and_si512(
                             plane, _mm512_loadu_si512(scratch + bit * (k / 8) + at))));
      }
      __m512i all = _mm512_setzero_si512();
      for (int bit = 0; bit < 8; ++bit) {
        __m512i part = _mm512_slli_epi64(sums[bit], (unsigned)bit);
        all = bit == 7 ? _mm512_sub_epi64(all, part) : _mm512_add_epi64(all, part);
      }
      total += _mm512_reduce_add_epi64(all) << of;
    }
    y[row] = (int32_t)total;
  }
}

WIDE void tables_wide(const int8_t *x, const uint8_t *w, long n, long k, int bits, int32_t *y,
                      uint8_t *scratch) {
  tables(x, k, scratch);
  __m512i nibble = _mm512_set1_epi8(15);
  for (long panel = 0; panel < n; panel += 64) {
    __m512i whole[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                        _mm512_setzero_si512()};
    for (long first = 0; first < k; first += 64) { // as many as i16 holds, of 2 bits
      __m512i sums[2][2] = {{_mm512_setzero_si512(), _mm512_setzero_si512()},
                            {_mm512_setzero_si512(), _mm512_setzero_si512()}};
      for (long at = first; at < first + 64; at += 8)
        for (int bit = 0; bit < bits; ++bit, w += 64) {
          __m512i line = _mm512_loadu_si512(w);
          for (int half = 0; half < 2; ++half) {
            const uint8_t *table = scratch + (at / 4 + half) * 32;
            __m512i index = _mm512_and_si512(half ? _mm512_srli_epi16(line, 4) : line, nibble);
            __m512i low = _mm512_shuffle_epi8(
                _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), index);
            __m512i high = _mm512_shuffle_epi8(
                _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(table + 16))), index);
            sums[bit][0] = _mm512_add_epi16(sums[bit][0], _mm512_unpacklo_epi8(low, high));
            sums[bit][1] = _mm512_add_epi16(sums[bit][1], _mm512_unpackhi_epi8(low, high));
          }
        }
      for (int part = 0; part < 2; ++part) {
        __m512i both = _mm512_add_epi16(
            sums[0][part], bits > 1 ? _mm512_slli_epi16(sums[1][part], 1) : _mm512_setzero_si512());
        whole[2 * part] =
            _mm512_add_epi32(whole[2 * part], _mm512_cvtepi16_epi32(_mm512_castsi512_si256(both)));
        whole[2 * part + 1] = _mm512_add_epi32(
            whole[2 * part + 1], _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(both, 1)));
      }
    }
    // Lanes of 8 rows of each 16.
    for (int part = 0; part < 4; ++part) {
      int32_t numbers[16];
      _mm512_storeu_si512(numbers, whole[part]);
      for (int i = 0; i < 16; ++i)
        y[panel + (part % 2 * 2 + i / 8) * 16 + part / 2 * 8 + i % 8] = numbers[i];
    }
  }
}

WIDE void rounded_tables_wide(const int8_t *x, const uint8_t *w, long n, long k, int bits,
                              int32_t *y, uint8_t *scratch) {
  rounded_tables(x, k, scratch);
  __m512i nibble = _mm512_set1_epi8(15), ones = _mm512_set1_epi8(1);
  for (long panel = 0; panel < n; panel += 64) {
    __m512i whole[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (long at = 0; at < k; at += 8)
      for (int bit = 0; bit < bits; ++bit, w += 64) {
        __m512i line = _mm512_loadu_si512(w);
        __m128i first = _mm_loadu_si128((const __m128i *)(scratch + at * 4)),
                second = _mm_loadu_si128((const __m128i *)(scratch + at * 4 + 16));
        __m512i a =
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(first), _mm512_and_si512(line, nibble));
        __m512i b = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(second),
                                        _mm512_and_si512(_mm512_srli_epi16(line, 4), nibble));
        __m512i low = _mm512_maddubs_epi16(ones, _mm512_unpacklo_epi8(a, b)),
                high = _mm512_maddubs_epi16(ones, _mm512_unpackhi_epi8(a, b));
        whole[0] = _mm512_adds_epi16(whole[0], bit ? _mm512_slli_epi16(low, 1) : low);
        whole[1] = _mm512_adds_epi16(whole[1], bit ? _mm512_slli_epi16(high, 1) : high);
      }
    int16_t numbers[64];
    _mm512_storeu_si512(numbers, whole[0]), _mm512_storeu_si512(numbers + 32, whole[1]);
    for (int i = 0; i < 64; ++i)
      y[panel + i % 32 / 8 * 16 + i / 32 * 8 + i % 8] = 4 * numbers[i];
  }
}

// ---- AVX2, without products of bytes by four

NARROW void bytes_narrow(const int8_t *x, const uint8_t *w, long n, long k, int bits, int32_t *y,
                         uint8_t *scratch) {
  (void)scratch;
  __m256i mask = _mm256_set1_epi8((char)((1 << bits) - 1)), ones = _mm256_set1_epi16(1);
  long digits = 8 / bits;
  for (long panel = 0; panel < n; panel += 16) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (long at = 0; at < k; at += 4 * digits, w += 64)
      for (int half = 0; half < 2; ++half) {
        __m256i line = _mm256_loadu_si256((const __m256i *)(w + 32 * half)),
                pairs = _mm256_setzero_si256();
        for (int digit = 0; digit < digits; ++digit) {
          int32_t four;
          memcpy(&four, x + at + 4 * digit, 4);
          __m256i codes = _mm256_and_si256(_mm256_srli_epi16(line, digit * bits), mask);
          pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(codes, _mm256_set1_epi32(four)));
        }
        sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(pairs, ones));
      }
    _mm256_storeu_si256((__m256i *)(y + panel), sums[0]),
        _mm256_storeu_si256((__m256i *)(y + panel + 8), sums[1]);
  }
}

NARROW void tables_narrow(const int8_t *x, const uint8_t *w, long n, long k, int bits, int32_t *y,
                          uint8_t *scratch) {
  tables(x, k, scratch);
  __m256i nibble = _mm256_set1_epi8(15);
  for (long panel = 0; panel < n; panel += 32) {
    __m256i whole[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                        _mm256_setzero_si256()};
    for (long first = 0; first < k; first += 64) {
      __m256i sums[2][2] = {{_mm256_setzero_si256(), _mm256_setzero_si256()},
                            {_mm256_setzero_si256(), _mm256_setzero_si256()}};
      for (long at = first; at < first + 64; at += 8)
        for (int bit = 0; bit < bits; ++bit, w += 32) {
          __m256i line = _mm256_loadu_si256((const __m256i *)w);
          for (int half = 0; half < 2; ++half) {
            const uint8_t *table = scratch + (at / 4 + half) * 32;
            __m256i index = _mm256_and_si256(half ? _mm256_srli_epi16(line, 4) : line, nibble);
            __m256i low = _mm256_shuffle_epi8(
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), index);
            __m256i high = _mm256_shuffle_epi8(
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(table + 16))), index);
            sums[bit][0] = _mm256_add_epi16(sums[bit][0], _mm256_unpacklo_epi8(low, high));
            sums[bit][1] = _mm256_add_epi16(sums[bit][1], _mm256_unpackhi_epi8(low, high));
          }
        }
      for (int part = 0; part < 2; ++part) {
        __m256i both = _mm256_add_epi16(
            sums[0][part], bits > 1 ? _mm256_slli_epi16(sums[1][part], 1) : _mm256_setzero_si256());
        whole[2 * part] =
            _mm256_add_epi32(whole[2 * part], _mm256_cvtepi16_epi32(_mm256_castsi256_si128(both)));
        whole[2 * part + 1] = _mm256_add_epi32(
            whole[2 * part + 1], _mm256_cvtepi16_epi32(_mm256_extracti128_si256(both, 1)));
      }
    }
    for (int part = 0; part < 4; ++part)
      _mm256_storeu_si256((__m256i *)(y + panel + part % 2 * 16 + part / 2 * 8), whole[part]);
  }
}
