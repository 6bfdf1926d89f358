// SPDX-License-Identifier: Apache-2.0

// GradMode, GradModeGuard: the grad mode, which decides whether operations on Variables are recorded
// (c10/core/GradMode.h).
#ifndef COTAN_RUNTIME_AUTOGRAD_GRAD_MODE_H_
#define COTAN_RUNTIME_AUTOGRAD_GRAD_MODE_H_

namespace cotan {

// A flag of the calling thread, initially on.
class GradMode {
 public:
  static bool enabled();
  static void set_enabled(bool enabled);
};

// Sets the mode, and restores the previous one in its destructor.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled) : before_(GradMode::enabled()) { GradMode::set_enabled(enabled); }
  ~GradModeGuard() { GradMode::set_enabled(before_); }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  const bool before_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_GRAD_MODE_H_
