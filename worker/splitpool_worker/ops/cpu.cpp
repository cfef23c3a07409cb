// The operations for CPUs, for bfloat16 and float32, as plain C functions on raw pointers: nothing
// here depends on torch's headers or ABI, so it compiles in seconds. Shapes are the caller's duty.
#include <atomic>
#include <cmath>
#include <vector>

#include "native/attention.h"
#include "native/int8.h"
#include "native/largest.h"
#include "native/linear.h"
#include "native/sharing.h"
#include "native/tape.h"
#include "native/vector.h"

namespace splitpool {
namespace {

// Panels of the weight to every `stride`-th place of `packed`, `offset` places on.
template <class T>
void pack(T* packed, const T* weight, long rows, long columns, long stride, long offset) {
  share(panels_of(rows), rows * columns, [&](long first, long last) {
    for (long panel = first; panel < last; ++panel)
      pack_panel(packed + (panel * stride + offset) * LANES * columns,
                 weight + panel * LANES * columns, std::min(LANES, rows - panel * LANES), columns);
  });
}

template <class T>
void embed(T* out, const T* packed, const int64_t* tokens, long count, long columns) {
  share(count, count * columns, [&](long first, long last) {
    for (long i = first; i < last; ++i) unpack_row(out + i * columns, packed, tokens[i], columns);
  });
}

template <bool GATED, class T, class Y>
void linear(Y* y, const T* x, const T* packed, long tokens, long columns, long rows) {
  const Product<T, Y, GATED> whole{{y, tokens, rows}, x, packed, columns};
  share_ranges(whole.pairs(), whole.panels() * LANES * columns,
               [&](Taker take) { product(whole, take); });
}

// Rows of any type to rows of int8.
template <class T>
void quantise(uint8_t* out, const T* x, long count, long width) {
  share(count, count * width, [&](long first, long last) {
    for (long i = first; i < last; ++i)
      quantise_row(out + i * row_bytes(width), x + i * width, width);
  });
}

// Memory of the calling thread, for what an operation makes and quantises.
template <class T>
T* scratch(long count) {
  thread_local std::vector<T> memory;
  if (static_cast<long>(memory.size()) < count) memory.resize(count);
  return memory.data();
}

template <class T>
void int8_pack(int8_t* packed, const T* weight, long rows, long columns, long stride,
               long offset) {
  share(panels_of(rows), rows * columns, [&](long first, long last) {
    for (long panel = first; panel < last; ++panel)
      pack_panel(packed + (panel * stride + offset) * panel_bytes(columns),
                 weight + panel * LANES * columns, std::min(LANES, rows - panel * LANES), columns);
  });
}

template <class T>
void int8_embed(T* out, const int8_t* packed, const int64_t* tokens, long count, long columns) {
  share(count, count * columns, [&](long first, long last) {
    for (long i = first; i < last; ++i) unpack_row(out + i * columns, packed, tokens[i], columns);
  });
}

template <bool GATED, class T, class Y>
void int8_linear(Y* y, const uint8_t* x, const int8_t* packed, long tokens, long columns,
                 long rows) {
  const Int8Product<T, Y, GATED> whole{{y, tokens, rows}, x, packed, columns};
  share_ranges(whole.pairs(), whole.panels() * LANES * columns,
               [&](Taker take) { product(whole, take); });
}

// residual += x (where there is an x); out = weight * round(residual / rms(residual)).
template <class T>
void add_rms_norm(T* out, T* residual, const T* x, const T* weight, float eps, long width) {
  floats squares{};
  for (long i = 0; i < width; i += WIDTH) {
    floats value = load(residual + i);
    if (x) store(residual + i, value = rounded_to<T>(value + load(x + i)));
    squares += value * value;
  }
  const float scale = 1.0f / std::sqrt(sum_of(squares) / width + eps);
  for (long i = 0; i < width; i += WIDTH) {
    floats normed = rounded_to<T>(load(residual + i) * scale);
    store(out + i, normed * load(weight + i));
  }
}

template <class T>
void add_rms_norms(T* out, T* residual, const T* x, const T* weight, float eps, long count,
                   long width) {
  share(count, count * width, [&](long first, long last) {
    for (long i = first * width; i < last * width; i += width)
      add_rms_norm(out + i, residual + i, x ? x + i : x, weight, eps, width);
  });
}

template <class T>
void int8_add_rms_norms(uint8_t* out, T* residual, const T* x, const T* weight, float eps,
                        long count, long width) {
  share(count, count * width, [&](long first, long last) {
    T* row = scratch<T>(width);
    for (long i = first; i < last; ++i) {
      const long at = i * width;
      add_rms_norm(row, residual + at, x ? x + at : x, weight, eps, width);
      quantise_row(out + i * row_bytes(width), row, width);
    }
  });
}

// One head in place, every product and sum rounded, as a chain of torch operations would.
template <class T>
void rotate(T* head, const T* cos, const T* sin, long half) {
  for (long i = 0; i < half; i += WIDTH) {
    floats a = load(head + i), b = load(head + half + i), c = load(cos + i), s = load(sin + i);
    store(head + i, rounded_to<T>(a * c) - rounded_to<T>(b * s));
    store(head + half + i, rounded_to<T>(b * c) + rounded_to<T>(a * s));
  }
}

template <class T>
void rope_and_store(T* qkv, const T* cos, const T* sin, const int64_t* positions,
                    const int64_t* slots, T* k, T* v, long count, long heads, long kv_heads,
                    long head_dim, long block_size) {
  const long width = (heads + 2 * kv_heads) * head_dim, half = head_dim / 2;
  share(count, count * width, [&](long first, long last) {
    for (long i = first; i < last; ++i) {
      T* row = qkv + i * width;
      for (long head = 0; head < heads + kv_heads; ++head)
        rotate(row + head * head_dim, cos + positions[i] * half, sin + positions[i] * half, half);
      const long block = slots[i] / block_size, inside = slots[i] % block_size;
      for (long head = 0; head < kv_heads; ++head) {
        const T* key = row + (heads + head) * head_dim;
        const T* value = key + kv_heads * head_dim;
        const long base = (block * kv_heads + head) * head_dim * block_size;
        T* to_k = k + base + inside * PAIR<T>;
        T* to_v = v + base + inside / PAIR<T> * PAIR<T> * head_dim + inside % PAIR<T>;
        for (long e = 0; e < head_dim; e += PAIR<T>)
          std::memcpy(to_k + e * block_size, key + e, sizeof(T) * PAIR<T>);
        for (long e = 0; e < head_dim; ++e) to_v[e * PAIR<T>] = value[e];
      }
    }
  });
}

// Rows of x, which are of so many bytes.
void select(char* out, const char* x, const int64_t* rows, long count, long row_bytes) {
  share(count, count * row_bytes, [&](long first, long last) {
    for (long i = first; i < last; ++i)
      std::memcpy(out + i * row_bytes, x + rows[i] * row_bytes, row_bytes);
  });
}

// The largest element of each row and its place.
void best(float* values, int64_t* places, const float* x, long count, long width) {
  share(count, count * width, [&](long first, long last) {
    for (long i = first; i < last; ++i) largest(values + i, places + i, x + i * width, width);
  });
}

// A piece of work of one thread: some query rows of one sequence and key head.
struct Item {
  int32_t sequence, head, first_row;
};

// What one call attends to: rows of qkv, and sequences in pages.
template <class T>
struct Attention {
  T* out;
  const T* qkv;
  const T* k;
  const T* v;
  const int32_t* query_start;
  const int32_t* context_len;
  const int32_t* block_table;
  long sequences, table_width, heads, kv_heads, head_dim, block_size;

