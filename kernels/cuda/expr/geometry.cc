// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/geometry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cotan::cuda::expr {
namespace {

// Returns the number of bytes of operands for which dimension `a` is outside dimension `b`, less those for which it
// is inside.
int64_t OutsideBytes(int a, int b, absl::Span<const Operand> operands) {
  int64_t bytes = 0;
  for (const Operand& operand : operands) {
    const int64_t outer = operand.strides[static_cast<size_t>(a)];
    const int64_t inner = operand.strides[static_cast<size_t>(b)];
    if (!operand.InMemory() || outer == 0 || inner == 0) continue;
    const auto size = static_cast<int64_t>(ByteSize(operand.dtype));
    // What is stored counts a little more: partial writes are read first.
    const int64_t weight = 16 * size + (operand.kind == Operand::Kind::kOutput ? 1 : 0);
    bytes += outer > inner ? weight : outer < inner ? -weight : 0;
  }
  return bytes;
}

}  // namespace

std::vector<int> OrderDims(absl::Span<const int64_t> domain_sizes, absl::Span<const Operand> operands) {
  std::vector<int> order;
  for (size_t d = 0; d < domain_sizes.size(); ++d) {
    if (domain_sizes[d] == 1) continue;
    auto at = order.end();
    while (at != order.begin() && OutsideBytes(*(at - 1), static_cast<int>(d), operands) < 0) --at;
    order.insert(at, static_cast<int>(d));
  }
  return order;
}

Axis MakeAxis(absl::Span<const int> dims, absl::Span<const int64_t> domain_sizes, absl::Span<const Operand> operands) {
  Axis axis;
  axis.strides.resize(operands.size());
  for (const int d : dims) {
    const int64_t size = domain_sizes[static_cast<size_t>(d)];
    bool merges = !axis.sizes.empty();
    for (size_t i = 0; merges && i < operands.size(); ++i) {
      merges = axis.strides[i].back() == size * operands[i].strides[static_cast<size_t>(d)];
    }
    if (merges) {
      axis.sizes.back() *= size;
    } else {
      axis.sizes.push_back(size);
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      if (merges) axis.strides[i].pop_back();
      axis.strides[i].push_back(operands[i].strides[static_cast<size_t>(d)]);
    }
  }
  return axis;
}

bool IsLinear(const Axis& axis, size_t operand, int64_t* stride) {
  const DimVector& strides = axis.strides[operand];
  *stride = strides.empty() ? 0 : strides.back();
  int64_t expected = *stride;
  for (size_t d = strides.size(); d-- > 0;) {
    if (strides[d] != expected) return false;
    expected *= axis.sizes[d];
  }
  return true;
}

int64_t StepOf(const Axis& axis, size_t operand) {
  return axis.strides[operand].empty() ? 0 : axis.strides[operand].back();
}

PackKind PackKindOf(const Axis& axis, const Axis& other, size_t operand, int64_t pack) {
  int64_t stride = 0;
  const bool linear = IsLinear(axis, operand, &stride);
  const bool in_row = axis.sizes.size() <= 1 || axis.sizes.back() % pack == 0;
  if (!linear && !in_row) return PackKind::kScattered;
  if (stride == 0) return PackKind::kSame;
  if (stride != 1) return PackKind::kStep;
  const auto is_multiple = [&](int64_t s) { return s % pack == 0; };
  const DimVector& strides = axis.strides[operand];
  const DimVector& others = other.strides[operand];
  const bool aligned = (linear || std::all_of(strides.begin(), strides.end() - 1, is_multiple)) &&
                       std::all_of(others.begin(), others.end(), is_multiple);
  return aligned ? PackKind::kConsecutive : PackKind::kStep;
}

std::string IndexText::Literal(int64_t value) const { return absl::StrCat(value, wide_ ? "ull" : "u"); }

std::vector<std::string> IndexText::Coordinates(const Axis& axis, absl::Span<const size_t> operands,
                                                absl::string_view index) const {
  std::vector<std::string> lines;
  int64_t inner = axis.Count();
  for (size_t d = 0; d < axis.sizes.size(); ++d) {
    const int64_t size = std::max<int64_t>(axis.sizes[d], 1);
    inner /= size;
    const bool is_used = std::any_of(operands.begin(), operands.end(), [&](size_t operand) {
      int64_t stride = 0;
      return !IsLinear(axis, operand, &stride) && axis.strides[operand][d] != 0;
    });
    if (!is_used) continue;
    std::string value(index);
    if (d + 1 < axis.sizes.size()) absl::StrAppend(&value, " / ", Literal(std::max<int64_t>(inner, 1)));
    if (d > 0) absl::StrAppend(&value, " % ", Literal(size));
    lines.push_back(absl::StrCat("const Index ", index, "_", d, " = ", value, ";"));
  }
  return lines;
}

std::string IndexText::Offset(const Axis& axis, size_t operand, absl::string_view index) const {
  const auto term = [&](absl::string_view of, int64_t stride) {
    if (stride == 0) return std::string();
    return stride == 1 ? std::string(of) : absl::StrCat(of, " * ", Literal(stride));
  };
  int64_t stride = 0;
  if (IsLinear(axis, operand, &stride)) return term(index, stride);
  std::string sum;
  for (size_t d = 0; d < axis.sizes.size(); ++d) {
    sum = SumText(sum, term(absl::StrCat(index, "_", d), axis.strides[operand][d]));
  }
  return sum;
}

std::string SumText(absl::string_view a, absl::string_view b) {
  return absl::StrCat(a, a.empty() || b.empty() ? "" : " + ", b);
}

}  // namespace cotan::cuda::expr
