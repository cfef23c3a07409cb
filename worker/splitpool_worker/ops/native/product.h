// to[row][lane] (+)= sum over k of left[row][k] * right[k][lane]: rows of floats times tiles of
// sixteen lanes, which is how weights, keys and values lie in memory. bf16 is widened in registers.
//
// The sums of a block of rows and tiles stay in registers. Each adds up its own products, k by k,
// so it has the same bits whatever is computed beside it.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "vector.h"

namespace splitpool {

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr long REGISTERS = 32;
#else
constexpr long REGISTERS = 16;
#endif

// Rows at a time: beside their sums fit the lanes of one tile, an element of a row, and a mask.
constexpr long ROW_BLOCK = std::min(6L, (REGISTERS - PIECES - 2) / PIECES);

// Tiles beside `rows` rows. Several, where they fit with an element of each row: a sum waits for its
// own last addition, and it takes eight of them to keep two multipliers busy.
constexpr long tiles_beside(long rows) {
  long tiles = 4;
  while (tiles > 1 && rows * tiles * PIECES + rows + 2 > REGISTERS) tiles /= 2;
  return tiles;
}

// Element `part` of each lane of a group.
inline floats widened(const float* group, long) { return load(group); }
inline floats widened(const bf16* group, long part) {
  const uints pairs = raw<uints>(group);
  return (floats)(part == 0 ? pairs << 16 : pairs & (uints{} + 0xffff0000u));
}

// Where a product finds its tiles: all k of tile `t` at at[t].
template <class T>
struct Tiles {
  typedef T Element;
  const T* const* at;
  const T* operator()(long, long tile) const { return at[tile]; }
};

// Tiles side by side, `offset` elements from where each segment of sixteen k starts.
template <class T>
struct Segments {
  typedef T Element;
  const T* const* at;
  long offset;
  const T* operator()(long segment, long tile) const {
    return at[segment] + offset + tile * LANES * PAIR<T>;
  }
};

// The same pointer, though the compiler does not know: what lies there is loaded again rather than
// kept, because loads are to spare here and registers are not.
template <class T>
const T* another(const T* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

// Whoever reads from memory asks for what comes later as often as it reads a line: see Ahead.
struct NothingAhead {
  void operator()(long, long, long) const {}
};

// N rows, `stride` elements apart, times P tiles that have `step` elements for each k, for `count`
// k in each of the segments. `ask` is told of each segment, k and tile that is read. Out of line, for
// inlined copies spill registers.
template <long N, long P, class F, class A = NothingAhead>
__attribute__((noinline)) void multiply(bool add, float* to, long to_stride, const float* left,
                                        long stride, F right, long step, long count,
                                        long segments = 1, A ask = {}) {
  typedef typename F::Element T;
  constexpr long M = P * PIECES;
  floats sums[N][M] = {};
  if (add)
    for (long n = 0; n < N; ++n)
      for (long m = 0; m < M; ++m) sums[n][m] = load(to + n * to_stride + m * WIDTH);
  for (long segment = 0; segment < segments; ++segment, left += count) {
    const T* tiles[PAIR<T>][P];
    for (auto& parts : tiles)
      for (long p = 0; p < P; ++p) parts[p] = another(right(segment, p));
    for (long k = 0; k < count; k += PAIR<T>) {
      for (long p = 0; p < P; ++p) ask(segment, k, p);
      for (long part = 0; part < PAIR<T>; ++part) {
        const float* column = left + k + part;
        const auto lanes = [&](long m) {
          return widened(tiles[part][m / PIECES] + k * step + m % PIECES * WIDTH * PAIR<T>, part);
        };
        // The fewer ones are held: the lanes of one tile, or the elements of a few rows.
        if constexpr (P == 1) {
          floats held[M];
          for (long m = 0; m < M; ++m) held[m] = lanes(m);
          for (long n = 0; n < N; ++n) {
            const floats element = broadcast(column[n * stride]);
            for (long m = 0; m < M; ++m) sums[n][m] += element * held[m];
          }
        } else {
          floats held[N];
          for (long n = 0; n < N; ++n) held[n] = broadcast(column[n * stride]);
          for (long m = 0; m < M; ++m) {
            const floats lane = lanes(m);
            for (long n = 0; n < N; ++n) sums[n][m] += held[n] * lane;
          }
        }
      }
    }
  }
  for (long n = 0; n < N; ++n)
    for (long m = 0; m < M; ++m) store(to + n * to_stride + m * WIDTH, sums[n][m]);
}

#if defined(SPLITPOOL_DOT)

// The same of pairs of bf16, by the dot product, for an even `count`.
template <long N, long P, class F, class A = NothingAhead>
__attribute__((noinline)) void multiply(bool add, float* to, long to_stride, const bf16* left,
                                        long stride, F right, long step, long count,
                                        long segments = 1, A ask = {}) {
  floats sums[N][P] = {};
  if (add)
    for (long n = 0; n < N; ++n)
      for (long p = 0; p < P; ++p) sums[n][p] = load(to + n * to_stride + p * LANES);
  for (long segment = 0; segment < segments; ++segment, left += count) {
    const bf16* tiles[P];
    for (long p = 0; p < P; ++p) tiles[p] = right(segment, p);
    for (long k = 0; k < count; k += PAIR<bf16>) {
      uints held[P];
      for (long p = 0; p < P; ++p) ask(segment, k, p);
      for (long p = 0; p < P; ++p) held[p] = load_pairs(tiles[p] + k * step);
      for (long n = 0; n < N; ++n) {
        const uints pair = spread(left + n * stride + k);
        for (long p = 0; p < P; ++p) sums[n][p] = dot(sums[n][p], pair, held[p]);
      }
    }
  }
  for (long n = 0; n < N; ++n)
    for (long p = 0; p < P; ++p) store(to + n * to_stride + p * LANES, sums[n][p]);
}

#endif

// Calls f(0), ..., f(N - 1) with constants.
template <class F, size_t... I>
__attribute__((always_inline)) inline void repeat(F f, std::index_sequence<I...>) {
  (f(std::integral_constant<long, I>{}), ...);
}
template <long N, class F>
__attribute__((always_inline)) inline void repeat(F f) {
  repeat(f, std::make_index_sequence<N>{});
}

template <long N, class F>
void with_constant(long n, F f) {
  if (n == N) return f(std::integral_constant<long, N>{});
  if constexpr (N > 1) with_constant<N - 1>(n, f);
}

// Calls f(count as a constant, first row) for blocks of rows, the last two of like size.
template <long MOST = ROW_BLOCK, class F>
void by_rows(long rows, F f) {
  for (long row = 0, count; row < rows; row += count) {
    const long left = rows - row;
    count = left >= 2 * MOST ? MOST : left > MOST ? (left + 1) / 2 : left;
    with_constant<MOST>(count, [&](auto n) { f(n, row); });
  }
}

// Calls f(count as a constant, first tile) for as many tiles at a time as fit beside N rows.
template <long N, class F>
void by_tiles(long tiles, F f) {
  long tile = 0;
  if constexpr (tiles_beside(N) >= 4)
    for (; tile + 4 <= tiles; tile += 4) f(std::integral_constant<long, 4>{}, tile);
  if constexpr (tiles_beside(N) >= 2)
    for (; tile + 2 <= tiles; tile += 2) f(std::integral_constant<long, 2>{}, tile);
  for (; tile < tiles; ++tile) f(std::integral_constant<long, 1>{}, tile);
}

}  // namespace splitpool