  long group() const { return heads / kv_heads; }

  std::vector<Item> items(long most) const {
    std::vector<Item> found;
    for (int32_t s = 0; s < sequences; ++s)
      for (int32_t head = 0; head < kv_heads; ++head)
        for (int32_t row = 0; row < (query_start[s + 1] - query_start[s]) * group(); row += most)
          found.push_back({s, head, row});
    return found;
  }

  Paged paged(Item item) const {
    return {block_table + item.sequence * table_width, block_size, kv_heads, head_dim,
            context_len[item.sequence]};
  }

  template <class Kernel>
  void attend(Item item, const Next* next) const {
    const long width = (heads + 2 * kv_heads) * head_dim;
    const long first = query_start[item.sequence], queries = query_start[item.sequence + 1] - first;
    const Paged at = paged(item);
    const long context = at.context;
    Rows<T, typename Kernel::Left> rows;
    rows.count = std::min(Kernel::ROWS, queries * group() - item.first_row);
    for (long r = 0; r < rows.count; ++r) {
      const long query = (item.first_row + r) / group(), head = (item.first_row + r) % group();
      const T* from = qkv + (first + query) * width + (item.head * group() + head) * head_dim;
      rows.position[r] = rows.last_position = context - queries + query;
      for (long e = 0; e < head_dim; e += WIDTH)
        store(rows.query + r * head_dim + e, load(from + e));
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    splitpool::attend<Kernel>(rows, at, k, v, item.head, scale, next);
    for (long r = 0; r < rows.count; ++r) {
      const long query = (item.first_row + r) / group(), head = (item.first_row + r) % group();
      T* to = out + (first + query) * heads * head_dim + (item.head * group() + head) * head_dim;
      for (long e = 0; e < head_dim; e += WIDTH)
        store(to + e, load(rows.sums + r * head_dim + e) / rows.total[r]);
    }
  }
};

template <class T>
void paged_attention(const Attention<T>& attention) {
  with_kernel<T>(attention.head_dim, [&](auto kernel) {
    const std::vector<Item> items = attention.items(kernel.ROWS);
    const long count = static_cast<long>(items.size());
    std::atomic<long> taken{0};
    // A thread takes its next item before it is done with one, to know what it will read.
#pragma omp parallel num_threads(std::min<long>(threads, count))
    for (long i = taken++, following; i < count; i = following) {
      following = taken++;
      Next next;
      if (following < count) next = {attention.paged(items[following]), items[following].head};
      attention.template attend<decltype(kernel)>(items[i], following < count ? &next : nullptr);
    }
  });
}

}  // namespace
}  // namespace splitpool

using namespace splitpool;

extern "C" {

void set_threads(long count) { threads = static_cast<int>(count); }

// 2 with AMX tiles, 1 with the bf16 dot product, 0 without.
long level() {
#if defined(SPLITPOOL_TILES)
  if (tiles_permitted()) return 2;
#endif
#if defined(__AVX512BF16__)
  return 1;
#else
  return 0;
#endif
}

#define FOR_TYPE(T, NAME)                                                                        \
  void pack_##NAME(T* packed, const T* weight, long rows, long columns, long stride,             \
                   long offset) {                                                                \
    pack(packed, weight, rows, columns, stride, offset);                                         \
  }                                                                                              \
  void embed_##NAME(T* out, const T* packed, const int64_t* tokens, long count, long columns) {  \
    embed(out, packed, tokens, count, columns);                                                  \
  }                                                                                              \
  void linear_##NAME(T* y, const T* x, const T* packed, long tokens, long columns, long rows) {  \
    linear<false>(y, x, packed, tokens, columns, rows);                                          \
  }                                                                                              \
  void logits_##NAME(float* y, const T* x, const T* packed, long tokens, long columns,           \
                     long rows) {                                                                \
    linear<false>(y, x, packed, tokens, columns, rows);                                          \
  }                                                                                              \
  void gated_##NAME(T* y, const T* x, const T* packed, long tokens, long columns, long rows) {   \
    linear<true>(y, x, packed, tokens, columns, rows);                                           \
  }                                                                                              \
  void add_rms_norm_##NAME(T* out, T* residual, const T* x, const T* weight, float eps,          \
                           long count, long width) {                                             \
    add_rms_norms(out, residual, x, weight, eps, count, width);                                  \
  }                                                                                              \
  void rope_and_store_##NAME(T* qkv, const T* cos, const T* sin, const int64_t* positions,       \
                             const int64_t* slots, T* k, T* v, long count, long heads,           \
                             long kv_heads, long head_dim, long block_size) {                    \
    rope_and_store(qkv, cos, sin, positions, slots, k, v, count, heads, kv_heads, head_dim,      \
                   block_size);                                                                  \
  }                                                                                              \
  void paged_attention_##NAME(T* out, const T* qkv, const T* k, const T* v,                      \
                              const int32_t* query_start, const int32_t* context_len,            \
                              const int32_t* block_table, long sequences, long table_width,      \
                              long heads, long kv_heads, long head_dim, long block_size) {       \
    paged_attention<T>({out, qkv, k, v, query_start, context_len, block_table, sequences,        \
                        table_width, heads, kv_heads, head_dim, block_size});                    \
  }                                                                                              \
  void select_##NAME(void* out, const void* x, const int64_t* rows, long count,                  \
                     long row_bytes) {                                                           \
    select(static_cast<char*>(out), static_cast<const char*>(x), rows, count, row_bytes);        \
  }                                                                                              \
  void best_##NAME(float* values, int64_t* places, const float* x, long count, long width) {     \
    best(values, places, x, count, width);                                                       \
  }

