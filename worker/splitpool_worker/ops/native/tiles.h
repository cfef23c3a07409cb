// AMX: matrices of 16 rows of 64 bytes in registers, and the permission and shapes they need.
#pragma once

#if defined(__AMX_BF16__) && defined(__AMX_TILE__) && defined(__linux__)
#define SPLITPOOL_TILES 1
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "vector.h"

namespace splitpool {

// The kernel grants tile registers to a process that asks (ARCH_REQ_XCOMP_PERM, XFEATURE 18).
inline bool tiles_permitted() {
  static const bool permitted = syscall(SYS_arch_prctl, 0x1023, 18) == 0;
  return permitted;
}

// GCC's tile intrinsics do not say which memory they read. This makes earlier stores happen first.
inline void settle() { asm volatile("" ::: "memory"); }

// Operand of ldtilecfg, palette 1.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, long tile_rows, long bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_rows ? bytes : 0);
  }
  void use() const {
    settle();
    _tile_loadconfig(this);
  }
};

}  // namespace splitpool
#endif
