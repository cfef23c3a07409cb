// Causal attention of queries to a sequence's paged keys and values, in one pass with a running
// maximum (online softmax, arXiv:2205.14135), scores and sums in float32.
//
// A block of K is [kv heads][head_dim / PAIR][block_size][PAIR], one of V is
// [kv heads][block_size / PAIR][head_dim][PAIR]: sixteen keys, or sixteen elements of a value, are
// one load, and a right-hand tile of AMX. The query heads that share a key head are rows beside
// each other. Keys are taken in chunks that start at multiples of KEYS from the sequence's start,
// so a row's result depends neither on the other rows nor on how a prompt was cut.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "product.h"
#include "tiles.h"
#include "vector.h"

namespace splitpool {

constexpr long MOST_ROWS = 36, PADDED_ROWS = (MOST_ROWS + LANES - 1) / LANES * LANES;
constexpr long KEYS = 256, MAX_HEAD_DIM = 256, KEY_TILES = KEYS / LANES;

struct Paged {
  const int32_t* table;
  long block_size, kv_heads, head_dim, context;

  // Elements before a head's part of the block that holds a key.
  long base(long head, long key) const {
    return (table[key / block_size] * kv_heads + head) * head_dim * block_size;
  }
  template <class T>
  const T* keys(const T* k, long head, long key) const {
    return k + base(head, key) + key % block_size * PAIR<T>;
  }
  template <class T>
  const T* values(const T* v, long head, long key) const {
    return v + base(head, key) + key % block_size * head_dim;
  }
};

// Sixteens of keys and values in the order in which a few rows read them, which takes as long as
// memory takes. For each line that is read, one of a later sixteen is asked for, into the second
// cache: the first can wait for too few at a time.
template <class T>
struct Ahead {
  static constexpr long DISTANCE = 4, LINE = 64 / sizeof(T);
  const T* tiles[2 * KEY_TILES + 2 * DISTANCE];
  long count = 0;

  void add(const T* tile) { tiles[count++] = tile; }
  const T* const* later(long tile) const { return tiles + tile + DISTANCE; }
  // What is there already takes the places of what nobody knows yet.
  void fill(long places) {
    while (count < places + DISTANCE) add(tiles[0]);
  }
};

// While keys are multiplied: `tiles` are those read from the first one on.
template <class T>
struct AskBesideKeys {
  const T* const* tiles;
  void operator()(long, long k, long tile) const {
    __builtin_prefetch(tiles[tile] + k / PAIR<T> * Ahead<T>::LINE, 0, 2);
  }
};

// While values are multiplied, of which a column is LANES / PAIR lines.
template <class T>
struct AskBesideValues {
  const T* const* tiles;
  long column;
  void operator()(long segment, long k, long tile) const {
    const long line = (column + tile) * LANES / PAIR<T> + k / PAIR<T>;
    __builtin_prefetch(tiles[segment] + line * Ahead<T>::LINE, 0, 2);
  }
};

// Queries of one sequence that attend together, and their state. LEFT is the type of what a kernel
// multiplies keys and values with.
template <class T, class LEFT>
struct Rows {
  long count, last_position;
  long position[MOST_ROWS];
  alignas(64) LEFT query[MOST_ROWS * MAX_HEAD_DIM];
  float highest[PADDED_ROWS], total[PADDED_ROWS];
  alignas(64) float scores[MOST_ROWS * KEYS];
  alignas(64) LEFT weights[MOST_ROWS * KEYS];
  alignas(64) float sums[MOST_ROWS * MAX_HEAD_DIM];
  alignas(64) T tail[LANES * MAX_HEAD_DIM];
  const T* keys[KEY_TILES];
  const T* values[KEY_TILES];
  Ahead<T> ahead;