#define FOR_INT8(T, NAME)                                                                        \
  void int8_pack_##NAME(int8_t* packed, const T* weight, long rows, long columns, long stride,   \
                        long offset) {                                                           \
    int8_pack(packed, weight, rows, columns, stride, offset);                                    \
  }                                                                                              \
  void int8_embed_##NAME(T* out, const int8_t* packed, const int64_t* tokens, long count,        \
                         long columns) {                                                         \
    int8_embed(out, packed, tokens, count, columns);                                             \
  }                                                                                              \
  void int8_linear_##NAME(T* y, const uint8_t* x, const int8_t* packed, long tokens,             \
                          long columns, long rows) {                                             \
    int8_linear<false, T>(y, x, packed, tokens, columns, rows);                                  \
  }                                                                                              \
  void int8_logits_##NAME(float* y, const uint8_t* x, const int8_t* packed, long tokens,         \
                          long columns, long rows) {                                             \
    int8_linear<false, T>(y, x, packed, tokens, columns, rows);                                  \
  }                                                                                              \
  void int8_gated_##NAME(uint8_t* out, const uint8_t* x, const int8_t* packed, long tokens,      \
                         long columns, long rows) {                                              \
    T* product = scratch<T>(tokens * rows);                                                      \
    int8_linear<true, T>(product, x, packed, tokens, columns, rows);                             \
    quantise(out, product, tokens, rows);                                                        \
  }                                                                                              \
  void int8_add_rms_norm_##NAME(uint8_t* out, T* residual, const T* x, const T* weight,          \
                                float eps, long count, long width) {                             \
    int8_add_rms_norms(out, residual, x, weight, eps, count, width);                             \
  }                                                                                              \
  void int8_paged_attention_##NAME(uint8_t* out, const T* qkv, const T* k, const T* v,           \
                                   const int32_t* query_start, const int32_t* context_len,       \
                                   const int32_t* block_table, long sequences, long table_width, \
                                   long heads, long kv_heads, long head_dim, long block_size) {  \
    const long count = query_start[sequences], width = heads * head_dim;                         \
    T* attended = scratch<T>(count * width);                                                     \
    paged_attention<T>({attended, qkv, k, v, query_start, context_len, block_table, sequences,   \
                        table_width, heads, kv_heads, head_dim, block_size});                    \
    quantise(out, attended, count, width);                                                       \
  }

