// Whether deterministic algorithms are enabled, as torch.use_deterministic_algorithms().
#ifndef COTAN_RUNTIME_FUNCTION_DETERMINISTIC_H_
#define COTAN_RUNTIME_FUNCTION_DETERMINISTIC_H_

#include <atomic>

namespace cotan {

// A flag of the process, off at its start. Kernels of this runtime are always
// deterministic (docs/numerics.md). The flag decides one thing: while it is on,
// the backward of a Function whose forward was traced with deterministic
// algorithms disabled is refused, as by AOTAutograd. The reverse is allowed.
class DeterministicMode {
 public:
  static bool enabled() { return enabled_.load(std::memory_order_relaxed); }
  static void set_enabled(bool enabled) { enabled_.store(enabled, std::memory_order_relaxed); }

 private:
  static inline std::atomic<bool> enabled_ = false;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_DETERMINISTIC_H_
