// Where each row's largest element is: what a greedy token is, found while its row is near.
#pragma once

#include <cmath>

#include "vector.h"

namespace splitpool {

// Elements that are looked through for the largest one's place, once it is known to be among them.
constexpr long SPAN = 512;

// The largest of x[0 .. count), NaN where there is one.
inline float largest_of(const float* x, long count) {
  floats most[4], strange{};
  for (floats& each : most) each = broadcast(-INFINITY);
  long i = 0;
  for (; i + 4 * WIDTH <= count; i += 4 * WIDTH)
    for (long j = 0; j < 4; ++j) {
      const floats value = load(x + i + j * WIDTH);
      most[j] = larger(value, most[j]);
      strange += value - value;  // 0 but for what is not finite
    }
  float found = max_of(larger(larger(most[0], most[1]), larger(most[2], most[3])));
  bool nan = std::isnan(sum_of(strange));
  for (; i < count; ++i) {
    found = x[i] > found ? x[i] : found;
    nan |= std::isnan(x[i]);
  }
  if (nan)
    for (i = 0; i < count; ++i)
      if (std::isnan(x[i])) return NAN;
  return found;
}

// The first of the largest elements of a row and its place.
inline void largest(float* value, int64_t* place, const float* row, long width) {
  long from = 0;
  *value = -INFINITY;
  for (long i = 0; i < width; i += SPAN) {
    const float most = largest_of(row + i, std::min(SPAN, width - i));
    if (most > *value) *value = most, from = i;
    if (std::isnan(most)) {
      *value = most, *place = i;
      return;
    }
  }
  while (from + 1 < width && row[from] != *value) ++from;
  *place = from;
}

}  // namespace splitpool
