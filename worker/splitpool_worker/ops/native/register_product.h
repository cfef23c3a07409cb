// Products by dot products of registers: a step adds four bytes of each token, in every lane, times
// four bytes of each lane of the panels. While a block of tokens and pairs is multiplied, the sums
// of the block before become results: alone they would wait for each other, and nothing else runs.
#pragma once

#include <algorithm>

#include "next_lines.h"
#include "product.h"
#include "sharing.h"
#include "vector.h"

namespace splitpool {

// As many sums as the registers hold beside a step's lanes: 24 of 32, or 12 of 16.
constexpr long BLOCK_PAIRS = PIECES == 1 ? 2 : 1;
constexpr long BLOCK_TOKENS = PIECES == 1 ? 6 : 3;
constexpr long FEW_TOKENS = 3;
constexpr long BLOCK_RESULTS = BLOCK_PAIRS * BLOCK_TOKENS;
constexpr long STEP_BYTES = 4, LANES_BYTES = LANES * STEP_BYTES;

// P has tokens, row_at(token) with row_stride() bytes between rows of row_width() bytes,
// panel_at(index) of panel_size() bytes for each, the type Sum of an element with
// add(sums, tokens, panels) of registers, and finish(token, pair, left sums, right sums).
template <class P>
class RegisterProduct {
 public:
  explicit RegisterProduct(const P& product) : p(product), steps(p.row_width() / STEP_BYTES) {}

  // The pairs that are taken, of all tokens.
  void run(Taker take) {
    for (;;) {
      const auto [first, last] = take(BLOCK_PAIRS);
      if (first == last) break;
      if (last - first == BLOCK_PAIRS)
        all_tokens<BLOCK_PAIRS>(first);
      else
        all_tokens<1>(first);
    }
    finish_until(0);
  }

 private:
  typedef typename P::Sum Sum;
  typedef typename Vector<Sum, WIDTH>::type Sums;

  // The block whose sums are in memory, and how many of its results are still to be written.
  struct Block {
    long token, pair, pairs, left;
  };

  const P& p;
  const long steps;
  Block before = {};
  alignas(64) Sum results[BLOCK_RESULTS][2][LANES];

  void finish_one() {
    const long result = --before.left;
    p.finish(before.token + result / before.pairs, before.pair + result % before.pairs,
             results[result][0], results[result][1]);
  }

  __attribute__((noinline)) void finish_until(long left) {
    while (before.left > left) finish_one();
  }

  // All tokens over pairs that stay in the second cache, while memory is asked for those that come
  // next. Where it takes no time to multiply, the CPU asks early enough by itself.
  template <long PAIRS>
  void all_tokens(long pair) {
    if (p.tokens <= FEW_TOKENS)
      return with_constant<FEW_TOKENS>(p.tokens, [&](auto n) { multiply<n, PAIRS>(0, pair, [] {}); });
    const long blocks = (p.tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    NextLines next(p.panel_at((pair + PAIRS) * 2), p.panel_size() * PAIRS * 2, steps * blocks);
    by_rows<BLOCK_TOKENS>(p.tokens, [&](auto n, long token) {
      multiply<n, PAIRS>(token, pair, [&] { next(); });
    });
  }

  // Out of line, for inlined copies spill registers. Each sum is named by a constant, for sums that
  // loops name stay in memory.
  template <long TOKENS, long PAIRS, class A>
  __attribute__((noinline, flatten)) void multiply(long token, long pair, A ask) {
    constexpr long PANELS = PAIRS * 2, COLUMNS = PANELS * PIECES;
    Sums sums[TOKENS * COLUMNS];
    repeat<TOKENS * COLUMNS>([&](auto i) { sums[i] = Sums{}; });
    const char* x = reinterpret_cast<const char*>(p.row_at(token));
    const long stride = p.row_stride();
    const char* panels[PANELS];
    repeat<PANELS>([&](auto j) { panels[j] = reinterpret_cast<const char*>(p.panel_at(pair * 2 + j)); });
    finish_until(steps);
    const long apart = steps / std::max(1L, before.left);
    for (long step = 0; step < steps;) {
      for (const long end = before.left ? std::min(step + apart, steps) : steps; step < end; ++step) {
        ask();
        uints lanes[COLUMNS];
        repeat<COLUMNS>([&](auto j) {
          lanes[j] = raw<uints>(panels[j / PIECES] + step * LANES_BYTES + j % PIECES * WIDTH * STEP_BYTES);
        });
        repeat<TOKENS>([&](auto i) {
          const uints four = uints{} + raw<uint32_t>(x + i * stride + step * STEP_BYTES);
          repeat<COLUMNS>([&](auto j) {
            sums[i * COLUMNS + j] = P::add(sums[i * COLUMNS + j], four, lanes[j]);
          });
        });
      }
      if (before.left) finish_one();
    }
    repeat<TOKENS * COLUMNS>([&](auto i) {
      std::memcpy(results[0][0] + i * WIDTH, &sums[i], sizeof sums[i]);
    });
    before = {token, pair, PAIRS, TOKENS * PAIRS};
  }
};

}  // namespace splitpool
