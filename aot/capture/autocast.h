// SPDX-License-Identifier: Apache-2.0

// Mixed precision: LibTorch's autocast around a traced function. The casts that it inserts become part of
// the program.
#ifndef COTAN_AOT_CAPTURE_AUTOCAST_H_
#define COTAN_AOT_CAPTURE_AUTOCAST_H_

#include "absl/status/status.h"
#include "base/dtype.h"

namespace cotan::aot {

// InvalidArgument: `dtype` is not bf16, f16 or kUndefined (autocast is off).
absl::Status CheckAutocast(DType dtype);

// Sets autocast on the CPU to `dtype`, or off if it is kUndefined, within its scope and restores the
// caller's setting afterwards. The cache of casts (at::autocast::cached_cast) is off: a cast of an earlier
// trace is not a value of this one. A backward runs outside of the scope: its ops have the dtypes that the
// forward chose.
class AutocastScope {
 public:
  explicit AutocastScope(DType dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  struct Setting {
    bool enabled;
    bool caches;
    int dtype;  // an at::ScalarType
  };
  Setting previous_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_AUTOCAST_H_
