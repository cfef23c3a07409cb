// Work in parts for several threads. They are OpenMP's, shared with torch (the process has one
// libgomp).
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace splitpool {

inline int threads = 1;

// Elements that keep a thread busy for longer than it takes to wake it.
constexpr long GRAIN = 16 << 10;

// How many threads `count` pieces of `elements` in all are worth.
inline long parts_of(long count, long elements) {
  return std::max(1L, std::min({static_cast<long>(threads), count, elements / GRAIN}));
}

// Calls f(0), ..., f(parts - 1), each on a thread of its own.
template <class F>
void on_threads(long parts, F f) {
  if (parts == 1) return f(0L);
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (long part = 0; part < parts; ++part) f(part);
}

struct Range {
  long first, last;
};

inline Range part_of(long count, long part, long parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

// Calls f(first, last) on as many threads as `elements` are worth, each with its part of [0, count).
template <class F>
void share(long count, long elements, F f) {
  const long parts = parts_of(count, elements);
  on_threads(parts, [&](long part) {
    const auto [first, last] = part_of(count, part, parts);
    f(first, last);
  });
}

// [0, count) in parts, one for each thread, who takes from its front; who has none left helps the
// others from the back of theirs. So a thread that the system stops for a while holds up no one for
// longer than its piece takes, and the others read on where they are.
class Ranges {
 public:
  Ranges(long count, long parts) : ranges(parts) {
    for (long part = 0; part < parts; ++part)
      ranges[part].ends = packed(part_of(count, part, parts));
  }

  // At most `most` of what is left; empty when nothing is.
  Range take(long part, long most) {
    Range taken = front(part, most);
    const long parts = static_cast<long>(ranges.size());
    for (long i = 1; i < parts && taken.first == taken.last; ++i) taken = back((part + i) % parts, most);
    return taken;
  }

 private:
  struct alignas(64) Shared {
    std::atomic<uint64_t> ends{0};
  };
  std::vector<Shared> ranges;

  static uint64_t packed(Range range) {
    return static_cast<uint64_t>(range.first) << 32 | static_cast<uint64_t>(range.last);
  }
  static Range ends(uint64_t both) {
    return {static_cast<long>(both >> 32), static_cast<long>(both & 0xffffffff)};
  }

  Range front(long part, long most) {
    uint64_t both = ranges[part].ends;
    for (;;) {
      const Range range = ends(both);
      const long middle = std::min(range.first + most, range.last);
      if (ranges[part].ends.compare_exchange_weak(both, packed({middle, range.last})))
        return {range.first, middle};
    }
  }

  Range back(long part, long most) {
    uint64_t both = ranges[part].ends;
    for (;;) {
      const Range range = ends(both);
      const long left = range.last - range.first, middle = range.last - std::min(most, (left + 1) / 2);
      if (ranges[part].ends.compare_exchange_weak(both, packed({range.first, middle})))
        return {middle, range.last};
    }
  }
};

// A thread's view of ranges.
struct Taker {
  Ranges& ranges;
  long part;

  Range operator()(long most) const { return ranges.take(part, most); }
};

// Calls f(taker) on as many threads as `elements` are worth.
template <class F>
void share_ranges(long count, long elements, F f) {
  const long parts = parts_of(count, elements);
  Ranges ranges(count, parts);
  on_threads(parts, [&](long part) { f(Taker{ranges, part}); });
}

}  // namespace splitpool
