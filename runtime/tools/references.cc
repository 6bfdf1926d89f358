// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/references.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "runtime/tensor/scalar.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::tools {

using serialization::Reference;
using serialization::ReferenceTensor;

absl::StatusOr<Tensor> LoadTensor(const Program& program, const ReferenceTensor& reference) {
  COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, DenseLayout(reference.type(), {}));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(ToDType(reference.type().dtype()), layout.sizes));
  COTAN_ASSIGN_OR_RETURN(const absl::string_view bytes, program.RecordedSegment(reference.segment()));
  if (!bytes.empty()) std::memcpy(tensor.address(), bytes.data(), bytes.size());
  return tensor;
}

absl::StatusOr<std::vector<Tensor>> LoadArguments(const Program& program, const Reference& reference, Device& device) {
  std::vector<Tensor> arguments;
  for (const ReferenceTensor& input : reference.inputs()) {
    COTAN_ASSIGN_OR_RETURN(const Tensor tensor, LoadTensor(program, input));
    COTAN_ASSIGN_OR_RETURN(arguments.emplace_back(), tensor.ToDevice(device));
  }
  return arguments;
}

absl::StatusOr<const Reference*> FindReference(const Program& program, absl::string_view method) {
  for (const Reference& reference : program.artifact().references()) {
    if (reference.method() == method) return &reference;
  }
  return absl::NotFoundError(absl::StrCat("the artifact has no recorded run of '", method, "'"));
}

absl::StatusOr<Difference> Compare(const Tensor& actual, const Tensor& expected) {
  const size_t element = ByteSize(expected.dtype());
  // The real and imaginary parts of a complex number are compared as two elements.
  const bool complex = IsComplex(expected.dtype());
  const DType part = !complex ? expected.dtype() : element == 8 ? DType::kFloat32 : DType::kFloat64;
  const size_t step = ByteSize(part);
  const auto* a = static_cast<const char*>(actual.address());
  const auto* b = static_cast<const char*>(expected.address());
  Difference difference;
  const size_t bytes = static_cast<size_t>(expected.num_elements()) * element;
  for (size_t at = 0; at < bytes; at += step) {
    COTAN_ASSIGN_OR_RETURN(const double x, DecodeScalar({a + at, step}, part));
    COTAN_ASSIGN_OR_RETURN(const double y, DecodeScalar({b + at, step}, part));
    if (std::memcmp(a + at, b + at, step) == 0 || x == y || (std::isnan(x) && std::isnan(y))) {
      if (std::isfinite(y)) difference.largest_expected = std::max(difference.largest_expected, std::abs(y));
      continue;
    }
    const double error = std::abs(x - y);
    difference.largest_error =
        std::max(difference.largest_error, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
    if (std::isfinite(y)) difference.largest_expected = std::max(difference.largest_expected, std::abs(y));
  }
  return difference;
}

std::string RunningVarianceOf(absl::string_view state) {
  return absl::ConsumeSuffix(&state, "running_mean") ? absl::StrCat(state, "running_var") : "";
}

double RunningMeanScale(double largest_variance) {
  constexpr double kPartOfDeviation = 0.01;
  return kPartOfDeviation * std::sqrt(largest_variance);
}

}  // namespace cotan::tools
