// y = x W^T, with W in panels of 16 rows: [rows / 16][columns / PAIR][16][PAIR], which is at once
// the order of the dot product's lanes and of AMX's right-hand tiles. A row of y never depends on
// which other rows are computed with it. The MLP's activation is part of its product, so that gate
// and up are never written.
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

// silu(gate) * up, each factor rounded as a chain of operations would round it.
template <class T>
f32x16 gated(f32x16 gate, f32x16 up) {
  gate = rounded_to<T>(gate);
  // The exponent is bounded: 2^127 sends the quotient to 0 as well as infinity does.
  const f32x16 inverse = exp2_of(-at_least(gate * LOG2_E, broadcast(-127.0f)));
  return rounded_to<T>(gate / (inverse + 1.0f)) * rounded_to<T>(up);
}

// What one call computes: rows of x times panels of the weight, two panels at a time. With GATED a
// pair is sixteen rows of the gate and the same rows of up, and one result of both; `rows` is then
// the width of that result.
template <class T, class Y, bool GATED>
struct Product {
  Y* y;
  const T* x;
  const T* packed;
  long tokens, columns, rows;

  long pairs() const { return GATED ? panels_of(rows) : (panels_of(rows) + 1) / 2; }
  long panels() const { return GATED ? 2 * panels_of(rows) : panels_of(rows); }
  const T* left(long pair) const { return packed + pair * 2 * LANES * columns; }
  // A pair without a right panel multiplies its left one twice.
  const T* right(long pair) const {
    return packed + std::min(pair * 2 + 1, panels() - 1) * LANES * columns;
  }

  void store(long token, long pair, f32x16 left, f32x16 right) const {
    if constexpr (GATED) return write(token, pair, gated<T>(left, right));
    write(token, pair * 2, left);
    if (pair * 2 + 1 < panels()) write(token, pair * 2 + 1, right);
  }

  // Sixteen results, rounded to the model's type whatever the type of y.
  void write(long token, long panel, f32x16 values) const {
    if constexpr (!std::is_same_v<T, Y>) values = rounded_to<T>(values);
    const long width = std::min(LANES, rows - panel * LANES);
    Y* to = y + token * rows + panel * LANES;
    if (width == LANES) return store16(to, values);
    Y whole[LANES];
    store16(whole, values);
    std::memcpy(to, whole, sizeof(Y) * width);
  }
};

// As many accumulators as the registers hold: 24 of 32 with AVX-512, 8 of 16 halves with AVX2.
#if defined(__AVX512F__)
constexpr long PAIR_BLOCK = 2, TOKEN_BLOCK = 6;
#else
constexpr long PAIR_BLOCK = 1, TOKEN_BLOCK = 2;
#endif

template <long TOKENS, long PAIRS, class P>
void vector_block(const P& p, long token, long pair) {
  f32x16 acc[TOKENS][PAIRS * 2] = {};
  const auto* x = p.x + token * p.columns;
  constexpr long step = PAIR<std::remove_const_t<std::remove_reference_t<decltype(*x)>>>;
  for (long k = 0; k < p.columns; k += step) {
    decltype(group(x)) weights[PAIRS * 2];
    for (long j = 0; j < PAIRS; ++j) {
      weights[j * 2] = group(p.left(pair + j) + k * LANES);
      weights[j * 2 + 1] = group(p.right(pair + j) + k * LANES);
    }
    for (long i = 0; i < TOKENS; ++i) {
      const auto both = spread(x + i * p.columns + k);
      for (long j = 0; j < PAIRS * 2; ++j) acc[i][j] = dot(acc[i][j], both, weights[j]);
    }
  }
  for (long i = 0; i < TOKENS; ++i)
    for (long j = 0; j < PAIRS; ++j)
      p.store(token + i, pair + j, acc[i][j * 2], acc[i][j * 2 + 1]);
}

template <long PAIRS, class P>
void vector_tokens(const P& p, long pair) {
  long token = 0;
  for (; token + TOKEN_BLOCK <= p.tokens; token += TOKEN_BLOCK)
    vector_block<TOKEN_BLOCK, PAIRS>(p, token, pair);
  if constexpr (TOKEN_BLOCK > 3)
    for (; token + 3 <= p.tokens; token += 3) vector_block<3, PAIRS>(p, token, pair);
  for (; token < p.tokens; ++token) vector_block<1, PAIRS>(p, token, pair);
}

template <class P>
void vector_product(const P& p, long first, long last) {
  long pair = first;
  for (; pair + PAIR_BLOCK <= last; pair += PAIR_BLOCK) vector_tokens<PAIR_BLOCK>(p, pair);
  for (; pair < last; ++pair) vector_tokens<1>(p, pair);
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

template <class P>
void tile_block(const P& p, long token, long tokens, long pair) {
  alignas(64) float sums[4][LANES][LANES];
  const bf16* x = p.x + token * p.columns;
  const bf16* left = p.left(pair);
  const bf16* right = p.right(pair);
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
  for (long i = 0; i < tokens; ++i) {
    const auto* pair_sums = sums + i / LANES * 2;
    p.store(token + i, pair, load16(pair_sums[0][i % LANES]), load16(pair_sums[1][i % LANES]));
  }
}

// Panels that stay in the second cache while all tokens pass over them.
constexpr long GROUP_BYTES = 512 << 10;

template <class P>
void tile_product(const P& p, long first, long last) {
  const long step = std::max(1L, GROUP_BYTES / (p.columns * LANES * 4));
  long shaped = 0;
  for (long start = first; start < last; start += step)
    for (long token = 0; token < p.tokens; token += 32) {
      const long tokens = std::min(32L, p.tokens - token);
      if (tokens != shaped) shape_product(shaped = tokens);
      for (long pair = start; pair < std::min(start + step, last); ++pair)
        tile_block(p, token, tokens, pair);
    }
  _tile_release();
}

#endif

// Pairs first .. last - 1 of all rows of x.
template <class T, class Y, bool GATED>
void product(const Product<T, Y, GATED>& p, long first, long last) {
#if defined(SPLITPOOL_TILES)
  if constexpr (PAIR<T> == 2)
    if (p.columns % 32 == 0 && tiles_permitted()) return tile_product(p, first, last);
#endif
  vector_product(p, first, last);
}

}  // namespace splitpool
