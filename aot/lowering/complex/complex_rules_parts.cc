// SPDX-License-Identifier: Apache-2.0

// Rules of ops that apply to each part separately.
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "aot/lowering/complex/complex_rules.h"

namespace cotan::aot {
namespace {

constexpr int kNone = -1;

// Returns a part of an operand that provides elements of the result; the imaginary part of a real
// one is 0.
ValueId PartOf(ComplexNode& n, int64_t part, DType dtype, ValueId element) {
  if (element == kNoValue) return kNoValue;
  if (n.IsComplex(element)) return n.math.Convert(n.PartOfValue(element, part), dtype);
  const ValueId real = n.math.Convert(element, dtype);
  return part == 0 ? real : n.math.Full(0, n.TypeOf(real));
}

// Replaces tensors in an argument that provides elements of the result by one of their parts.
void TakeParts(ComplexNode& n, int64_t part, DType dtype, Argument& argument) {
  if (Use* use = std::get_if<Use>(&argument)) use->value = PartOf(n, part, dtype, use->value);
  if (auto* list = std::get_if<std::vector<Use>>(&argument)) {
    for (Use& use : *list) use.value = PartOf(n, part, dtype, use.value);
  }
  if (std::holds_alternative<DType>(argument)) argument = dtype;
}

// `kNumber`: index of the argument that is a number and an element of the result. `kPlaces`: index
// of the argument that is a mask or has indices, and stays unchanged.
template <int kNumber, int kPlaces>
bool OnParts(ComplexNode& n) {
  std::vector<TensorType> types;
  for (const ValueId output : n.node().outputs) {
    if (!n.IsComplex(output)) return false;
    types.push_back(n.PartTypeOf(output));
  }
  std::vector<std::vector<ValueId>> parts;
  for (const int64_t part : {0, 1}) {
    std::vector<Argument> arguments = n.node().arguments;
    if constexpr (kNumber != kNone) {
      const auto number = NumberOf(arguments[kNumber]);
      if (!number.has_value()) return false;
      arguments[kNumber] = part == 0 ? number->first : number->second;
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (static_cast<int>(i) != kPlaces) TakeParts(n, part, types[0].dtype, arguments[i]);
    }
    parts.push_back(n.Repeat(std::move(arguments), types));
  }
  for (size_t i = 0; i < n.node().outputs.size(); ++i) n.ReturnParts(n.node().outputs[i], parts[0][i], parts[1][i]);
  return true;
}

}  // namespace

absl::Span<const ComplexRuleRow> PartwiseComplexRules() {
  static constexpr ComplexRuleRow kRows[] = {
      {"aten.as_strided.default", OnParts<kNone, kNone>},
      {"aten.as_strided_copy.default", OnParts<kNone, kNone>},
      {"aten.as_strided_scatter.default", OnParts<kNone, kNone>},
      {"aten.cat.default", OnParts<kNone, kNone>},
      {"aten.constant_pad_nd.default", OnParts<2, kNone>},
      {"aten.cumsum.default", OnParts<kNone, kNone>},
      {"aten.diag_embed.default", OnParts<kNone, kNone>},
      {"aten.diagonal.default", OnParts<kNone, kNone>},
      {"aten.diagonal_backward.default", OnParts<kNone, kNone>},
      {"aten.diagonal_copy.default", OnParts<kNone, kNone>},
      {"aten.diagonal_scatter.default", OnParts<kNone, kNone>},
      {"aten.embedding.default", OnParts<kNone, 1>},
      {"aten.flip.default", OnParts<kNone, kNone>},
      {"aten.gather.default", OnParts<kNone, 2>},
      {"aten.index.Tensor", OnParts<kNone, 1>},
      {"aten.index_add.default", OnParts<kNone, 2>},
      {"aten.index_copy.default", OnParts<kNone, 2>},
      {"aten.index_fill.int_Scalar", OnParts<3, 2>},
      {"aten.index_fill.int_Tensor", OnParts<kNone, 2>},
      {"aten.index_put.default", OnParts<kNone, 1>},
      {"aten.index_select.default", OnParts<kNone, 2>},
      {"aten.lift_fresh_copy.default", OnParts<kNone, kNone>},
      {"aten.masked_fill.Scalar", OnParts<2, 1>},
      {"aten.masked_fill.Tensor", OnParts<kNone, 1>},
      {"aten.masked_scatter.default", OnParts<kNone, 1>},
      {"aten.mean.default", OnParts<kNone, kNone>},
      {"aten.mean.dim", OnParts<kNone, kNone>},
      {"aten.repeat.default", OnParts<kNone, kNone>},
      {"aten.roll.default", OnParts<kNone, kNone>},
      {"aten.scatter.src", OnParts<kNone, 2>},
      {"aten.scatter.value", OnParts<3, 2>},
      {"aten.scatter_add.default", OnParts<kNone, 2>},
      {"aten.select_backward.default", OnParts<kNone, kNone>},
      {"aten.select_scatter.default", OnParts<kNone, kNone>},
      {"aten.slice_backward.default", OnParts<kNone, kNone>},
      {"aten.slice_scatter.default", OnParts<kNone, kNone>},
      {"aten.split.Tensor", OnParts<kNone, kNone>},
      {"aten.split_with_sizes.default", OnParts<kNone, kNone>},
      {"aten.stack.default", OnParts<kNone, kNone>},
      {"aten.take.default", OnParts<kNone, 1>},
      {"aten.trace.default", OnParts<kNone, kNone>},
      {"aten.tril.default", OnParts<kNone, kNone>},
      {"aten.triu.default", OnParts<kNone, kNone>},
      {"aten.unbind.int", OnParts<kNone, kNone>},
      {"aten.unfold.default", OnParts<kNone, kNone>},
      {"aten.unfold_backward.default", OnParts<kNone, kNone>},
      {"aten.unfold_copy.default", OnParts<kNone, kNone>},
      {"aten.unsafe_split.Tensor", OnParts<kNone, kNone>},
      {"aten.unsafe_split_with_sizes.default", OnParts<kNone, kNone>},
      {"aten.where.ScalarOther", OnParts<2, 0>},
      {"aten.where.ScalarSelf", OnParts<1, 0>},
      {"aten.where.self", OnParts<kNone, 0>},
  };
  return kRows;
}

}  // namespace cotan::aot
