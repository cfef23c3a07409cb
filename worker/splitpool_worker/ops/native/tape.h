// Calls of this library's functions, recorded once and then run one after the other: what steps compute
// differs by their sizes only, and saying it anew takes longer than some of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

namespace splitpool {

constexpr long MOST_ARGUMENTS = 13;

// Pointers and numbers as they are, a float by its bits.
struct Call {
  int64_t function;
  int64_t arguments[MOST_ARGUMENTS];
};

// Where a size of the step stands among the calls' words, and which one.
struct Place {
  int64_t word, size;
};

inline void fill_in(Call* calls, const Place* places, long count, const int64_t* sizes) {
  int64_t* words = reinterpret_cast<int64_t*>(calls);
  for (const Place* one = places; one < places + count; ++one) words[one->word] = sizes[one->size];
}

template <class A>
A argument(int64_t raw) {
  A value;
  static_assert(sizeof value <= sizeof raw);
  std::memcpy(&value, &raw, sizeof value);
  return value;
}

template <class... A, std::size_t... I>
void call(void (*function)(A...), const int64_t* raw, std::index_sequence<I...>) {
  static_assert(sizeof...(A) <= MOST_ARGUMENTS);
  function(argument<A>(raw[I])...);
}

template <class... A>
void call(void (*function)(A...), const int64_t* raw) {
  call(function, raw, std::index_sequence_for<A...>{});
}

// Runs the calls; `apply` makes one. The time of each is added to the seconds of its function.
template <class F>
void run_tape(const Call* calls, long count, double* seconds, F apply) {
  auto last = std::chrono::steady_clock::now();
  for (const Call* one = calls; one < calls + count; ++one) {
    apply(one->function, one->arguments);
    const auto now = std::chrono::steady_clock::now();
    seconds[one->function] += std::chrono::duration<double>(now - last).count();
    last = now;
  }
}

}  // namespace splitpool
