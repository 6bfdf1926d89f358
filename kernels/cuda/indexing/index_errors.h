// SPDX-License-Identifier: Apache-2.0

// The common part of the plans of ops with an index operand: the check of its values, and the errors.
#ifndef COTAN_KERNELS_CUDA_INDEXING_INDEX_ERRORS_H_
#define COTAN_KERNELS_CUDA_INDEXING_INDEX_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/api/index_range.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/copy/kernel_text.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Sets plan.error_at to `range`'s error for an index of these sizes.
void SetErrorAt(OpKind kind, const IndexRange& range, const DimVector& sizes, KernelPlan& plan);

// Appends a launch that records the values of `index`, at `argument`, that are outside `range`. It writes no output.
// Nothing is appended if the index is empty.
// Unimplemented: more than 2^31 - 1 blocks of threads.
absl::Status AppendIndexCheck(const TensorSpec& index, const KernelArgument& argument, const IndexRange& range,
                              KernelPlan& plan);

// Returns `range` as a type of device code (kernels/cuda/source/indexing.cuh).
std::string RangeText(const IndexRange& range);

// Returns "const cotan::int64* index".
std::string IndexDeclaration(DType dtype);

// Appends the parameters "record" and "op" of a kernel that records errors; it makes cotan::indexing::Errors of them.
void AppendErrorParameters(std::vector<KernelParameter>& parameters);

// The argument of type Errors of kernels that record errors, and of those that do not.
inline constexpr absl::string_view kErrors = "cotan::indexing::Errors{record, op}";
inline constexpr absl::string_view kNoErrors = "cotan::indexing::Errors{}";

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_INDEXING_INDEX_ERRORS_H_
