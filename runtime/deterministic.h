// Whether the user demands algorithms that give the same bits each time.
#ifndef COTAN_RUNTIME_DETERMINISTIC_H_
#define COTAN_RUNTIME_DETERMINISTIC_H_

#include <atomic>

namespace cotan {

// A flag of the process, off at its start. Kernels of this runtime are
// deterministic whatever it says (docs/numerics.md); it tells backwards that
// were traced without the demand that the user makes it now, which is an error.
class DeterministicMode {
 public:
  static bool enabled() { return enabled_.load(std::memory_order_relaxed); }
  static void set_enabled(bool enabled) { enabled_.store(enabled, std::memory_order_relaxed); }

 private:
  static inline std::atomic<bool> enabled_ = false;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DETERMINISTIC_H_
