// What a product with panels of sixteen rows of a weight gives: panels go two at a time, and the
// MLP's activation is part of its product, so that gate and up are never written.
#pragma once

#include <algorithm>
#include <type_traits>

#include "vector.h"

namespace splitpool {

inline long panels_of(long rows) { return (rows + LANES - 1) / LANES; }

// silu(gate) * up, each factor rounded as a chain of operations would round it.
template <class T>
floats gated(floats gate, floats up) {
  gate = rounded_to<T>(gate);
  // The exponent is bounded: 2^127 sends the quotient to 0 as well as infinity does.
  const floats inverse = exp2_of<T>(-at_least(gate * LOG2_E, broadcast(-127.0f)));
  return rounded_to<T>(gate / (inverse + 1.0f)) * rounded_to<T>(up);
}

// y [tokens, rows]. With GATED a pair is sixteen rows of the gate and the same rows of up, and one
// result of both; `rows` is then the width of that result.
template <class T, class Y, bool GATED>
struct Result {
  Y* y;
  long tokens, rows;

  long pairs() const { return GATED ? panels_of(rows) : (panels_of(rows) + 1) / 2; }
  long panels() const { return GATED ? 2 * panels_of(rows) : panels_of(rows); }
  // A pair without a right panel multiplies its left one twice.
  long existing(long panel) const { return std::min(panel, panels() - 1); }

  // The results of a pair: sixteen of each panel.
  void store(long token, long pair, const float* left, const float* right) const {
    for (long lane = 0; lane < LANES; lane += WIDTH)
      store(token, pair, lane, load(left + lane), load(right + lane));
  }

  void store(long token, long pair, long lane, floats left, floats right) const {
    if constexpr (GATED) return write(token, pair * LANES + lane, gated<T>(left, right));
    write(token, pair * 2 * LANES + lane, left);
    write(token, (pair * 2 + 1) * LANES + lane, right);
  }

  // Results from `row` on, of rows that exist; rounded to the model's type whatever the type of y.
  void write(long token, long row, floats values) const {
    if constexpr (!std::is_same_v<T, Y>) values = rounded_to<T>(values);
    Y* to = y + token * rows + row;
    if (row + WIDTH <= rows) return splitpool::store(to, values);
    if (row >= rows) return;
    Y whole[WIDTH];
    splitpool::store(whole, values);
    std::memcpy(to, whole, sizeof(Y) * (rows - row));
  }
};

}  // namespace splitpool
