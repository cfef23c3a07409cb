// Rows in int8: each has one scale, its largest magnitude over 127, so a row never depends on its
// neighbours.
//
// A few elements of an activation are much larger than the rest, which would leave the rest few of
// the steps. So rows are rotated first, block by block, by the Walsh-Hadamard transform, which
// spreads a large element over its block. Both factors of a product are, so the product is the same
// but for the square of the transform's missing factor, which is part of the weights' scales. The
// idea is QuaRot's (arXiv:2404.00456).
//
// Activations are stored 128 higher, as the unsigned factor that the dot products want; what that
// adds to a sum is subtracted per row of the weight (see int8.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

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

typedef Vector<uint8_t, WIDTH>::type bytes;

// Of numbers below 256.
inline bytes to_bytes(uints x) {
#if defined(__AVX512F__)
  return (bytes)_mm512_cvtepi32_epi8((__m512i)x);
#else
  return __builtin_convertvector(__builtin_convertvector(x, shorts), bytes);
#endif
}

inline ints larger(ints x, ints y) { return x > y ? x : y; }

template <class V>
int32_t largest_of(V x) {
  constexpr long half = sizeof(V) / sizeof(int32_t) / 2;
  if constexpr (half == 1) {
    return std::max(x[0], x[1]);
  } else {
    typedef typename Vector<int32_t, half>::type Half;
    Half halves[2];
    std::memcpy(halves, &x, sizeof x);
    return largest_of(halves[0] > halves[1] ? halves[0] : halves[1]);
  }
}

// Sums with the lane H away, or differences from it.
template <long H, size_t... LANE>
floats folded(floats x, std::index_sequence<LANE...>) {
  const floats other = __builtin_shufflevector(x, x, (LANE ^ H)...);
  const floats sign = {(LANE & H ? -1.0f : 1.0f)...};
  return other + x * sign;
}

// The Walsh-Hadamard transform of N elements in place, without its factor of 1 / sqrt(N).
// Inlined and unrolled, for only then does a block stay in registers.
template <long N>
__attribute__((always_inline)) inline void transform(floats (&x)[N / WIDTH]) {
  constexpr long COUNT = N / WIDTH;
  constexpr auto lanes = std::make_index_sequence<WIDTH>{};
#pragma GCC unroll 16
  for (long i = 0; i < COUNT; ++i) {
    x[i] = folded<2>(folded<1>(x[i], lanes), lanes);
    if constexpr (WIDTH >= 8) x[i] = folded<4>(x[i], lanes);
    if constexpr (WIDTH >= 16) x[i] = folded<8>(x[i], lanes);
  }
#pragma GCC unroll 4
  for (long h = 1; h < COUNT; h *= 2)
#pragma GCC unroll 16
    for (long i = 0; i < COUNT; ++i) {
      if (i & h) continue;
      const floats sum = x[i] + x[i + h];
      x[i + h] = x[i] - x[i + h];
      x[i] = sum;
    }
}

// Calls f(N as a constant) with the size of the blocks in which rows of so many columns are
// rotated; `columns` is a multiple of 16.
template <class F>
void with_block(long columns, F f) {
  if (columns % 64 == 0) return f(std::integral_constant<long, 64>{});
  if (columns % 32 == 0) return f(std::integral_constant<long, 32>{});
  f(std::integral_constant<long, 16>{});
}

inline long block_of(long columns) {
  long block = 0;
  with_block(columns, [&](auto n) { block = n; });
  return block;
}

// x rotated block by block; the largest magnitude, as bits. Of floats without their signs the
// larger has the larger bits, and infinity and NaN have the largest.
template <long N, class T>
int32_t rotate(float* to, const T* x, long columns) {
  constexpr long COUNT = N / WIDTH;
  ints most{};
  for (long i = 0; i < columns; i += N) {
    floats block[COUNT];
#pragma GCC unroll 16
    for (long j = 0; j < COUNT; ++j) block[j] = load(x + i + j * WIDTH);
    transform<N>(block);
#pragma GCC unroll 16
    for (long j = 0; j < COUNT; ++j) {
      most = larger(most, (ints)block[j] & 0x7fffffff);
      store(to + i + j * WIDTH, block[j]);
    }
  }
  return largest_of(most);
}

// A row's scale is NaN where an element is not finite; its elements then mean nothing.
template <class T>
void quantise_row(uint8_t* row, const T* x, long columns) {
  thread_local std::vector<float> memory;
  if (static_cast<long>(memory.size()) < columns) memory.resize(columns);
  float* rotated = memory.data();
  int32_t bits = 0;
  with_block(columns, [&](auto n) { bits = rotate<n>(rotated, x, columns); });
  const bool finite = bits < 0x7f800000;
  const float most = finite ? std::max(raw<float>(&bits), LEAST) : 1.0f;
  const float scale = finite ? most / STEPS : std::numeric_limits<float>::quiet_NaN();
  const float inverse = STEPS / most;
  std::memcpy(row, &scale, sizeof scale);
  for (long i = 0; i < columns; i += WIDTH) {
    const ints shifted = nearest(load(rotated + i) * inverse) + MIDDLE;
    const bytes narrow = to_bytes((uints)shifted);
    std::memcpy(row + HEADER + i, &narrow, sizeof narrow);
  }
}

inline float scale_of(const uint8_t* row) { return raw<float>(row); }

}  // namespace splitpool
