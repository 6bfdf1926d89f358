// SPDX-License-Identifier: Apache-2.0

#include "base/denormal_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace cotan {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kFlush = 0x8040;  // FTZ: results; DAZ: operands
uint64_t ReadRegister() { return _mm_getcsr(); }
void WriteRegister(uint64_t value) { _mm_setcsr(static_cast<uint32_t>(value)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlush = uint64_t{1} << 24;  // FZ: operands and results, but not those of f16
uint64_t ReadRegister() {
  uint64_t value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void WriteRegister(uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
constexpr uint64_t kFlush = 0;
uint64_t ReadRegister() { return 0; }
void WriteRegister(uint64_t) {}
#endif

thread_local DenormalMode current;

}  // namespace

bool CanFlushDenormals() { return kFlush != 0; }

const DenormalMode& CurrentDenormalMode() { return current; }

void SetDenormalMode(const DenormalMode& mode) {
  if (mode.flush == current.flush) return;
  WriteRegister(mode.flush ? ReadRegister() | kFlush : current.outside);
  current = mode;
}

ScopedDenormalMode::ScopedDenormalMode(bool flush) : previous_(current) {
  if (flush == current.flush) return;
  SetDenormalMode({.flush = flush && CanFlushDenormals(), .outside = flush ? ReadRegister() : 0});
}

ScopedDenormalMode::ScopedDenormalMode(const DenormalMode& mode) : previous_(current) { SetDenormalMode(mode); }

ScopedDenormalMode::~ScopedDenormalMode() { SetDenormalMode(previous_); }

}  // namespace cotan
