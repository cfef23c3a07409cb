// y = x W^T in int8, with W in panels of 16 rows: [columns / 4][16][4], which is at once the order
// of the dot product's lanes and of AMX's right-hand tiles, then the rows' scales and what their
// sums have too much (128 times the sum of their elements). Sums of int8 are exact, so every kernel
// gives the same bits, whichever rows are computed together.
#pragma once

#include <algorithm>
#include <vector>

#include "product.h"
#include "quantised.h"
#include "register_product.h"
#include "result.h"
#include "sharing.h"
#include "tile_product.h"
#include "vector.h"

namespace splitpool {

#if defined(SPLITPOOL_TILES) && defined(__AMX_INT8__)
#define SPLITPOOL_INT8_TILES 1
#endif

#if (defined(__AVX512VNNI__) && defined(__AVX512F__)) || (defined(__AVXVNNI__) && defined(__AVX__))
#define SPLITPOOL_QUADS 1

// sums[lane] += sum over q of a[q] * b[lane][q], unsigned times signed.
inline ints quads(ints sums, uints a, uints b) {
#if defined(__AVX512VNNI__)
  return (ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
#else
  return (ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b);
#endif
}
#endif

constexpr long QUAD = 4;
inline long panel_bytes(long columns) { return LANES * (columns + 8); }

struct Panel {
  const int8_t* at;
  long columns;

  const float* scales() const { return reinterpret_cast<const float*>(at + LANES * columns); }
  const int32_t* excess() const { return reinterpret_cast<const int32_t*>(scales() + LANES); }
};

// `rows` rows of the weight, and zeros for the rest of the panel.
template <class T>
void pack_panel(int8_t* panel, const T* weight, long rows, long columns) {
  std::vector<uint8_t> quantised(row_bytes(columns));
  float scales[LANES] = {};
  int32_t excess[LANES] = {};
  std::fill_n(panel, LANES * columns, 0);
  for (long row = 0; row < rows; ++row) {
    quantise_row(quantised.data(), weight + row * columns, columns);
    scales[row] = scale_of(quantised.data()) / block_of(columns);
    for (long column = 0; column < columns; ++column) {
      const int32_t element = quantised[HEADER + column] - MIDDLE;
      panel[(column / QUAD * LANES + row) * QUAD + column % QUAD] = static_cast<int8_t>(element);
      excess[row] += MIDDLE * element;
    }
  }
  std::memcpy(panel + LANES * columns, scales, sizeof scales);
  std::memcpy(panel + LANES * columns + sizeof scales, excess, sizeof excess);
}

template <class T>
void unpack_row(T* to, const int8_t* packed, long row, long columns) {
  const Panel panel{packed + row / LANES * panel_bytes(columns), columns};
  const int8_t* from = panel.at + row % LANES * QUAD;
  const floats scale = broadcast(panel.scales()[row % LANES]);
  with_block(columns, [&](auto n) {
    for (long column = 0; column < columns; column += n) {
      alignas(64) float values[n];
      for (long i = 0; i < n; ++i) values[i] = from[(column + i) / QUAD * LANES * QUAD + i % QUAD];
      floats block[n / WIDTH];
      for (long j = 0; j < n / WIDTH; ++j) block[j] = load(values + j * WIDTH);
      transform<n>(block);
      for (long j = 0; j < n / WIDTH; ++j) store(to + column + j * WIDTH, block[j] * scale);
    }
  });
}

// What one call computes: quantised rows of x times panels of the weight.
template <class T, class Y, bool GATED>
struct Int8Product : Result<T, Y, GATED> {
  const uint8_t* x;
  const int8_t* packed;
  long columns;

  const uint8_t* row(long token) const { return x + token * row_bytes(columns); }

  Panel panel(long index) const {
    return {packed + this->existing(index) * panel_bytes(columns), columns};
  }

  // Sums of int8 of sixteen lanes of both panels of a pair, as the results that they stand for.
  void finish(long token, long pair, const int32_t* left, const int32_t* right) const {
    const float scale = scale_of(row(token));
    const Panel panels[2] = {panel(pair * 2), panel(pair * 2 + 1)};
    for (long lane = 0; lane < LANES; lane += WIDTH)
      this->store(token, pair, lane, value(panels[0], lane, left, scale),
                  value(panels[1], lane, right, scale));
  }

  // What products by tiles and by registers want.
  typedef int32_t Sum;
  const uint8_t* row_at(long token) const { return row(token) + HEADER; }
  const int8_t* panel_at(long index) const { return panel(index).at; }
  long row_stride() const { return row_bytes(columns); }
  long row_width() const { return columns; }
  long panel_size() const { return panel_bytes(columns); }
#if defined(SPLITPOOL_INT8_TILES)
  SPLITPOOL_TILE_SUMS(TileSums, _tile_dpbusd);
#endif
#if defined(SPLITPOOL_QUADS)
  static ints add(ints sums, uints tokens, uints lanes) { return quads(sums, tokens, lanes); }
#endif

  static floats value(Panel panel, long lane, const int32_t* sums, float scale) {
    const ints sum = raw<ints>(sums + lane) - raw<ints>(panel.excess() + lane);
    return __builtin_convertvector(sum, floats) * scale * load(panel.scales() + lane);
  }
};

#if !defined(SPLITPOOL_QUADS)

// Without a dot product of bytes: elements widened to 16 bits, whose products are added in pairs.
// A register of weights is half as many lanes, each with two sums.
typedef Vector<int16_t, WIDTH * 2>::type words;
constexpr long HALVES = PIECES * 2, WORD_TOKENS = REGISTERS == 32 ? 6 : WIDTH == 8 ? 2 : 1;

inline ints add_pairs(ints sums, words a, words b) {
#if defined(__AVX512BW__)
  return sums + (ints)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return sums + (ints)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__) && !defined(__AVX__)
  return sums + (ints)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  for (long i = 0; i < WIDTH; ++i) sums[i] += a[i * 2] * b[i * 2] + a[i * 2 + 1] * b[i * 2 + 1];
  return sums;
#endif
}

// Elements of `tokens` rows as words, in memory of the thread's own.
template <class P>
const int16_t* widened(const P& p, long token, long tokens) {
  thread_local std::vector<int16_t> memory;
  if (static_cast<long>(memory.size()) < tokens * p.columns) memory.resize(tokens * p.columns);
  for (long i = 0; i < tokens; ++i)
    std::copy_n(p.row_at(token + i), p.columns, memory.data() + i * p.columns);
  return memory.data();
}

template <long TOKENS, class P>
void word_block(const P& p, const int16_t* x, long panel, int32_t* results) {
  typedef Vector<int8_t, WIDTH * 2>::type narrow;
  ints sums[TOKENS][HALVES] = {};
  const int8_t* weights = p.panel(panel).at;
  for (long k = 0; k < p.columns; k += QUAD)
    for (long half = 0; half < HALVES; ++half) {
      const narrow bytes = raw<narrow>(weights + k * LANES + half * WIDTH * 2);
      const words wide = __builtin_convertvector(bytes, words);
      for (long i = 0; i < TOKENS; ++i) {
        typedef Vector<int64_t, WIDTH / 2>::type repeated;
        const words four = (words)(repeated{} + raw<int64_t>(x + i * p.columns + k));
        sums[i][half] = add_pairs(sums[i][half], four, wide);
      }
    }
  for (long i = 0; i < TOKENS; ++i)
    for (long lane = 0; lane < LANES; ++lane) {
      const ints& both = sums[i][lane * 2 / WIDTH];
      results[i * 2 * LANES + lane] = both[lane * 2 % WIDTH] + both[lane * 2 % WIDTH + 1];
    }
}

// Tokens whose words stay in the second cache.
constexpr long WORDS_BYTES = 256 << 10;

template <class P>
void word_product(const P& p, Taker take) {
  const auto [first, last] = take(p.pairs());
  const long most = std::max(WORD_TOKENS, WORDS_BYTES / (p.columns * 2) / WORD_TOKENS * WORD_TOKENS);
  int32_t results[WORD_TOKENS][2][LANES];
  for (long start = 0; start < p.tokens; start += most) {
    const long end = std::min(p.tokens, start + most);
    const int16_t* x = widened(p, start, end - start);
    for (long pair = first; pair < last; ++pair)
      for (long token = start; token < end; token += WORD_TOKENS)
        with_constant<WORD_TOKENS>(std::min(WORD_TOKENS, end - token), [&](auto n) {
          const int16_t* rows = x + (token - start) * p.columns;
          for (long side = 0; side < 2; ++side)
            word_block<n>(p, rows, pair * 2 + side, results[0][side]);
          for (long i = 0; i < n; ++i) p.finish(token + i, pair, results[i][0], results[i][1]);
        });
  }
}

#endif

// The pairs that are taken, of all rows of x. For a single row tiles are no faster than registers,
// and take longer to set up.
template <class T, class Y, bool GATED>
void product(const Int8Product<T, Y, GATED>& p, Taker take) {
#if defined(SPLITPOOL_INT8_TILES)
  if (p.tokens > 1 && p.columns % 64 == 0 && tiles_permitted()) return TileProduct(p).run(take);
#endif
#if defined(SPLITPOOL_QUADS)
  RegisterProduct(p).run(take);
#else
  word_product(p, take);
#endif
}

}  // namespace splitpool
