// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/nan_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/float8.h"
#include "base/half.h"
#include "base/status_macros.h"

namespace cotan {
namespace {

// Returns whether one of `count` elements is NaN, which are words of type T that `to_real` converts.
template <typename T, typename ToReal>
bool AnyNan(const Tensor& host, int64_t count, ToReal to_real) {
  const T* const elements = static_cast<const T*>(host.address());
  return std::any_of(elements, elements + count, [&](const T& element) { return std::isnan(to_real(element)); });
}

std::string Refusal(absl::string_view what, const std::vector<size_t>& places) {
  return absl::StrCat("NaN gradients for ", what, ": ", absl::StrJoin(places, ", "));
}

}  // namespace

absl::StatusOr<bool> HasNan(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (!IsFloatingPoint(dtype) && !IsComplex(dtype)) return false;
  COTAN_ASSIGN_OR_RETURN(const Tensor host, tensor.ToHost());
  const int64_t count = host.num_elements();
  const auto same = [](auto value) { return value; };
  switch (dtype) {
    case DType::kFloat16:
      return AnyNan<uint16_t>(host, count, Float16ToFloat);
    case DType::kBFloat16:
      return AnyNan<uint16_t>(host, count, BFloat16ToFloat);
    case DType::kFloat8E4m3fn:
      return AnyNan<uint8_t>(host, count, Float8E4m3fnToFloat);
    case DType::kFloat8E5m2:
      return AnyNan<uint8_t>(host, count, Float8E5m2ToFloat);
    case DType::kFloat64:
      return AnyNan<double>(host, count, same);
    case DType::kComplex64:
      return AnyNan<float>(host, 2 * count, same);
    case DType::kComplex128:
      return AnyNan<double>(host, 2 * count, same);
    default:
      return AnyNan<float>(host, count, same);
  }
}

absl::Status NanCheck::Before(const autograd::Node& node) {
  if (node.leaf() == nullptr) return absl::OkStatus();
  const Variable& leaf = *node.leaf();
  if (leaf.grad().defined()) {
    COTAN_ASSIGN_OR_RETURN(const bool is_nan, HasNan(leaf.grad().tensor()));
    if (is_nan) {
      return absl::FailedPreconditionError(
          absl::StrCat("grad() of parameter ", leaves_.size(), ", ", leaf.tensor().ToString(),
                       ", is already NaN, which is not supported with check_nan: clear it before the backward"));
    }
  }
  leaves_.push_back(leaf);
  return absl::OkStatus();
}

absl::Status NanCheck::After(absl::Span<const Tensor> outputs) const {
  std::vector<size_t> places;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!leaves_[i].grad().defined()) continue;
    COTAN_ASSIGN_OR_RETURN(const bool is_nan, HasNan(leaves_[i].grad().tensor()));
    if (is_nan) places.push_back(i);
  }
  if (!places.empty()) return absl::FailedPreconditionError(Refusal("parameters", places));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    COTAN_ASSIGN_OR_RETURN(const bool is_nan, HasNan(outputs[i]));
    if (is_nan) places.push_back(i);
  }
  if (places.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(Refusal("outputs", places));
}

}  // namespace cotan
