// SPDX-License-Identifier: Apache-2.0

// DeterministicMode: the flag of torch.use_deterministic_algorithms().
#ifndef COTAN_RUNTIME_FUNCTION_CORE_DETERMINISTIC_H_
#define COTAN_RUNTIME_FUNCTION_CORE_DETERMINISTIC_H_

#include <atomic>

namespace cotan {

// A flag of the process, initially off. Kernels of this runtime are always deterministic (docs/numerics.md), so that
// the flag has one effect: while it is on, the backward of a Function whose forward was traced with deterministic
// algorithms disabled fails with FailedPrecondition, as in AOTAutograd. The reverse is allowed.
class DeterministicMode {
 public:
  static bool enabled() { return enabled_.load(std::memory_order_relaxed); }
  static void set_enabled(bool enabled) { enabled_.store(enabled, std::memory_order_relaxed); }

 private:
  static inline std::atomic<bool> enabled_ = false;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_DETERMINISTIC_H_