  bool few() const { return count <= ROW_BLOCK; }
};

// Where each sixteen keys of a chunk lie. Slots past the context may hold anything, and 0 * NaN is
// NaN: the values of a last, partial sixteen are copied and the rest of them zeroed.
template <class T, class LEFT>
void locate(Rows<T, LEFT>& rows, const Paged& at, const T* k, const T* v, long head, long start,
            long tiles) {
  for (long tile = 0; tile < tiles; ++tile) {
    const long key = start + tile * LANES;
    rows.keys[tile] = at.keys(k, head, key);
    rows.values[tile] = at.values(v, head, key);
    if (key + LANES <= at.context) continue;
    std::memcpy(rows.tail, rows.values[tile], sizeof(T) * LANES * at.head_dim);
    for (long slot = at.context - key; slot < LANES; ++slot)
      for (long i = 0; i < at.head_dim; ++i)
        rows.tail[(slot / PAIR<T> * at.head_dim + i) * PAIR<T> + slot % PAIR<T>] = T{};
    rows.values[tile] = rows.tail;
  }
}

// Sums in registers, of products of floats or of pairs of bf16.
template <class T, class LEFT>
struct RegisterKernel {
  typedef LEFT Left;
  static constexpr long ROWS = 36;
  static constexpr bool LOOKS_AHEAD = true;
  static void end() {}

  static void scores(Rows<T, LEFT>& rows, const Paged& at, long tiles) {
    const auto each = [&](auto n, long row, auto ask) {
      by_tiles<n>(tiles, [&](auto m, long tile) {
        multiply<n, m>(false, rows.scores + row * KEYS + tile * LANES, KEYS,
                       rows.query + row * at.head_dim, at.head_dim, Tiles<T>{rows.keys + tile},
                       at.block_size, at.head_dim, 1, ask(tile));
      });
    };
    by_rows(rows.count, [&](auto n, long row) {
      if (rows.few())
        each(n, row, [&](long tile) { return AskBesideKeys<T>{rows.ahead.later(tile)}; });
      else
        each(n, row, [](long) { return NothingAhead{}; });
    });
  }

  static void sums(Rows<T, LEFT>& rows, const Paged& at, long tiles) {
    const auto each = [&](auto n, long row, auto ask) {
      by_tiles<n>(at.head_dim / LANES, [&](auto m, long column) {
        const Segments<T> values{rows.values, column * LANES * PAIR<T>};
        multiply<n, m>(true, rows.sums + row * at.head_dim + column * LANES, at.head_dim,
                       rows.weights + row * KEYS, KEYS, values, at.head_dim, LANES, tiles,
                       ask(column));
      });
    };
    by_rows(rows.count, [&](auto n, long row) {
      if (rows.few())
        each(n, row, [&](long column) {
          return AskBesideValues<T>{rows.ahead.later(tiles), column};
        });
      else
        each(n, row, [](long) { return NothingAhead{}; });
    });
  }
};

#if defined(SPLITPOOL_TILES)

// Tiles: 0-3 results of two blocks of rows by two right-hand tiles, 4-5 rows (queries or weights),
// 6-7 right-hand tiles (keys or values).
struct TileKernel {
  typedef bf16 Left;
  static constexpr long ROWS = 32;
  static constexpr bool LOOKS_AHEAD = false;
  static void end() { _tile_release(); }

  // A row of the left-hand tiles is `bytes` long, and the right-hand ones have a row for each pair.
  static void shape(long count, long bytes) {
    const long upper = std::min(count, LANES);
    TileShapes shapes;
    for (int tile : {0, 2}) shapes.set(tile, upper, 64);
    for (int tile : {1, 3}) shapes.set(tile, count - upper, 64);
    shapes.set(4, upper, bytes);
    shapes.set(5, count - upper, bytes);
    for (int tile : {6, 7}) shapes.set(tile, bytes / 4, 64);
    shapes.use();
  }

