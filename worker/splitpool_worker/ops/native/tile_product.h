// Products by AMX: blocks of two by two tiles of sums, 32 tokens by a pair of panels. While tiles
// multiply, the vector units turn the sums of the block before into results.
#pragma once

#include "tiles.h"

#if defined(SPLITPOOL_TILES)
#include <algorithm>

#include "sharing.h"
#include "vector.h"

namespace splitpool {

// Tiles: 0-3 sums of two blocks of tokens by two panels, 4-5 tokens, 6-7 panels.
inline void shape_product(long tokens) {
  const long upper = std::min(tokens, LANES);
  TileShapes shapes;
  for (int tile : {0, 1, 4}) shapes.set(tile, upper, 64);
  for (int tile : {2, 3, 5}) shapes.set(tile, tokens - upper, 64);
  for (int tile : {6, 7}) shapes.set(tile, LANES, 64);
  shapes.use();
}

// Which instruction multiplies tiles; it names registers in its text, so each has four functions.
#define SPLITPOOL_TILE_SUMS(NAME, MULTIPLY)           \
  struct NAME {                                       \
    static void upper_left() { MULTIPLY(0, 4, 6); }   \
    static void upper_right() { MULTIPLY(1, 4, 7); }  \
    static void lower_left() { MULTIPLY(2, 5, 6); }   \
    static void lower_right() { MULTIPLY(3, 5, 7); }  \
  }

// Panels that stay in the second cache while all tokens pass over them.
constexpr long GROUP_BYTES = 512 << 10;

// P has tokens, row_at(token) with row_stride() bytes between rows of row_width() bytes,
// panel_at(index) of panel_size() bytes for each, TileSums, the type Sum of an element, and
// finish(token, pair, left sums, right sums).
template <class P>
class TileProduct {
 public:
  explicit TileProduct(const P& product) : p(product) {}

  // The pairs that are taken, of all tokens.
  void run(Taker take) {
    const long group = std::max(1L, GROUP_BYTES / (2 * p.panel_size()));
    long shaped = 0;
    for (;;) {
      const auto [first, last] = take(group);
      if (first == last) break;
      for (long token = 0; token < p.tokens; token += 2 * LANES) {
        const long count = std::min(2 * LANES, p.tokens - token);
        if (count != shaped) shape_product(shaped = count);
        for (long pair = first; pair < last; ++pair) {
          multiply(token, pair, count);
          before = {token, pair, count};
        }
      }
    }
    finish(before.left);
    _tile_release();
  }

 private:
  typedef typename P::Sum Sum;
  typedef typename P::TileSums TileSums;

  struct Block {
    long token, pair, left;
  };

  const P& p;
  // The block whose sums are in memory, and how many of its results are still to be written.
  Block before = {};
  alignas(64) Sum sums[4][LANES][LANES];

  void finish(long count) {
    for (; count > 0 && before.left > 0; --count) {
      const long row = --before.left;
      const auto* both = sums + row / LANES * 2;
      p.finish(before.token + row, before.pair, both[0][row % LANES], both[1][row % LANES]);
    }
  }

  void multiply(long token, long pair, long count) {
    const char* x = reinterpret_cast<const char*>(p.row_at(token));
    const char* left = reinterpret_cast<const char*>(p.panel_at(pair * 2));
    const char* right = reinterpret_cast<const char*>(p.panel_at(pair * 2 + 1));
    const long stride = p.row_stride(), steps = p.row_width() / 64;
    const long share = (before.left + steps - 1) / steps;
    const bool both = count > LANES;
    settle();
    _tile_zero(0);
    _tile_zero(1);
    if (both) {
      _tile_zero(2);
      _tile_zero(3);
    }
    for (long step = 0; step < steps; ++step) {
      _tile_loadd(4, x + step * 64, stride);
      _tile_loadd(6, left + step * LANES * 64, 64);
      TileSums::upper_left();
      _tile_loadd(7, right + step * LANES * 64, 64);
      TileSums::upper_right();
      if (both) {
        _tile_loadd(5, x + LANES * stride + step * 64, stride);
        TileSums::lower_left();
        TileSums::lower_right();
      }
      finish(share);
    }
    _tile_stored(0, sums[0], 64);
    _tile_stored(1, sums[1], 64);
    if (both) {
      _tile_stored(2, sums[2], 64);
      _tile_stored(3, sums[3], 64);
    }
    settle();
  }
};

}  // namespace splitpool
#endif
