// y = x W^T, with W in panels of 16 rows: [rows / 16][columns / PAIR][16][PAIR], which is at once
// the order of the dot product's lanes and of AMX's right-hand tiles. A row of y never depends on
// which other rows are computed with it.
#pragma once

#include <algorithm>
#include <type_traits>

#include "tiles.h"
#include "vector.h"

namespace splitpool {

inline long panels_of(long rows) { return (rows + LANES - 1) / LANES; }

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
template <class T, class Y>
struct Product {
  Y* y;
  const T* x;
  const T* packed;
  long tokens, columns, rows;

  const T* panel(long index) const { return packed + index * LANES * columns; }

  // Sixteen results, rounded to the model's type whatever the type of y.
  void store(long token, long index, f32x16 values) const {
    if constexpr (!std::is_same_v<T, Y>) values = rounded_to<T>(values);
    long width = std::min(LANES, rows - index * LANES);
    Y* to = y + token * rows + index * LANES;
    if (width == LANES) return store16(to, values);
    Y whole[LANES];
    store16(whole, values);
    std::memcpy(to, whole, sizeof(Y) * width);
  }
};

// As many accumulators as the registers hold: 24 of 32 with AVX-512, 8 of 16 halves with AVX2.
#if defined(__AVX512F__)
constexpr long PANEL_BLOCK = 4, TOKEN_BLOCK = 6;
#else
constexpr long PANEL_BLOCK = 2, TOKEN_BLOCK = 2;
#endif

template <class T, class Y, long TOKENS, long PANELS>
void vector_block(const Product<T, Y>& p, long token, long panel) {
  f32x16 acc[TOKENS][PANELS] = {};
  const T* x = p.x + token * p.columns;
  const T* w = p.panel(panel);
  for (long k = 0; k < p.columns; k += PAIR<T>) {
    decltype(group(w)) weights[PANELS];
    for (long j = 0; j < PANELS; ++j) weights[j] = group(w + (j * p.columns + k) * LANES);
    for (long i = 0; i < TOKENS; ++i) {
      const auto pair = spread(x + i * p.columns + k);
      for (long j = 0; j < PANELS; ++j) acc[i][j] = dot(acc[i][j], pair, weights[j]);
    }
  }
  for (long i = 0; i < TOKENS; ++i)
    for (long j = 0; j < PANELS; ++j) p.store(token + i, panel + j, acc[i][j]);
}

template <class T, class Y, long PANELS>
void vector_tokens(const Product<T, Y>& p, long panel) {
  long token = 0;
  for (; token + TOKEN_BLOCK <= p.tokens; token += TOKEN_BLOCK)
    vector_block<T, Y, TOKEN_BLOCK, PANELS>(p, token, panel);
  if constexpr (TOKEN_BLOCK > 3)
    for (; token + 3 <= p.tokens; token += 3) vector_block<T, Y, 3, PANELS>(p, token, panel);
  for (; token < p.tokens; ++token) vector_block<T, Y, 1, PANELS>(p, token, panel);
}

template <class T, class Y>
void vector_product(const Product<T, Y>& p, long first, long last) {
  long panel = first;
  for (; panel + PANEL_BLOCK <= last; panel += PANEL_BLOCK)
    vector_tokens<T, Y, PANEL_BLOCK>(p, panel);
  for (; panel < last; ++panel) vector_tokens<T, Y, 1>(p, panel);
}

#if defined(SPLITPOOL_TILES)

// Tiles: 0-3 sums of two blocks of tokens by two panels, 4-5 tokens, 6-7 panels.
inline void shape_product(long tokens) {
  const long upper = std::min(tokens, LANES);
  TileShapes shapes;
  for (int tile : {0, 1, 4}) shapes.set(tile, upper, 64);
  for (int tile : {2, 3, 5}) shapes.set(tile, tokens - upper, 64);
  for (int tile : {6, 7}) shapes.set(tile, LANES, 64);
  shapes.use();
}

template <class Y>
void tile_block(const Product<bf16, Y>& p, long token, long tokens, long panel, long panels) {
  alignas(64) float sums[4][LANES][LANES];
  const bf16* x = p.x + token * p.columns;
  const bf16* left = p.panel(panel);
  const bf16* right = p.panel(panel + panels - 1);
  const long stride = p.columns * 2;
  const bool both = tokens > LANES;
  settle();
  _tile_zero(0);
  _tile_zero(1);
  if (both) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (long k = 0; k < p.columns; k += 32) {
    _tile_loadd(4, x + k, stride);
    _tile_loadd(6, left + k * LANES, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, right + k * LANES, 64);
    _tile_dpbf16ps(1, 4, 7);
    if (both) {
      _tile_loadd(5, x + LANES * p.columns + k, stride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  if (both) {
    _tile_stored(2, sums[2], 64);
    _tile_stored(3, sums[3], 64);
  }
  for (long i = 0; i < tokens; ++i)
    for (long j = 0; j < panels; ++j)
      p.store(token + i, panel + j, load16(sums[i / LANES * 2 + j][i % LANES]));
}

// Panels that stay in the second cache while all tokens pass over them.
constexpr long GROUP_BYTES = 512 << 10;

template <class Y>
void tile_product(const Product<bf16, Y>& p, long first, long last) {
  const long step = std::max(1L, GROUP_BYTES / (p.columns * LANES * 4)) * 2;
  long shaped = 0;
  for (long group = first; group < last; group += step)
    for (long token = 0; token < p.tokens; token += 32) {
      const long tokens = std::min(32L, p.tokens - token);
      if (tokens != shaped) shape_product(shaped = tokens);
      for (long panel = group; panel < std::min(group + step, last); panel += 2)
        tile_block(p, token, tokens, panel, std::min(2L, last - panel));
    }
  _tile_release();
}

#endif

template <class T, class Y>
void product(const Product<T, Y>& p, long first, long last) {
#if defined(SPLITPOOL_TILES)
  if constexpr (PAIR<T> == 2)
    if (p.columns % 32 == 0 && tiles_permitted()) return tile_product(p, first, last);
#endif
  vector_product(p, first, last);
}

}  // namespace splitpool