  static void scores(Rows<bf16, bf16>& rows, const Paged& at, long tiles) {
    shape(rows.count, 64);
    const bool lower = rows.count > LANES;
    const long key_stride = at.block_size * 4, query_stride = at.head_dim * 2;
    for (long tile = 0; tile < tiles; tile += 2) {
      const bool right = tile + 1 < tiles;
      // Few rows wait for memory: values are asked for while keys are multiplied.
      if (!lower)
        for (long i = tile; i < tile + 1 + right; ++i)
          for (long element = 0; element < LANES * at.head_dim; element += 32)
            __builtin_prefetch(rows.values[i] + element);
      zero(lower, right);
      for (long i = 0; i < at.head_dim; i += 32) {
        _tile_loadd(6, rows.keys[tile] + i * at.block_size, key_stride);
        if (right) _tile_loadd(7, rows.keys[tile + 1] + i * at.block_size, key_stride);
        _tile_loadd(4, rows.query + i, query_stride);
        if (lower) _tile_loadd(5, rows.query + LANES * at.head_dim + i, query_stride);
        multiply(lower, right);
      }
      float* to = rows.scores + tile * LANES;
      _tile_stored(0, to, KEYS * 4);
      if (right) _tile_stored(2, to + LANES, KEYS * 4);
      if (lower) _tile_stored(1, to + LANES * KEYS, KEYS * 4);
      if (lower && right) _tile_stored(3, to + LANES * KEYS + LANES, KEYS * 4);
    }
  }

  static void sums(Rows<bf16, bf16>& rows, const Paged& at, long tiles) {
    shape(rows.count, 32);
    const bool lower = rows.count > LANES;
    const long stride = at.head_dim * 4;
    for (long column = 0; column < at.head_dim; column += 32) {
      float* to = rows.sums + column;
      _tile_loadd(0, to, stride);
      _tile_loadd(2, to + LANES, stride);
      if (lower) _tile_loadd(1, to + LANES * at.head_dim, stride);
      if (lower) _tile_loadd(3, to + LANES * at.head_dim + LANES, stride);
      for (long tile = 0; tile < tiles; ++tile) {
        _tile_loadd(6, rows.values[tile] + column * 2, stride);
        _tile_loadd(7, rows.values[tile] + column * 2 + 32, stride);
        _tile_loadd(4, rows.weights + tile * LANES, KEYS * 2);
        if (lower) _tile_loadd(5, rows.weights + LANES * KEYS + tile * LANES, KEYS * 2);
        multiply(lower, true);
      }
      _tile_stored(0, to, stride);
      _tile_stored(2, to + LANES, stride);
      if (lower) _tile_stored(1, to + LANES * at.head_dim, stride);
      if (lower) _tile_stored(3, to + LANES * at.head_dim + LANES, stride);
    }
  }

  static void zero(bool lower, bool right) {
    _tile_zero(0);
    if (right) _tile_zero(2);
    if (lower) _tile_zero(1);
    if (lower && right) _tile_zero(3);
  }

