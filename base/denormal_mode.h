// SPDX-License-Identifier: Apache-2.0

// How a thread's floating point instructions treat subnormal (denormal) numbers: as IEEE 754 says, or as zeros. Some
// processors take 100 times as long for an instruction with such a number.
#ifndef COTAN_BASE_DENORMAL_MODE_H_
#define COTAN_BASE_DENORMAL_MODE_H_

#include <cstdint>

namespace cotan {

// Returns whether this processor can take subnormal numbers as zeros: x86-64 (MXCSR.FTZ and MXCSR.DAZ) and AArch64
// (FPCR.FZ) can.
bool CanFlushDenormals();

// The mode of a thread.
struct DenormalMode {
  bool flush = false;    // operands and results that are subnormal are zeros
  uint64_t outside = 0;  // flush: the control register of the thread without the mode
};

// Returns the mode of the calling thread.
const DenormalMode& CurrentDenormalMode();

// Sets the mode of the calling thread to that of a thread for which it works, until the next call. After a mode that
// flushes, one that does not restores the control register to DenormalMode::outside.
void SetDenormalMode(const DenormalMode& mode);

// Sets the mode of the calling thread, and restores the previous one on destruction, on the same thread. Threads that
// work for it have modes of their own.
//
// As torch.set_flush_denormal(), but for a scope. Without an object of this class a thread computes as its creator or
// the application has set, usually as IEEE 754 says; ScopedDenormalMode(false) on such a thread changes nothing.
class ScopedDenormalMode {
 public:
  // `flush` needs CanFlushDenormals(); otherwise it changes nothing.
  explicit ScopedDenormalMode(bool flush);
  // As SetDenormalMode().
  explicit ScopedDenormalMode(const DenormalMode& mode);
  ~ScopedDenormalMode();
  ScopedDenormalMode(const ScopedDenormalMode&) = delete;
  ScopedDenormalMode& operator=(const ScopedDenormalMode&) = delete;

 private:
  const DenormalMode previous_;
};

}  // namespace cotan

#endif  // COTAN_BASE_DENORMAL_MODE_H_
