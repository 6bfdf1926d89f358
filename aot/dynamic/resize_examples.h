// SPDX-License-Identifier: Apache-2.0

// Makes example arguments of other sizes.
#ifndef COTAN_AOT_DYNAMIC_RESIZE_EXAMPLES_H_
#define COTAN_AOT_DYNAMIC_RESIZE_EXAMPLES_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/status/statusor.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "base/layout.h"

namespace cotan::aot {

// Returns `examples` at the sizes that the symbols have with `values`: along each dynamic dimension
// the content is cut off, or repeated from the start. Keeps requires_grad. `shapes` may have more
// arguments.
// Unimplemented: two different examples share memory.
// InvalidArgument: an example is empty along a dynamic dimension.
absl::StatusOr<std::vector<at::Tensor>> ResizeExamples(const std::vector<at::Tensor>& examples,
                                                       const DynamicShapes& shapes, const DimVector& values);

// Returns the sizes of tensors.
std::vector<DimVector> SizesOf(const std::vector<at::Tensor>& tensors);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_RESIZE_EXAMPLES_H_