  static void multiply(bool lower, bool right) {
    _tile_dpbf16ps(0, 4, 6);
    if (right) _tile_dpbf16ps(2, 4, 7);
    if (lower) _tile_dpbf16ps(1, 5, 6);
    if (lower && right) _tile_dpbf16ps(3, 5, 7);
  }
};

#endif

// Scores that a row must not see become -infinity; the largest of the others.
inline float largest(float* scores, long seen, long end) {
  const floats hidden = broadcast(-std::numeric_limits<float>::infinity());
  for (long key = std::max(0L, seen) / WIDTH * WIDTH; key < end; key += WIDTH) {
    const ints past = counted() + static_cast<int32_t>(key - seen);
    store(scores + key, past < 0 ? load(scores + key) : hidden);
  }
  floats most[PIECES * 2];
  std::fill_n(most, PIECES * 2, hidden);
  long key = 0;
  for (; key + 2 * LANES <= end; key += 2 * LANES)
    for (long i = 0; i < PIECES * 2; ++i) most[i] = larger(load(scores + key + i * WIDTH), most[i]);
  for (; key < end; key += WIDTH) most[0] = larger(load(scores + key), most[0]);
  for (long i = 1; i < PIECES * 2; ++i) most[0] = larger(most[i], most[0]);
  return max_of(most[0]);
}

// exp2(score * scale - highest), and their sum before rounding. They are rounded as a chain of
// operations would round them, whatever they are multiplied as.
template <class T, class LEFT>
float exponentials(LEFT* weights, const float* scores, float scale, float highest, long end) {
  floats total{};
  for (long key = 0; key < end; key += WIDTH) {
    const floats weight = exp2_of<T>(load(scores + key) * scale - highest);
    total += weight;
    if constexpr (std::is_same_v<T, LEFT>)
      store(weights + key, weight);
    else
      store(weights + key, rounded_to<T>(weight));
  }
  return sum_of(total);
}

// Scores of a chunk -> unnormalised weights; older sums shrink where the maximum has grown.
// `scale` turns scores into exponents of 2. Every loop is over all rows, since a row alone is a
// chain of results that wait for each other.
template <class T, class LEFT>
void soften(Rows<T, LEFT>& rows, long start, long tiles, long head_dim, float scale) {
  const long end = tiles * LANES;
  float shrink[PADDED_ROWS];
  std::memcpy(shrink, rows.highest, sizeof shrink);
  for (long row = 0; row < rows.count; ++row) {
    const float most = largest(rows.scores + row * KEYS, rows.position[row] - start + 1, end);
    rows.highest[row] = std::max(rows.highest[row], most * scale);
  }
  for (long row = 0; row < rows.count; row += WIDTH) {
    const floats factor = exp2_of<float>(load(shrink + row) - load(rows.highest + row));
    store(shrink + row, factor);
    store(rows.total + row, load(rows.total + row) * factor);
  }
  for (long row = 0; row < rows.count; ++row)
    rows.total[row] += exponentials<T>(rows.weights + row * KEYS, rows.scores + row * KEYS, scale,
                                       rows.highest[row], end);
  for (long row = 0; row < rows.count; ++row) {
    if (shrink[row] == 1.0f) continue;
    float* sums = rows.sums + row * head_dim;
    for (long i = 0; i < head_dim; i += WIDTH) store(sums + i, load(sums + i) * shrink[row]);
  }
}

// What a thread attends to after this.
struct Next {
  Paged at;
  long head;
};

// What few rows read in a chunk and just after it.
template <class T, class LEFT>
void look_ahead(Rows<T, LEFT>& rows, const Paged& at, const T* k, long head, long start, long tiles,
                const Next* next) {
  rows.ahead.count = 0;
  if (!rows.few()) return;
  for (long tile = 0; tile < tiles; ++tile) rows.ahead.add(rows.keys[tile]);
  for (long tile = 0; tile < tiles; ++tile) rows.ahead.add(rows.values[tile]);
  const bool goes_on = start + KEYS < at.context;
  const Next following = goes_on || !next ? Next{at, head} : *next;
  long key = goes_on ? start + KEYS : 0;
  for (long i = 0; i < Ahead<T>::DISTANCE && key < following.at.context; ++i, key += LANES)
    rows.ahead.add(following.at.keys(k, following.head, key));
  rows.ahead.fill(2 * tiles);
}

template <class Kernel, class T>
void attend(Rows<T, typename Kernel::Left>& rows, const Paged& at, const T* k, const T* v,
            long head, float scale, const Next* next) {
  std::fill_n(rows.highest, PADDED_ROWS, -std::numeric_limits<float>::infinity());
  std::fill_n(rows.total, PADDED_ROWS, 0.0f);
  std::fill_n(rows.sums, rows.count * at.head_dim, 0.0f);
  for (long start = 0; start <= rows.last_position; start += KEYS) {
    long tiles = (std::min(KEYS, rows.last_position + 1 - start) + LANES - 1) / LANES;
    locate(rows, at, k, v, head, start, tiles);
    if constexpr (Kernel::LOOKS_AHEAD) look_ahead(rows, at, k, head, start, tiles, next);
    Kernel::scores(rows, at, tiles);
    soften(rows, start, tiles, at.head_dim, scale * LOG2_E);
    Kernel::sums(rows, at, tiles);
  }
  Kernel::end();
}

// Calls f with the fastest kernel that this CPU has for T.
template <class T, class F>
void with_kernel([[maybe_unused]] long head_dim, F f) {
#if defined(SPLITPOOL_TILES)
  if constexpr (PAIR<T> == 2)
    if (head_dim % 32 == 0 && tiles_permitted()) return f(TileKernel{});
#endif
#if defined(SPLITPOOL_DOT)
  if constexpr (PAIR<T> == 2) return f(RegisterKernel<bf16, bf16>{});
#endif
  f(RegisterKernel<T, float>{});
}

}  // namespace splitpool
