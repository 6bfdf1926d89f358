// Mixed precision: LibTorch's autocast around a traced function, so that the
// casts it inserts become part of the program.
#ifndef COTAN_AOT_CAPTURE_AUTOCAST_H_
#define COTAN_AOT_CAPTURE_AUTOCAST_H_

#include "absl/status/status.h"
#include "base/dtype.h"

namespace cotan::aot {

// InvalidArgument: `dtype` is none of bf16, f16 and kUndefined (no autocast).
absl::Status CheckAutocast(DType dtype);

// Within its scope autocast to `dtype` is on, or off if it is kUndefined,
// whatever the caller's setting; nothing is kept between calls, as a cast that
// an earlier trace made is no value of this one. Restores the caller's setting.
// A backward runs outside of it: its ops take the dtypes that the forward chose.
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
