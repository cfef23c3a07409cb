// As many floats at a time as a register holds: 16 with AVX-512, 8 with AVX, 4 elsewhere. Wider
// types than the CPU's own would spill. Only rounding and the bf16 dot product name instructions.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace splitpool {

#if defined(__AVX512F__)
constexpr long WIDTH = 16;
#elif defined(__AVX__)
constexpr long WIDTH = 8;
#else
constexpr long WIDTH = 4;
#endif

template <class E, long COUNT>
struct Vector {
  typedef E type __attribute__((vector_size(sizeof(E) * COUNT)));
};
typedef Vector<float, WIDTH>::type floats;
typedef Vector<uint32_t, WIDTH>::type uints;
typedef Vector<int32_t, WIDTH>::type ints;
typedef Vector<uint16_t, WIDTH>::type shorts;

// Rows of a panel of weights, keys of a tile: the unit of every layout in memory.
constexpr long LANES = 16, PIECES = LANES / WIDTH;

struct bf16 {
  uint16_t bits;
};

// Elements that one step of a dot product multiplies and adds up in a lane. Weights, K and V are
// stored in groups of this many, so that groups of neighbouring lanes are one load.
template <class T>
constexpr long PAIR = 1;
template <>
constexpr long PAIR<bf16> = 2;

template <class V, class P>
inline V raw(const P* from) {
  V value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// 0, 1, 2, ...
inline ints counted() {
  ints lanes{};
  for (long i = 0; i < WIDTH; ++i) lanes[i] = static_cast<int32_t>(i);
  return lanes;
}

inline floats broadcast(float x) { return x - floats{}; }  // x + 0 would not keep -0

// The floats whose upper halves are given.
inline floats from_bf16(shorts halves) {
#if defined(__AVX512F__)
  return (floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)halves), 16);
#else
  return (floats)(__builtin_convertvector(halves, uints) << 16);
#endif
}

inline floats load(const float* from) { return raw<floats>(from); }
inline floats load(const bf16* from) { return from_bf16(raw<shorts>(from)); }

// Round to nearest even; NaN stays NaN.
inline shorts to_bf16(floats x) {
#if defined(__AVX512BF16__)
  return (shorts)_mm512_cvtneps_pbh((__m512)x);
#else
  uints bits = (uints)x;
  uints rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uints nan = (bits >> 16) | 0x40u;
  return __builtin_convertvector(x != x ? nan : rounded, shorts);
#endif
}

inline void store(float* to, floats x) { std::memcpy(to, &x, sizeof x); }
inline void store(bf16* to, floats x) {
  shorts rounded = to_bf16(x);
  std::memcpy(to, &rounded, sizeof rounded);
}

template <class T>
inline floats rounded_to(floats x);
template <>
inline floats rounded_to<float>(floats x) { return x; }
template <>
inline floats rounded_to<bf16>(floats x) {
  return from_bf16(to_bf16(x));
}

#if defined(__AVX512BF16__)
#define SPLITPOOL_DOT 1
// acc[lane] += sum over p of a[p] * b[lane][p], where `spread` repeats the pair a in every lane.
inline uints spread(const bf16* a) { return uints{} + raw<uint32_t>(a); }
inline uints load_pairs(const bf16* b) { return raw<uints>(b); }
inline floats dot(floats acc, uints a, uints b) {
  return (floats)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b);
}
#endif

inline floats larger(floats x, floats y) { return x > y ? x : y; }
inline floats at_least(floats x, floats least) { return x < least ? least : x; }  // NaN stays

// Halves are folded onto each other until one lane is left.
template <class V, class F>
inline float fold(V x, F f) {
  constexpr long half = sizeof(V) / sizeof(float) / 2;
  if constexpr (half == 1) {
    return f(x[0], x[1]);
  } else {
    typedef typename Vector<float, half>::type Half;
    Half halves[2];
    std::memcpy(halves, &x, sizeof x);
    return fold(f(halves[0], halves[1]), f);
  }
}

inline float max_of(floats x) {
  return fold(x, [](auto a, auto b) { return a > b ? a : b; });
}

inline float sum_of(floats x) {
  return fold(x, [](auto a, auto b) { return a + b; });
}

// 2^x for x up to 127: to a relative 1e-7, or 3e-6 for what is rounded to bf16 afterwards. Below
// 2^-126 it is 0; NaN stays NaN. The polynomials have the least largest error for |r| <= 1/2 of those
// that are 1 at 0.
template <class T>
inline floats exp2_of(floats x) {
#if defined(__AVX512DQ__)
  const floats r = (floats)_mm512_reduce_ps((__m512)x, 0);  // x - its nearest integer
  const floats whole = x - r;
#else
  const float magic = 12582912.0f;  // 1.5 * 2^23: the whole part is left in the low bits
  const floats shifted = x + magic;
  const floats r = x - (shifted - magic);
#endif
  floats p;
  if constexpr (PAIR<T> == 1) {
    p = r * 1.3264727e-3f + 9.6715130e-3f;
    p = p * r + 5.5507336e-2f;
    p = p * r + 2.4022242e-1f;
    p = p * r + 6.9314700e-1f;
  } else {
    p = r * 9.5828529e-3f + 5.5906426e-2f;
    p = p * r + 2.4024099e-1f;
    p = p * r + 6.9312418e-1f;
  }
  p = p * r + 1.0f;
#if defined(__AVX512DQ__)
  const __mmask16 normal = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
  return (floats)_mm512_maskz_scalef_ps(normal, (__m512)p, (__m512)whole);
#else
  p *= (floats)(((uints)shifted << 23) + 0x3f800000u);  // the exponent's bits; 127 stands for 2^0
  return x < -126.0f ? floats{} : p;
#endif
}

constexpr float LOG2_E = 1.44269504f;

}  // namespace splitpool
