// What is read next is asked for while something else is computed.
#pragma once

namespace splitpool {

// `bytes` from some place on, over so many calls and into the second cache.
struct NextLines {
  const char* at;
  const char* end;
  long each;

  NextLines(const void* from, long bytes, long calls)
      : at(static_cast<const char*>(from)), end(at + bytes), each((bytes / 64 + calls - 1) / calls) {}

  void operator()() {
    for (long i = 0; i < each; ++i, at += 64)
      if (at < end) __builtin_prefetch(at, 0, 2);
  }
};

}  // namespace splitpool
