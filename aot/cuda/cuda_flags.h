// SPDX-License-Identifier: Apache-2.0

// The flags --cuda_arch and --cuda_sizes of the compile tool.
#ifndef COTAN_AOT_CUDA_CUDA_FLAGS_H_
#define COTAN_AOT_CUDA_CUDA_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Returns the compute capabilities of architectures, 90 for "sm_90", ascending.
// InvalidArgument: not of this form, or before sm_80.
absl::StatusOr<std::vector<int>> ParseCudaArchitectures(absl::Span<const std::string> architectures);

// Returns the sizes for which kernels are compiled: one set of values of the artifact's dynamic dimensions per element
// of `texts`, which has the form "batch=8" or "batch=8:length=64". Without texts: the maxima of the dimensions.
// InvalidArgument: a text is not of this form, names no dynamic dimension or lacks one, or a value is outside its
// range.
absl::StatusOr<std::vector<DimVector>> ParseCudaSizes(absl::Span<const std::string> texts,
                                                      const serialization::Artifact& artifact);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CUDA_CUDA_FLAGS_H_
