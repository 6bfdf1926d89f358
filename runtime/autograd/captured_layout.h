// SPDX-License-Identifier: Apache-2.0

// Layouts with recorded numbers, for the nodes of views. For this package only.
#ifndef COTAN_RUNTIME_AUTOGRAD_CAPTURED_LAYOUT_H_
#define COTAN_RUNTIME_AUTOGRAD_CAPTURED_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "runtime/autograd/capture.h"
#include "serialization/metadata/view_step.h"

namespace cotan::autograd {

// Reads a layout that was recorded as sizes, strides and offset from number `next` on, which moves behind it.
view::AsStrided ReadLayout(const CaptureEmitter& emitter, int rank, int& next);

// Returns the layout for these values of the symbols. Errors of SymInt::Evaluate().
absl::StatusOr<StridedLayout> Evaluate(const view::AsStrided& layout, absl::Span<const int64_t> symbols);

// Returns the storage index of each element in row-major order.
std::vector<int64_t> StorageIndices(const StridedLayout& layout);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_CAPTURED_LAYOUT_H_
