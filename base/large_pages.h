// SPDX-License-Identifier: Apache-2.0

// Large pages of fresh memory. One of 2 MiB is allocated in a quarter of the time of 512 usual ones, and takes one
// entry of the processor's table of translations.
#ifndef COTAN_BASE_LARGE_PAGES_H_
#define COTAN_BASE_LARGE_PAGES_H_

#include <cstddef>

#include "absl/types/span.h"

namespace cotan {

// Has the system allocate large pages for the whole ones in `memory`, whose content becomes undefined, as far as they
// are available. Returns the part that was allocated; it is empty if the system has no large pages of 2 MiB, or none is
// free.
absl::Span<char> PopulateLargePages(absl::Span<char> memory);

}  // namespace cotan

#endif  // COTAN_BASE_LARGE_PAGES_H_
