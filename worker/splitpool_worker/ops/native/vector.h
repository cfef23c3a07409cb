// Sixteen floats at a time. Compilers turn these types into whatever the CPU has (one AVX-512
// register, two of AVX2, four of NEON); only the bf16 dot product and rounding name instructions.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace splitpool {

typedef float f32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));

constexpr long LANES = 16;
const i32x16 LANE = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct bf16 {
  uint16_t bits;
};

// Elements that one step of a dot product multiplies and adds up in a lane. Weights, K and V are
// stored in groups of this many, so that a group of sixteen lanes is one load.
template <class T>
constexpr long PAIR = 1;
template <>
constexpr long PAIR<bf16> = 2;

template <class V, class P>
inline V load(const P* from) {
  V value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline f32x16 broadcast(float x) { return f32x16{} + x; }

inline f32x16 load16(const float* from) { return load<f32x16>(from); }
inline f32x16 load16(const bf16* from) {
  return (f32x16)(__builtin_convertvector(load<u16x16>(from), u32x16) << 16);
}

// Round to nearest even; NaN stays NaN.
inline u16x16 to_bf16(f32x16 x) {
#if defined(__AVX512BF16__)
  return (u16x16)_mm512_cvtneps_pbh((__m512)x);
#else
  u32x16 bits = (u32x16)x;
  u32x16 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  u32x16 nan = (bits >> 16) | 0x40u;
  return __builtin_convertvector(x != x ? nan : rounded, u16x16);
#endif
}

inline void store16(float* to, f32x16 x) { std::memcpy(to, &x, sizeof x); }
inline void store16(bf16* to, f32x16 x) {
  u16x16 rounded = to_bf16(x);
  std::memcpy(to, &rounded, sizeof rounded);
}

template <class T>
inline f32x16 rounded_to(f32x16 x);
template <>
inline f32x16 rounded_to<float>(f32x16 x) { return x; }
template <>
inline f32x16 rounded_to<bf16>(f32x16 x) {
  return (f32x16)(__builtin_convertvector(to_bf16(x), u32x16) << 16);
}

// acc[lane] += sum over p of a[p] * b[lane][p], where `spread` repeats the pair a in every lane and
// `group` loads the sixteen pairs of b.
inline f32x16 spread(const float* a) { return broadcast(*a); }
inline u32x16 spread(const bf16* a) { return u32x16{} + load<uint32_t>(a); }
inline f32x16 group(const float* b) { return load16(b); }
inline u32x16 group(const bf16* b) { return load<u32x16>(b); }

inline f32x16 dot(f32x16 acc, f32x16 a, f32x16 b) { return acc + a * b; }
inline f32x16 dot(f32x16 acc, u32x16 a, u32x16 b) {
#if defined(__AVX512BF16__)
  return (f32x16)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b);
#else
  const u32x16 odd = u32x16{} + 0xffff0000u;
  acc += (f32x16)(a << 16) * (f32x16)(b << 16);
  return acc + (f32x16)(a & odd) * (f32x16)(b & odd);
#endif
}

inline f32x16 at_least(f32x16 x, f32x16 least) { return x < least ? least : x; }  // NaN stays

// Halves are folded onto each other until one lane is left. Out of line: taking a vector's address
// inside a caller's loop would keep its accumulator in memory.
template <class F>
inline float fold(f32x16 x, F f) {
  typedef float f32x8 __attribute__((vector_size(32)));
  typedef float f32x4 __attribute__((vector_size(16)));
  const float* lanes = reinterpret_cast<const float*>(&x);
  f32x8 eight = f(load<f32x8>(lanes), load<f32x8>(lanes + 8));
  lanes = reinterpret_cast<const float*>(&eight);
  f32x4 four = f(load<f32x4>(lanes), load<f32x4>(lanes + 4));
  return f(f(four[0], four[2]), f(four[1], four[3]));
}

__attribute__((noinline)) inline float max_of(f32x16 x) {
  return fold(x, [](auto a, auto b) { return a > b ? a : b; });
}

__attribute__((noinline)) inline float sum_of(f32x16 x) {
  return fold(x, [](auto a, auto b) { return a + b; });
}

// Taylor series of 2^r for |r| <= 1/2 (relative error below 2e-7), times 2 to the whole part, which
// adding 1.5 * 2^23 leaves in the low bits. Below 2^-126 it is 0; NaN stays NaN. x is at most 127.
inline f32x16 exp2_of(f32x16 x) {
  const float magic = 12582912.0f;
  const f32x16 shifted = x + magic;
  const f32x16 r = x - (shifted - magic);
  f32x16 p = r * 1.5403530e-4f + 1.3333558e-3f;
  p = p * r + 9.6181291e-3f;
  p = p * r + 5.5504109e-2f;
  p = p * r + 2.4022651e-1f;
  p = p * r + 6.9314718e-1f;
  p = p * r + 1.0f;
  p *= (f32x16)(((u32x16)shifted << 23) + 0x3f800000u);  // the exponent's bits; 127 stands for 2^0
  return x < -126.0f ? f32x16{} : p;
}

constexpr float LOG2_E = 1.44269504f;

}  // namespace splitpool
