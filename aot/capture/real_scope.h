// SPDX-License-Identifier: Apache-2.0

// Suspends tracing in a scope, and converts LibTorch's exceptions to statuses.
#ifndef COTAN_AOT_CAPTURE_REAL_SCOPE_H_
#define COTAN_AOT_CAPTURE_REAL_SCOPE_H_

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cotan::aot {

// Excludes the tracing dispatch keys of the calling thread while it lives: ops compute real tensors.
class RealScope {
 public:
  RealScope();

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

// Returns InvalidArgument "doing: what" for the exception in flight, without its stack trace. Must be called in a
// catch block.
absl::Status StatusFromCurrentException(absl::string_view doing);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_REAL_SCOPE_H_
