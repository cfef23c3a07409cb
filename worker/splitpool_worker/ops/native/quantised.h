// Rows in int8: each has one scale, its largest magnitude over 127, so a row never depends on its
// neighbours. Activations are stored 128 higher, as the unsigned factor that the dot products want;
// what that adds to a sum is subtracted per row of the weight (see int8.h).
#pragma once

#include <cmath>
#include <limits>

#include "vector.h"

namespace splitpool {

// A row of activations: its scale, alone in the first 64 bytes, then its elements.
constexpr long HEADER = 64;
inline long row_bytes(long columns) { return HEADER + columns; }

constexpr float STEPS = 127.0f;
constexpr int32_t MIDDLE = 128;
// Magnitudes below this are 0, so that 127 over a magnitude is never infinite.
constexpr float LEAST = 0x1p-100f;

// Rounded to nearest even.
inline ints nearest(floats x) {
#if defined(__AVX512F__)
  return (ints)_mm512_cvtps_epi32((__m512)x);
#elif defined(__AVX__)
  return (ints)_mm256_cvtps_epi32((__m256)x);
#elif defined(__SSE2__)
  return (ints)_mm_cvtps_epi32((__m128)x);
#else
  ints whole{};
  for (long i = 0; i < WIDTH; ++i) whole[i] = static_cast<int32_t>(std::nearbyint(x[i]));
  return whole;
#endif
}

inline ints larger(ints x, ints y) { return x > y ? x : y; }

// The scale of a row; NaN where an element is not finite. Of floats without their signs the larger
// has the larger bits, and infinity and NaN have the largest.
template <class T>
float scale_of(const T* x, long columns, float* inverse) {
  ints most[2] = {};
  long i = 0;
  for (; i + 2 * WIDTH <= columns; i += 2 * WIDTH)
    for (long j = 0; j < 2; ++j)
      most[j] = larger(most[j], (ints)load(x + i + j * WIDTH) & 0x7fffffff);
  for (; i < columns; i += WIDTH) most[0] = larger(most[0], (ints)load(x + i) & 0x7fffffff);
  int32_t bits = 0;
  most[0] = larger(most[0], most[1]);
  for (long lane = 0; lane < WIDTH; ++lane) bits = most[0][lane] > bits ? most[0][lane] : bits;
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof bits);
  *inverse = 0.0f;
  if (bits >= 0x7f800000) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude < LEAST) magnitude = LEAST;
  *inverse = STEPS / magnitude;
  return magnitude / STEPS;
}

// `columns` is a multiple of WIDTH. Elements of a row whose scale is NaN mean nothing.
template <class T>
void quantise_row(uint8_t* row, const T* x, long columns) {
  typedef typename Vector<uint8_t, WIDTH>::type bytes;
  float inverse;
  const float scale = scale_of(x, columns, &inverse);
  std::memcpy(row, &scale, sizeof scale);
  for (long i = 0; i < columns; i += WIDTH) {
    const ints shifted = nearest(load(x + i) * inverse) + MIDDLE;
    const bytes narrow = __builtin_convertvector((uints)shifted, bytes);
    std::memcpy(row + HEADER + i, &narrow, sizeof narrow);
  }
}

inline float scale_of(const uint8_t* row) { return raw<float>(row); }

}  // namespace splitpool
