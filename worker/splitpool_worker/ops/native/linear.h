// y = x W^T, with W in panels of 16 rows: [rows / 16][columns / PAIR][16][PAIR], which is at once
// the order of the dot product's lanes and of AMX's right-hand tiles. A row of y never depends on
// which other rows are computed with it.
#pragma once

#include <algorithm>
#include <vector>

#include "next_lines.h"
#include "product.h"
#include "result.h"
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

#if defined(SPLITPOOL_TILES)
  typedef float Sum;
  SPLITPOOL_TILE_SUMS(TileSums, _tile_dpbf16ps);

  const T* row_at(long token) const { return x + token * columns; }
  const T* panel_at(long index) const { return panel(index); }
  long row_stride() const { return columns * sizeof(T); }
  long panel_size() const { return LANES * columns * sizeof(T); }
  long steps() const { return row_stride() / 64; }
  void finish(long token, long pair, const float* left, const float* right) const {
    this->store(token, pair, left, right);
  }
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
void float_product(const P& p, long first, long last) {
  const long most = block_rows(p.columns);
  for (long token = 0; token < p.tokens; token += most) {
    const long tokens = std::min(most, p.tokens - token);
    const float* x = as_floats(p.x + token * p.columns, tokens * p.columns);
    for (long pair = first; pair < last; pair += 2)
      float_pairs(p, x, token, tokens, pair, std::min(2L, last - pair));
  }
}

#if defined(SPLITPOOL_DOT)

// As many accumulators as the registers hold: 24 of 32.
constexpr long PAIR_BLOCK = 2, TOKEN_BLOCK = 6, FEW_TOKENS = PAIR_BLOCK * TOKEN_BLOCK;

// Asks for the panels that are being read, so many columns ahead of what is multiplied.
template <class P>
struct AskForOwn {
  static constexpr long AHEAD = 64;
  const P& p;
  long pair, panels;

  void operator()(long k) const {
    for (long j = 0; j < panels; ++j)
      __builtin_prefetch(p.panel(pair * 2 + j) + (k + AHEAD) * LANES);
  }
};

template <long TOKENS, long PAIRS, class P, class A>
void dot_block(const P& p, long token, long pair, A ask) {
  floats acc[TOKENS][PAIRS * 2] = {};
  const auto* x = p.x + token * p.columns;
  for (long k = 0; k < p.columns; k += PAIR<bf16>) {
    uints weights[PAIRS * 2];
    ask(k);
    for (long j = 0; j < PAIRS; ++j) {
      weights[j * 2] = load_pairs(p.panel((pair + j) * 2) + k * LANES);
      weights[j * 2 + 1] = load_pairs(p.panel((pair + j) * 2 + 1) + k * LANES);
    }
    for (long i = 0; i < TOKENS; ++i) {
      const auto both = spread(x + i * p.columns + k);
      for (long j = 0; j < PAIRS * 2; ++j) acc[i][j] = dot(acc[i][j], both, weights[j]);
    }
  }
  for (long i = 0; i < TOKENS; ++i)
    for (long j = 0; j < PAIRS; ++j)
      p.store(token + i, pair + j, 0, acc[i][j * 2], acc[i][j * 2 + 1]);
}

// All tokens over pairs that stay in the second cache; meanwhile memory is asked for those that
// come next.
template <long PAIRS, class P>
void dot_tokens(const P& p, long pair, long last) {
  const long blocks = (p.tokens + TOKEN_BLOCK - 1) / TOKEN_BLOCK;
  NextLines ask(p.panel(std::min(pair + PAIRS, last - 1) * 2),
                p.columns * PAIRS * 2 * LANES * sizeof(bf16), p.columns / PAIR<bf16> * blocks);
  by_rows(p.tokens, [&](auto n, long token) {
    dot_block<n, PAIRS>(p, token, pair, [&](long) { ask(); });
  });
}

template <class P>
void dot_product(const P& p, long first, long last) {
  long pair = first;
  // Weights are what a step of few tokens waits for: they are multiplied at once and pass by only
  // once.
  if (p.tokens <= FEW_TOKENS && p.tokens > TOKEN_BLOCK)
    return with_constant<FEW_TOKENS>(p.tokens, [&](auto n) {
      for (; pair < last; ++pair) dot_block<n, 1>(p, 0, pair, AskForOwn<P>{p, pair, 2});
    });
  if (p.tokens <= TOKEN_BLOCK)
    return with_constant<TOKEN_BLOCK>(p.tokens, [&](auto n) {
      for (; pair + PAIR_BLOCK <= last; pair += PAIR_BLOCK)
        dot_block<n, PAIR_BLOCK>(p, 0, pair, AskForOwn<P>{p, pair, 2 * PAIR_BLOCK});
      for (; pair < last; ++pair) dot_block<n, 1>(p, 0, pair, AskForOwn<P>{p, pair, 2});
    });
  for (; pair + PAIR_BLOCK <= last; pair += PAIR_BLOCK) dot_tokens<PAIR_BLOCK>(p, pair, last);
  for (; pair < last; ++pair) dot_tokens<1>(p, pair, last);
}

#endif

// Pairs first .. last - 1 of all rows of x.
template <class T, class Y, bool GATED>
void product(const Product<T, Y, GATED>& p, long first, long last) {
#if defined(SPLITPOOL_TILES)
  if constexpr (PAIR<T> == 2)
    if (p.columns % 32 == 0 && tiles_permitted()) return TileProduct(p).run(first, last);
#endif
#if defined(SPLITPOOL_DOT)
  if constexpr (PAIR<T> == 2) return dot_product(p, first, last);
#endif
  float_product(p, first, last);
}

}  // namespace splitpool