FOR_TYPE(bf16, bfloat16)
FOR_TYPE(float, float32)
FOR_INT8(bf16, bfloat16)
FOR_INT8(float, float32)

// Functions that a tape may name, by their place here; ops/tape.py has the same list.
#define FOR_TAPE(NAME)                                                                    \
  void run_tape_##NAME(Call* calls, long count, const Place* places, long place_count,    \
                       const int64_t* sizes, double* seconds) {                           \
    fill_in(calls, places, place_count, sizes);                                           \
    run_tape(calls, count, seconds, [](int64_t function, const int64_t* arguments) {      \
      switch (function) {                                                                 \
        case 0: return call(embed_##NAME, arguments);                                     \
        case 1: return call(linear_##NAME, arguments);                                    \
        case 2: return call(gated_##NAME, arguments);                                     \
        case 3: return call(add_rms_norm_##NAME, arguments);                              \
        case 4: return call(rope_and_store_##NAME, arguments);                            \
        case 5: return call(paged_attention_##NAME, arguments);                           \
        case 6: return call(select_##NAME, arguments);                                    \
        case 7: return call(int8_embed_##NAME, arguments);                                \
        case 8: return call(int8_linear_##NAME, arguments);                               \
        case 9: return call(int8_gated_##NAME, arguments);                                \
        case 10: return call(int8_add_rms_norm_##NAME, arguments);                        \
        case 11: return call(int8_paged_attention_##NAME, arguments);                     \
        case 12: return call(logits_##NAME, arguments);                                   \
        case 13: return call(int8_logits_##NAME, arguments);                              \
        case 14: return call(best_##NAME, arguments);                                     \
      }                                                                                   \
    });                                                                                   \
  }

FOR_TAPE(bfloat16)
FOR_TAPE(float32)
}
