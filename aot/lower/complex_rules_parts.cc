// Ops that do to both parts what they do to a number.
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "aot/lower/complex_rules.h"

namespace cotan::aot {
namespace {

constexpr int kNoNumber = -1;

// Masks and indices are what they are.
void TakePart(ComplexNode& n, int64_t part, DType dtype, Use& use) {
  if (use.value == kNoValue) return;
  const TensorType type = n.TypeOf(use.value);
  if (n.IsComplex(use.value)) {
    use.value = n.PartOfValue(use.value, part);
  } else if (IsFloatingPoint(type.dtype) && part == 1) {
    use.value = n.math.Full(0, type);
  }
  if (IsFloatingPoint(n.TypeOf(use.value).dtype)) use.value = n.math.Convert(use.value, dtype);
}

// An argument of the op on one of the parts. `is_element`: it is an element of the
// result, and so has an imaginary part. False: it should be a number, but is not.
bool TakePart(ComplexNode& n, int64_t part, DType dtype, bool is_element, Argument& argument) {
  if (Use* use = std::get_if<Use>(&argument)) {
    TakePart(n, part, dtype, *use);
    return true;
  }
  if (auto* list = std::get_if<std::vector<Use>>(&argument)) {
    const bool are_elements = n.node().op == "aten.cat.default" || n.node().op == "aten.stack.default";
    for (Use& use : *list) {
      if (are_elements && !n.IsComplex(use.value)) use.value = n.math.Convert(use.value, dtype);
      TakePart(n, part, dtype, use);
    }
    return true;
  }
  if (std::holds_alternative<DType>(argument)) argument = dtype;
  if (!is_element) return true;
  const auto number = NumberOf(argument);
  if (number.has_value()) argument = part == 0 ? number->first : number->second;
  return number.has_value();
}

// `kNumber`: which argument is a number that is an element of the result.
template <int kNumber>
bool OnParts(ComplexNode& n) {
  std::vector<TensorType> types;
  for (const ValueId output : n.node().outputs) {
    if (!n.IsComplex(output)) return false;
    types.push_back(n.PartTypeOf(output));
  }
  std::vector<std::vector<ValueId>> parts;
  for (const int64_t part : {0, 1}) {
    std::vector<Argument> arguments = n.node().arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!TakePart(n, part, types[0].dtype, static_cast<int>(i) == kNumber, arguments[i])) return false;
    }
    parts.push_back(n.Repeat(std::move(arguments), types));
  }
  for (size_t i = 0; i < n.node().outputs.size(); ++i) n.ReturnParts(n.node().outputs[i], parts[0][i], parts[1][i]);
  return true;
}

}  // namespace

absl::Span<const ComplexRuleRow> PartwiseComplexRules() {
  static constexpr ComplexRuleRow kRows[] = {
      {"aten.as_strided.default", OnParts<kNoNumber>},
      {"aten.as_strided_copy.default", OnParts<kNoNumber>},
      {"aten.as_strided_scatter.default", OnParts<kNoNumber>},
      {"aten.cat.default", OnParts<kNoNumber>},
      {"aten.constant_pad_nd.default", OnParts<2>},
      {"aten.cumsum.default", OnParts<kNoNumber>},
      {"aten.diag_embed.default", OnParts<kNoNumber>},
      {"aten.diagonal.default", OnParts<kNoNumber>},
      {"aten.diagonal_backward.default", OnParts<kNoNumber>},
      {"aten.diagonal_copy.default", OnParts<kNoNumber>},
      {"aten.diagonal_scatter.default", OnParts<kNoNumber>},
      {"aten.embedding.default", OnParts<kNoNumber>},
      {"aten.flip.default", OnParts<kNoNumber>},
      {"aten.gather.default", OnParts<kNoNumber>},
      {"aten.index.Tensor", OnParts<kNoNumber>},
      {"aten.index_add.default", OnParts<kNoNumber>},
      {"aten.index_copy.default", OnParts<kNoNumber>},
      {"aten.index_fill.int_Scalar", OnParts<3>},
      {"aten.index_fill.int_Tensor", OnParts<kNoNumber>},
      {"aten.index_put.default", OnParts<kNoNumber>},
      {"aten.index_select.default", OnParts<kNoNumber>},
      {"aten.lift_fresh_copy.default", OnParts<kNoNumber>},
      {"aten.masked_fill.Scalar", OnParts<2>},
      {"aten.masked_fill.Tensor", OnParts<kNoNumber>},
      {"aten.masked_scatter.default", OnParts<kNoNumber>},
      {"aten.mean.default", OnParts<kNoNumber>},
      {"aten.mean.dim", OnParts<kNoNumber>},
      {"aten.repeat.default", OnParts<kNoNumber>},
      {"aten.roll.default", OnParts<kNoNumber>},
      {"aten.scatter.src", OnParts<kNoNumber>},
      {"aten.scatter.value", OnParts<3>},
      {"aten.scatter_add.default", OnParts<kNoNumber>},
      {"aten.select_backward.default", OnParts<kNoNumber>},
      {"aten.select_scatter.default", OnParts<kNoNumber>},
      {"aten.slice_backward.default", OnParts<kNoNumber>},
      {"aten.slice_scatter.default", OnParts<kNoNumber>},
      {"aten.split.Tensor", OnParts<kNoNumber>},
      {"aten.split_with_sizes.default", OnParts<kNoNumber>},
      {"aten.stack.default", OnParts<kNoNumber>},
      {"aten.take.default", OnParts<kNoNumber>},
      {"aten.trace.default", OnParts<kNoNumber>},
      {"aten.tril.default", OnParts<kNoNumber>},
      {"aten.triu.default", OnParts<kNoNumber>},
      {"aten.unbind.int", OnParts<kNoNumber>},
      {"aten.unfold.default", OnParts<kNoNumber>},
      {"aten.unfold_backward.default", OnParts<kNoNumber>},
      {"aten.unfold_copy.default", OnParts<kNoNumber>},
      {"aten.unsafe_split.Tensor", OnParts<kNoNumber>},
      {"aten.unsafe_split_with_sizes.default", OnParts<kNoNumber>},
      {"aten.where.ScalarOther", OnParts<2>},
      {"aten.where.ScalarSelf", OnParts<1>},
      {"aten.where.self", OnParts<kNoNumber>},
  };
  return kRows;
}

}  // namespace cotan::aot
