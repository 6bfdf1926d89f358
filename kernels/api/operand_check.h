// SPDX-License-Identifier: Apache-2.0

// Checks of one operand or attribute, from which the checks of ops are made. Errors name the operand, the value
// found and the value expected.
#ifndef COTAN_KERNELS_API_OPERAND_CHECK_H_
#define COTAN_KERNELS_API_OPERAND_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"

namespace cotan::op_check {

// The largest value of an attribute and the largest spatial size: sums of a few products of attributes and
// tensor sizes fit int64.
inline constexpr int64_t kMaxAttribute = int64_t{1} << 24;
inline constexpr int64_t kMaxSize = int64_t{1} << 36;

// Returns dtype and sizes as text: "f32[2,3]".
std::string Describe(const TensorSpec& spec);

// InvalidArgument: `spec` has another dtype or other sizes.
absl::Status Expect(absl::string_view operand, const TensorSpec& spec, DType dtype, absl::Span<const int64_t> sizes);

// InvalidArgument: `spec` has fewer than `min` or more than `max` dimensions.
absl::Status ExpectRank(absl::string_view operand, const TensorSpec& spec, int min, int max);

// InvalidArgument: the number of inputs or outputs is out of these ranges.
absl::Status ExpectCounts(const KernelRequest& request, size_t min_inputs, size_t max_inputs, size_t min_outputs,
                          size_t max_outputs);

// InvalidArgument: `spec` has no float dtype.
absl::Status ExpectFloat(absl::string_view operand, const TensorSpec& spec);

// InvalidArgument: `spec` has neither an integer nor a float dtype.
absl::Status ExpectNumber(absl::string_view operand, const TensorSpec& spec);

// Returns true if `sizes` broadcasts to `target` by PyTorch's rule.
bool BroadcastsTo(absl::Span<const int64_t> sizes, absl::Span<const int64_t> target);

// InvalidArgument: `spec` has another dtype, or sizes that do not broadcast to `target`.
absl::Status ExpectBroadcast(absl::string_view operand, const TensorSpec& spec, DType dtype,
                             absl::Span<const int64_t> target);

// InvalidArgument: the attribute has not `count` entries, or one is outside [min, kMaxAttribute].
absl::Status ExpectAttribute(absl::string_view name, absl::Span<const int64_t> list, int count, int64_t min);

}  // namespace cotan::op_check

#endif  // COTAN_KERNELS_API_OPERAND_CHECK_H_
