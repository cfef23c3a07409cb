// y = x W^T, with W in panels of 16 rows: [rows / 16][columns / PAIR][16][PAIR], which is at once
// the order of the dot product's lanes and of AMX's right-hand tiles. A row of y never depends on
// which other rows are computed with it.
#pragma once

#include <algorithm>
#include <vector>

#include "product.h"
#include "register_product.h"
#include "result.h"
#include "sharing.h"
#include "tile_product.h"
#include "vector.h"

namespace splitpool {

template <class T>
void pack_panel(T* panel, const T* weight, long rows, long columns) {
  for (long row = 0; row < LANES; ++row)
    for (long column = 0; column < columns; ++column) {
      long at = (column / PAIR<T> * LANES + row) * PAIR<T> + column % PAIR<T>;
      panel[at] = row < rows ? weight[row * columns + column] : T{};
    }
}

template <class T>
void unpack_row(T* to, const T* packed, long row, long columns) {
  const T* from = packed + row / LANES * LANES * columns + row % LANES * PAIR<T>;
  for (long column = 0; column < columns; column += PAIR<T>)
    std::memcpy(to + column, from + column * LANES, sizeof(T) * PAIR<T>);
}

// What one call computes: rows of x times panels of the weight.
template <class T, class Y, bool GATED>
struct Product : Result<T, Y, GATED> {
  const T* x;
  const T* packed;
  long columns;

  const T* panel(long index) const { return packed + this->existing(index) * LANES * columns; }

  // What products by tiles and by registers want.
  typedef float Sum;
  const T* row_at(long token) const { return x + token * columns; }
  const T* panel_at(long index) const { return panel(index); }
  long row_stride() const { return columns * sizeof(T); }
  long row_width() const { return row_stride(); }
  long panel_size() const { return LANES * row_width(); }
  void finish(long token, long pair, const float* left, const float* right) const {
    this->store(token, pair, left, right);
  }
#if defined(SPLITPOOL_TILES)
  SPLITPOOL_TILE_SUMS(TileSums, _tile_dpbf16ps);
#endif
#if defined(SPLITPOOL_DOT)
  static floats add(floats sums, uints tokens, uints lanes) { return dot(sums, tokens, lanes); }
#endif
};

// Of a block of rows as floats, a part of the columns stays in the first cache, all of them in the
// second.
constexpr long BLOCK_ROWS = 96, BLOCK_FLOATS = 64 << 10, BLOCK_COLUMNS = 512;

inline long block_rows(long columns) {
  return std::clamp(BLOCK_FLOATS / columns / ROW_BLOCK * ROW_BLOCK, ROW_BLOCK, BLOCK_ROWS);
}

// Rows as floats, in memory of the thread's own unless they are floats already.
inline const float* as_floats(const float* x, long) { return x; }
inline const float* as_floats(const bf16* x, long count) {
  thread_local std::vector<float> memory;
  if (static_cast<long>(memory.size()) < count) memory.resize(count);
  for (long i = 0; i < count; i += WIDTH) store(memory.data() + i, load(x + i));
  return memory.data();
}

// One or two pairs of panels, for `tokens` rows of x from `token` on.
template <class T, class Y, bool GATED>
void float_pairs(const Product<T, Y, GATED>& p, const float* x, long token, long tokens, long pair,
                 long pairs) {
  const long panels = pairs * 2, width = panels * LANES;
  alignas(64) float sums[BLOCK_ROWS * 4 * LANES];
  for (long start = 0; start < p.columns; start += BLOCK_COLUMNS) {
    const long count = std::min(BLOCK_COLUMNS, p.columns - start);
    const T* right[4];
    for (long i = 0; i < panels; ++i) right[i] = p.panel(pair * 2 + i) + start * LANES;
    by_rows(tokens, [&](auto n, long row) {
      by_tiles<n>(panels, [&](auto m, long tile) {
        multiply<n, m>(start > 0, sums + row * width + tile * LANES, width,
                       x + row * p.columns + start, p.columns, Tiles<T>{right + tile}, LANES,
                       count);
      });
    });
  }
  for (long row = 0; row < tokens; ++row)
    for (long i = 0; i < pairs; ++i) {
      const float* left = sums + row * width + i * 2 * LANES;
      p.store(token + row, pair + i, left, left + LANES);
    }
}

template <class P>
void float_product(const P& p, Taker take) {
  const auto [first, last] = take(p.pairs());
  const long most = block_rows(p.columns);
  for (long token = 0; token < p.tokens; token += most) {
    const long tokens = std::min(most, p.tokens - token);
    const float* x = as_floats(p.x + token * p.columns, tokens * p.columns);
    for (long pair = first; pair < last; pair += 2)
      float_pairs(p, x, token, tokens, pair, std::min(2L, last - pair));
  }
}

// The pairs that are taken, of all rows of x.
template <class T, class Y, bool GATED>
void product(const Product<T, Y, GATED>& p, Taker take) {
#if defined(SPLITPOOL_TILES)
  if constexpr (PAIR<T> == 2)
    if (p.columns % 32 == 0 && tiles_permitted()) return TileProduct(p).run(take);
#endif
#if defined(SPLITPOOL_DOT)
  if constexpr (PAIR<T> == 2) return RegisterProduct(p).run(take);
#endif
  float_product(p, take);
}

}  // namespace splitpool
