// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/example_tensors.h"

#include <ATen/Functions.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/capture/tensor_data.h"
#include "base/layout.h"

namespace cotan::aot::pt2 {
namespace {

constexpr int64_t kMaxExampleElements = int64_t{1} << 48;

// Returns whether every symbol of the expression has a value.
bool IsKnown(const SymInt& size, absl::Span<const Symbol> symbols) {
  if (size.is_constant()) return true;
  if (size.kind() != SymInt::Kind::kSymbol) return IsKnown(size.lhs(), symbols) && IsKnown(size.rhs(), symbols);
  return symbols[static_cast<size_t>(size.symbol())].hint.has_value();
}

}  // namespace

absl::StatusOr<at::Tensor> ExampleInput(const std::string& name, const std::vector<int64_t>& sizes, DType dtype,
                                        at::Generator& generator) {
  const int64_t elements = CheckedNumElements(sizes);
  if (elements < 0 || elements > kMaxExampleElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("input '", name, "' would have sizes [", absl::StrJoin(sizes, ","), "], more than 2^48 elements"));
  }
  const at::TensorOptions options(ToScalarType(dtype));
  try {
    return IsFloatingPoint(dtype) ? at::randn(sizes, generator, options) : at::zeros(sizes, options);
  } catch (const c10::Error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("input '", name, "' with sizes [", absl::StrJoin(sizes, ","),
                                                     "]: ", error.what_without_backtrace()));
  }
}

at::Tensor ExportedShape(const TensorMeta& meta, absl::Span<const Symbol> symbols) {
  std::vector<int64_t> hints;
  for (const Symbol& symbol : symbols) hints.push_back(symbol.hint.value_or(0));
  std::vector<int64_t> sizes;
  for (const SymInt& size : meta.sizes) {
    const absl::StatusOr<int64_t> value = size.Evaluate(hints);
    if (!value.ok() || *value < 0 || !IsKnown(size, symbols)) return at::Tensor();
    sizes.push_back(*value);
  }
  return at::empty(sizes, at::TensorOptions(at::kMeta).dtype(ToScalarType(meta.dtype)));
}

}  // namespace cotan::aot::pt2
