// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/tensor_type.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace cotan {
namespace {

using serialization::TensorType;

// Returns one more than the largest index of the symbols in `size`; 0 without symbols.
int SymbolsUsed(const SymInt& size) {
  if (size.is_constant()) return 0;
  if (size.kind() == SymInt::Kind::kSymbol) return size.symbol() + 1;
  return std::max(SymbolsUsed(size.lhs()), SymbolsUsed(size.rhs()));
}

bool IsPermutation(const google::protobuf::RepeatedField<uint32_t>& dims, int rank) {
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (uint32_t dim : dims) {
    if (dim >= seen.size() || seen[dim]) return false;
    seen[dim] = true;
  }
  return dims.size() == rank;
}

}  // namespace

DType ToDType(serialization::DTypeProto dtype) {
  const auto value = static_cast<int>(dtype);
  return value > 0 && value < kNumDTypes ? static_cast<DType>(value) : DType::kUndefined;
}

int64_t BoundedElements(absl::Span<const int64_t> sizes) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : sizes) {
    if (size < 0 || size > kMaxElements) return -1;
    empty = empty || size == 0;
    if (__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) || count > kMaxElements) return -1;
  }
  return empty ? 0 : count;
}

absl::StatusOr<SymInt> ParseSize(const std::string& text, int num_symbols) {
  COTAN_ASSIGN_OR_RETURN(SymInt size, SymInt::Parse(text));
  const int used = SymbolsUsed(size);
  if (used > num_symbols) {
    return absl::InvalidArgumentError(
        absl::StrCat("size expression '", text, "' uses s", used - 1, ", but there are ", num_symbols, " symbols"));
  }
  return size;
}

absl::StatusOr<int64_t> EvaluateSize(const std::string& text, absl::Span<const int64_t> symbols) {
  COTAN_ASSIGN_OR_RETURN(const SymInt size, SymInt::Parse(text));
  return size.Evaluate(symbols);
}

absl::StatusOr<DimVector> EvaluateSizes(const google::protobuf::RepeatedPtrField<std::string>& texts,
                                        absl::Span<const int64_t> symbols) {
  DimVector sizes;
  for (const std::string& text : texts) {
    COTAN_ASSIGN_OR_RETURN(const int64_t size, EvaluateSize(text, symbols));
    sizes.push_back(size);
  }
  return sizes;
}

absl::Status CheckTensorType(const TensorType& type, int num_symbols) {
  if (ToDType(type.dtype()) == DType::kUndefined) {
    return absl::InvalidArgumentError(absl::StrCat("dtype ", static_cast<int>(type.dtype()), " is unknown"));
  }
  if (type.sizes_size() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat(type.sizes_size(), " dimensions; at most ", kMaxRank, " are allowed"));
  }
  for (const std::string& text : type.sizes()) {
    COTAN_ASSIGN_OR_RETURN(const SymInt size, ParseSize(text, num_symbols));
    if (size.is_constant() && (size.constant() < 0 || size.constant() > kMaxElements)) {
      return absl::InvalidArgumentError(absl::StrCat("size ", text, " is negative or too large"));
    }
  }
  if (type.dim_order_size() != 0 && !IsPermutation(type.dim_order(), type.sizes_size())) {
    return absl::InvalidArgumentError(absl::StrCat("the order of dimensions {", absl::StrJoin(type.dim_order(), ","),
                                                   "} is not a permutation of ", type.sizes_size(), " dimensions"));
  }
  return absl::OkStatus();
}

absl::StatusOr<StridedLayout> DenseLayout(const TensorType& type, absl::Span<const int64_t> symbols) {
  StridedLayout layout;
  COTAN_ASSIGN_OR_RETURN(layout.sizes, EvaluateSizes(type.sizes(), symbols));
  if (BoundedElements(layout.sizes) < 0) {
    return absl::InvalidArgumentError(absl::StrCat("sizes [", absl::StrJoin(layout.sizes, ","), "] of ",
                                                   TensorTypeText(type), " are negative or too large"));
  }
  const DimVector order(type.dim_order().begin(), type.dim_order().end());
  layout.strides = DenseStrides(layout.sizes, order);
  return layout;
}

std::string TensorTypeText(const TensorType& type) {
  std::string text = absl::StrCat(DTypeName(ToDType(type.dtype())), "[", absl::StrJoin(type.sizes(), ","), "]");
  if (type.dim_order_size() != 0) absl::StrAppend(&text, "{", absl::StrJoin(type.dim_order(), ","), "}");
  return text;
}

}  // namespace cotan
