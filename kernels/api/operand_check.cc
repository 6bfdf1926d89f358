// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/operand_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cotan::op_check {
namespace {

std::string Describe(DType dtype, absl::Span<const int64_t> sizes) {
  return absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(sizes, ","), "]");
}

}  // namespace

std::string Describe(const TensorSpec& spec) { return Describe(spec.dtype, spec.layout.sizes); }

absl::Status Expect(absl::string_view operand, const TensorSpec& spec, DType dtype, absl::Span<const int64_t> sizes) {
  if (spec.dtype == dtype && absl::MakeConstSpan(spec.layout.sizes) == sizes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operand, " is ", Describe(spec), ", expected ", Describe(dtype, sizes)));
}

absl::Status ExpectRank(absl::string_view operand, const TensorSpec& spec, int min, int max) {
  if (spec.layout.rank() >= min && spec.layout.rank() <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operand, " is ", Describe(spec), ", expected ", min, " to ", max, " dimensions"));
}

absl::Status ExpectCounts(const KernelRequest& request, size_t min_inputs, size_t max_inputs, size_t min_outputs,
                          size_t max_outputs) {
  if (request.inputs.size() >= min_inputs && request.inputs.size() <= max_inputs &&
      request.outputs.size() >= min_outputs && request.outputs.size() <= max_outputs) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("has ", request.inputs.size(), " inputs and ", request.outputs.size(),
                                                 " outputs, takes ", min_inputs, " to ", max_inputs, " and ",
                                                 min_outputs, " to ", max_outputs));
}

absl::Status ExpectFloat(absl::string_view operand, const TensorSpec& spec) {
  if (IsFloatingPoint(spec.dtype) && !IsStorageOnly(spec.dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operand, " is ", Describe(spec), ", expected a float dtype of 16 bits or more"));
}

absl::Status ExpectNumber(absl::string_view operand, const TensorSpec& spec) {
  const bool is_number = IsFloatingPoint(spec.dtype) || IsInteger(spec.dtype);
  if (is_number && !IsStorageOnly(spec.dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operand, " is ", Describe(spec), ", expected an integer or float dtype"));
}

bool BroadcastsTo(absl::Span<const int64_t> sizes, absl::Span<const int64_t> target) {
  if (sizes.size() > target.size()) return false;
  const size_t missing = target.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && sizes[d] != target[missing + d]) return false;
  }
  return true;
}

absl::Status ExpectBroadcast(absl::string_view operand, const TensorSpec& spec, DType dtype,
                             absl::Span<const int64_t> target) {
  if (spec.dtype == dtype && BroadcastsTo(spec.layout.sizes, target)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operand, " is ", Describe(spec), ", expected sizes that broadcast to ", Describe(dtype, target)));
}

absl::Status ExpectAttribute(absl::string_view name, absl::Span<const int64_t> list, int count, int64_t min) {
  if (static_cast<int>(list.size()) != count) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has ", list.size(), " entries, expected ", count));
  }
  for (const int64_t value : list) {
    if (value < min || value > kMaxAttribute) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", expected ", min, " to ", kMaxAttribute));
    }
  }
  return absl::OkStatus();
}

}  // namespace cotan::op_check
