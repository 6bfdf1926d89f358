// SPDX-License-Identifier: Apache-2.0

// PopulateLargePages() of small programs (//runtime:small_binary.bzl), which have no room for its code and run where
// memory is scarce.
#include "base/large_pages.h"

namespace cotan {

absl::Span<char> PopulateLargePages(absl::Span<char> /*memory*/) { return {}; }

}  // namespace cotan
