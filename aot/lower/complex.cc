#include "aot/lower/complex.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "aot/lower/complex_math.h"

namespace cotan::aot {
namespace {

DType PartOf(DType complex) { return complex == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64; }

// A number in an argument; complex ones are two numbers.
std::optional<std::pair<double, double>> NumberOf(const Argument& argument) {
  if (const auto* value = std::get_if<double>(&argument)) return std::pair(*value, 0.0);
  if (const auto* value = std::get_if<bool>(&argument)) return std::pair(*value ? 1.0 : 0.0, 0.0);
  if (const auto* value = std::get_if<SymInt>(&argument); value != nullptr && value->is_constant()) {
    return std::pair(static_cast<double>(value->constant()), 0.0);
  }
  if (const auto* parts = std::get_if<std::vector<double>>(&argument); parts != nullptr && parts->size() == 2) {
    return std::pair((*parts)[0], (*parts)[1]);
  }
  return std::nullopt;
}

bool IsComplexNumber(const Argument& argument) { return std::holds_alternative<std::vector<double>>(argument); }

// Ops that do to both parts what they do to a number, by where a number is that
// is an element of the result, and so has an imaginary part; -1: nowhere.
const absl::flat_hash_map<absl::string_view, int>& OpsOnParts() {
  static const auto* const kOps = new absl::flat_hash_map<absl::string_view, int>({
      {"aten.as_strided.default", -1},
      {"aten.as_strided_copy.default", -1},
      {"aten.as_strided_scatter.default", -1},
      {"aten.cat.default", -1},
      {"aten.constant_pad_nd.default", 2},
      {"aten.cumsum.default", -1},
      {"aten.diag_embed.default", -1},
      {"aten.diagonal.default", -1},
      {"aten.diagonal_backward.default", -1},
      {"aten.diagonal_copy.default", -1},
      {"aten.diagonal_scatter.default", -1},
      {"aten.embedding.default", -1},
      {"aten.flip.default", -1},
      {"aten.gather.default", -1},
      {"aten.index.Tensor", -1},
      {"aten.index_add.default", -1},
      {"aten.index_copy.default", -1},
      {"aten.index_fill.int_Scalar", 3},
      {"aten.index_fill.int_Tensor", -1},
      {"aten.index_put.default", -1},
      {"aten.index_select.default", -1},
      {"aten.lift_fresh_copy.default", -1},
      {"aten.masked_fill.Scalar", 2},
      {"aten.masked_fill.Tensor", -1},
      {"aten.masked_scatter.default", -1},
      {"aten.mean.default", -1},
      {"aten.mean.dim", -1},
      {"aten.repeat.default", -1},
      {"aten.roll.default", -1},
      {"aten.scatter.src", -1},
      {"aten.scatter.value", 3},
      {"aten.scatter_add.default", -1},
      {"aten.select_backward.default", -1},
      {"aten.select_scatter.default", -1},
      {"aten.slice_backward.default", -1},
      {"aten.slice_scatter.default", -1},
      {"aten.split.Tensor", -1},
      {"aten.split_with_sizes.default", -1},
      {"aten.stack.default", -1},
      {"aten.take.default", -1},
      {"aten.trace.default", -1},
      {"aten.tril.default", -1},
      {"aten.triu.default", -1},
      {"aten.unbind.int", -1},
      {"aten.unfold.default", -1},
      {"aten.unfold_backward.default", -1},
      {"aten.unfold_copy.default", -1},
      {"aten.unsafe_split.Tensor", -1},
      {"aten.unsafe_split_with_sizes.default", -1},
      {"aten.where.ScalarOther", 2},
      {"aten.where.ScalarSelf", 1},
      {"aten.where.self", -1},
  });
  return *kOps;
}

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph), math_(graph, at_) {}

  absl::Status Run() {
    at_ = graph_.nodes().begin();
    for (const GraphInput& input : graph_.inputs()) {
      if (IsComplex(input.value))
        pairs_[input.value] = Emit("aten.view_as_real.default", {Use{input.value}}, PairType(input.value));
    }
    while (at_ != graph_.nodes().end()) {
      if (!Touches(*at_)) {
        ++at_;
        continue;
      }
      const Node node = *at_;
      math_.set_source(node.source);
      if (HasPairs(node) && !Rewrite(node)) unsupported_.insert(node.op);
      at_ = graph_.nodes().erase(at_);
    }
    if (!unsupported_.empty()) {
      return absl::UnimplementedError(absl::StrCat(absl::StrJoin(unsupported_, ", "), " of complex numbers"));
    }
    for (GraphOutput& output : graph_.outputs()) {
      const auto pair = pairs_.find(output.value);
      if (pair == pairs_.end() || IsInput(output.value)) continue;
      output.value = Emit("aten.view_as_complex.default", {Use{pair->second}}, graph_.value(output.value).type);
    }
    return absl::OkStatus();
  }

 private:
  // Emits the real form of a node in front of it; false: there is none.
  using Rule = bool (Splitter::*)(const Node& node);

  bool Rewrite(const Node& node) {
    if (OpsOnParts().contains(node.op)) return OnParts(node);
    const auto found = Rules().find(node.op);
    return found != Rules().end() && (this->*found->second)(node);
  }

  static const absl::flat_hash_map<absl::string_view, Rule>& Rules() {
    static const auto* const kRules = new absl::flat_hash_map<absl::string_view, Rule>({
        {"aten._conj.default", &Splitter::Conjugate},
        {"aten._conj_copy.default", &Splitter::Conjugate},
        {"aten._conj_physical.default", &Splitter::Conjugate},
        {"aten._neg_view.default", &Splitter::Negate},
        {"aten._to_copy.default", &Splitter::Convert},
        {"aten._unsafe_view.default", &Splitter::Resize},
        {"aten.abs.default", &Splitter::Abs},
        {"aten.add.Scalar", &Splitter::Sum},
        {"aten.add.Tensor", &Splitter::Sum},
        {"aten.addcdiv.default", &Splitter::AddQuotient},
        {"aten.addcmul.default", &Splitter::AddProduct},
        {"aten.addmm.default", &Splitter::AddMatrixProduct},
        {"aten.addmv.default", &Splitter::AddMatrixProduct},
        {"aten.alias.default", &Splitter::Same},
        {"aten.all.default", &Splitter::OfNonZero},
        {"aten.all.dim", &Splitter::OfNonZero},
        {"aten.angle.default", &Splitter::Angle},
        {"aten.any.default", &Splitter::OfNonZero},
        {"aten.any.dim", &Splitter::OfNonZero},
        {"aten.baddbmm.default", &Splitter::AddMatrixProduct},
        {"aten.bmm.default", &Splitter::MatrixProduct},
        {"aten.clone.default", &Splitter::Same},
        {"aten.complex.default", &Splitter::Join},
        {"aten.conj_physical.default", &Splitter::Conjugate},
        {"aten.copy.default", &Splitter::CopySource},
        {"aten.cos.default", &Splitter::Function<&ComplexMath::Cos>},
        {"aten.cosh.default", &Splitter::Function<&ComplexMath::Cosh>},
        {"aten.detach.default", &Splitter::Same},
        {"aten.div.Scalar", &Splitter::Quotient},
        {"aten.div.Tensor", &Splitter::Quotient},
        {"aten.dot.default", &Splitter::MatrixProduct},
        {"aten.empty.memory_format", &Splitter::Zeros},
        {"aten.empty_like.default", &Splitter::Zeros},
        {"aten.eq.Scalar", &Splitter::Equal},
        {"aten.eq.Tensor", &Splitter::Equal},
        {"aten.exp.default", &Splitter::Function<&ComplexMath::Exp>},
        {"aten.expand.default", &Splitter::Resize},
        {"aten.expm1.default", &Splitter::ExpMinusOne},
        {"aten.eye.default", &Splitter::Eye},
        {"aten.eye.m", &Splitter::Eye},
        {"aten.fill.Scalar", &Splitter::Fill},
        {"aten.fill.Tensor", &Splitter::Fill},
        {"aten.full.default", &Splitter::Fill},
        {"aten.full_like.default", &Splitter::Fill},
        {"aten.isfinite.default", &Splitter::OfBoth},
        {"aten.isinf.default", &Splitter::OfEither},
        {"aten.isnan.default", &Splitter::OfEither},
        {"aten.lerp.Scalar", &Splitter::Interpolate},
        {"aten.lerp.Tensor", &Splitter::Interpolate},
        {"aten.linalg_vector_norm.default", &Splitter::OfMagnitude},
        {"aten.log.default", &Splitter::Function<&ComplexMath::Log>},
        {"aten.log10.default", &Splitter::Log10},
        {"aten.log1p.default", &Splitter::LogPlusOne},
        {"aten.log2.default", &Splitter::Log2},
        {"aten.logical_not.default", &Splitter::IsZero},
        {"aten.mm.default", &Splitter::MatrixProduct},
        {"aten.mul.Scalar", &Splitter::Product},
        {"aten.mul.Tensor", &Splitter::Product},
        {"aten.mv.default", &Splitter::MatrixProduct},
        {"aten.ne.Scalar", &Splitter::Equal},
        {"aten.ne.Tensor", &Splitter::Equal},
        {"aten.neg.default", &Splitter::Negate},
        {"aten.new_empty.default", &Splitter::Zeros},
        {"aten.new_empty_strided.default", &Splitter::Zeros},
        {"aten.new_full.default", &Splitter::FillNew},
        {"aten.new_ones.default", &Splitter::Ones},
        {"aten.new_zeros.default", &Splitter::Zeros},
        {"aten.norm.Scalar", &Splitter::OfMagnitude},
        {"aten.norm.ScalarOpt_dim", &Splitter::OfMagnitude},
        {"aten.ones.default", &Splitter::Ones},
        {"aten.ones_like.default", &Splitter::Ones},
        {"aten.permute.default", &Splitter::Permute},
        {"aten.pow.Scalar", &Splitter::Power},
        {"aten.pow.Tensor_Scalar", &Splitter::Power},
        {"aten.pow.Tensor_Tensor", &Splitter::Power},
        {"aten.reciprocal.default", &Splitter::Function<&ComplexMath::Reciprocal>},
        {"aten.reshape.default", &Splitter::Resize},
        {"aten.rsqrt.default", &Splitter::InverseRoot},
        {"aten.rsub.Scalar", &Splitter::Reverse},
        {"aten.rsub.Tensor", &Splitter::Reverse},
        {"aten.scalar_tensor.default", &Splitter::FillFirst},
        {"aten.select.int", &Splitter::AlongDim},
        {"aten.sgn.default", &Splitter::Sgn},
        {"aten.sigmoid.default", &Splitter::Function<&ComplexMath::Sigmoid>},
        {"aten.sigmoid_backward.default", &Splitter::SigmoidBackward},
        {"aten.silu.default", &Splitter::Silu},
        {"aten.sin.default", &Splitter::Function<&ComplexMath::Sin>},
        {"aten.sinh.default", &Splitter::Function<&ComplexMath::Sinh>},
        {"aten.slice.Tensor", &Splitter::AlongDim},
        {"aten.sqrt.default", &Splitter::Function<&ComplexMath::Sqrt>},
        {"aten.square.default", &Splitter::Square},
        {"aten.squeeze.default", &Splitter::AsSized},
        {"aten.squeeze.dim", &Splitter::AsSized},
        {"aten.squeeze.dims", &Splitter::AsSized},
        {"aten.sub.Scalar", &Splitter::Sum},
        {"aten.sub.Tensor", &Splitter::Sum},
        {"aten.sum.default", &Splitter::SumAll},
        {"aten.sum.dim_IntList", &Splitter::SumDims},
        {"aten.t.default", &Splitter::Turn},
        {"aten.tan.default", &Splitter::Function<&ComplexMath::Tan>},
        {"aten.tanh.default", &Splitter::Function<&ComplexMath::Tanh>},
        {"aten.tanh_backward.default", &Splitter::TanhBackward},
        {"aten.transpose.int", &Splitter::Turn},
        {"aten.unsqueeze.default", &Splitter::AsSized},
        {"aten.view.default", &Splitter::Resize},
        {"aten.view_as_complex.default", &Splitter::FromReal},
        {"aten.view_as_complex_copy.default", &Splitter::FromReal},
        {"aten.view_as_real.default", &Splitter::ToReal},
        {"aten.view_as_real_copy.default", &Splitter::ToReal},
        {"aten.zero.default", &Splitter::Zeros},
        {"aten.zeros.default", &Splitter::Zeros},
        {"aten.zeros_like.default", &Splitter::Zeros},
    });
    return *kRules;
  }

  bool IsComplex(ValueId id) const { return id != kNoValue && cotan::IsComplex(graph_.value(id).type.dtype); }

  bool IsInput(ValueId id) const {
    return std::any_of(graph_.inputs().begin(), graph_.inputs().end(),
                       [id](const GraphInput& input) { return input.value == id; });
  }

  bool Touches(const Node& node) const {
    const std::vector<ValueId> operands = TensorOperands(node);
    const auto is_complex = [this](ValueId id) { return IsComplex(id); };
    return std::any_of(operands.begin(), operands.end(), is_complex) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is_complex);
  }

  // Not so for what depends on something unsupported.
  bool HasPairs(const Node& node) const {
    const std::vector<ValueId> operands = TensorOperands(node);
    return std::all_of(operands.begin(), operands.end(),
                       [this](ValueId id) { return !IsComplex(id) || pairs_.contains(id); });
  }

  TensorType PartType(ValueId complex) const {
    TensorType type = graph_.value(complex).type;
    type.dtype = PartOf(type.dtype);
    return type;
  }

  TensorType PairType(ValueId complex) const {
    TensorType type = PartType(complex);
    type.sizes.push_back(2);
    return type;
  }

  ValueId Emit(std::string op, std::vector<Argument> arguments, TensorType type) {
    return math_.Emit(std::move(op), std::move(arguments), std::move(type));
  }

  static ValueId Operand(const Node& node, size_t i) {
    const Use* use = std::get_if<Use>(&node.arguments[i]);
    return use == nullptr ? kNoValue : use->value;
  }

  ValueId Pair(const Node& node, size_t i) const { return pairs_.at(Operand(node, i)); }

  bool IsComplexOperand(const Node& node, size_t i) const { return IsComplex(Operand(node, i)); }

  // Real or imaginary part of a complex operand, with the operand's sizes.
  ValueId Part(const Node& node, size_t i, int64_t part) {
    const ValueId complex = Operand(node, i);
    return Emit("aten.select.int", {Use{Pair(node, i)}, SymInt(-1), SymInt(part)}, PartType(complex));
  }

  // The complex result of `node` of two parts with its sizes.
  bool Return(const Node& node, ValueId real, ValueId imaginary) {
    ReturnPart(node.outputs[0], real, imaginary);
    return true;
  }
  bool Return(const Node& node, ComplexValue value) { return Return(node, value.real, value.imaginary); }

  void ReturnPart(ValueId complex, ValueId real, ValueId imaginary) {
    const std::vector<Use> parts = {Use{Expanded(real, complex)}, Use{Expanded(imaginary, complex)}};
    pairs_[complex] = Emit("aten.stack.default", {parts, SymInt(-1)}, PairType(complex));
  }

  // A part with the sizes of the number that it is a part of.
  ValueId Expanded(ValueId part, ValueId complex) {
    const TensorType type = PartType(complex);
    part = math_.Convert(part, type.dtype);
    if (graph_.value(part).type.sizes == type.sizes) return part;
    const std::vector<SymInt> sizes(type.sizes.begin(), type.sizes.end());
    return Emit("aten.expand.default", {Use{part}, sizes, false}, type);
  }

  // Operand `i`, a tensor of complex or real numbers or a number, to compute with
  // what has parts of `dtype`.
  ComplexValue Operands(const Node& node, size_t i, DType dtype) {
    if (IsComplexOperand(node, i)) {
      return {math_.Convert(Part(node, i, 0), dtype), math_.Convert(Part(node, i, 1), dtype)};
    }
    if (Operand(node, i) != kNoValue) {
      return {math_.Convert(Operand(node, i), dtype), math_.Full(0, {.dtype = dtype})};
    }
    const auto [real, imaginary] = NumberOf(node.arguments[i]).value_or(std::pair(0.0, 0.0));
    return {math_.Full(real, {.dtype = dtype}), math_.Full(imaginary, {.dtype = dtype})};
  }
  // As parts of the result.
  ComplexValue Operands(const Node& node, size_t i) {
    return Operands(node, i, PartOf(graph_.value(node.outputs[0]).type.dtype));
  }

  bool ReturnPair(const Node& node, ValueId pair) {
    pairs_[node.outputs[0]] = pair;
    return true;
  }

  bool ReturnReal(const Node& node, ValueId value) {
    graph_.ReplaceAllUses(node.outputs[0], value);
    return true;
  }

  // The node on pairs, in the place of its first argument.
  bool ReturnSame(Node node) {
    node.arguments[0] = Use{Pair(node, 0)};
    return ReturnPair(node, Emit(node.op, node.arguments, PairType(node.outputs[0])));
  }

  int64_t Rank(const Node& node, size_t i) const {
    return static_cast<int64_t>(graph_.value(Operand(node, i)).type.sizes.size());
  }

  static int64_t WrapDim(const Argument& dim, int64_t rank) {
    const int64_t value = std::get<SymInt>(dim).constant();
    return value < 0 ? value + rank : value;
  }

  ValueId Full(double value, TensorType type) { return math_.Full(value, std::move(type)); }

  bool Same(const Node& node) { return ReturnPair(node, Pair(node, 0)); }
  bool ToReal(const Node& node) { return ReturnReal(node, Pair(node, 0)); }
  bool FromReal(const Node& node) { return ReturnPair(node, Operand(node, 0)); }
  bool Negate(const Node& node) { return ReturnSame(node); }
  bool Zeros(const Node& node) { return ReturnPair(node, Full(0, PairType(node.outputs[0]))); }
  bool Join(const Node& node) { return Return(node, Operand(node, 0), Operand(node, 1)); }

  bool Conjugate(const Node& node) {
    const ValueId imaginary = Part(node, 0, 1);
    const ValueId negative = Emit("aten.neg.default", {Use{imaginary}}, graph_.value(imaginary).type);
    const ValueId real = Part(node, 0, 0);
    return Return(node, real, negative);
  }

  // (self, src)
  bool CopySource(const Node& node) { return ReturnConverted(node, 1); }
  bool Convert(const Node& node) { return ReturnConverted(node, 0); }

  // Operand `i` with the result's dtype and sizes. A real result is the real part.
  bool ReturnConverted(const Node& node, size_t i) {
    const TensorType result = graph_.value(node.outputs[0]).type;
    if (!cotan::IsComplex(result.dtype)) {
      const ValueId real = math_.Convert(Part(node, i, 0), result.dtype);
      if (graph_.value(real).type.sizes == result.sizes) return ReturnReal(node, real);
      const std::vector<SymInt> sizes(result.sizes.begin(), result.sizes.end());
      return ReturnReal(node, Emit("aten.expand.default", {Use{real}, sizes, false}, result));
    }
    if (IsComplexOperand(node, i) && graph_.value(Operand(node, i)).type == result) {
      return ReturnPair(node, Pair(node, i));
    }
    return Return(node, Operands(node, i));
  }

  // An operand of a sum as a pair that broadcasts to the result's.
  ValueId AsPair(const Node& node, size_t i) {
    if (IsComplexOperand(node, i)) return Pair(node, i);
    const ValueId real = Operand(node, i);
    TensorType type = graph_.value(real).type;
    type.dtype = PartOf(graph_.value(node.outputs[0]).type.dtype);
    const std::vector<Use> parts = {Use{real}, Use{Full(0, type)}};
    type.sizes.push_back(2);
    return Emit("aten.stack.default", {parts, SymInt(-1)}, type);
  }

  // (self, other, alpha)
  bool Sum(const Node& node) {
    const bool is_plain = !IsComplexNumber(node.arguments[0]) && !IsComplexNumber(node.arguments[1]) &&
                          !IsComplexNumber(node.arguments[2]);
    if (!is_plain || Operand(node, 0) == kNoValue) return WeightedSum(node);
    const std::string op = node.op.substr(0, node.op.rfind('.'));
    if (Operand(node, 1) != kNoValue) {
      return ReturnPair(node, Emit(op + ".Tensor", {Use{AsPair(node, 0)}, Use{AsPair(node, 1)}, node.arguments[2]},
                                   PairType(node.outputs[0])));
    }
    // A number has no imaginary part.
    const ValueId real =
        Emit(op + ".Scalar", {Use{Part(node, 0, 0)}, node.arguments[1], node.arguments[2]}, PartType(node.outputs[0]));
    const ValueId imaginary = Part(node, 0, 1);
    return Return(node, real, imaginary);
  }

  bool WeightedSum(const Node& node) {
    const ComplexValue a = Operands(node, 0);
    const ComplexValue b = Times(Operands(node, 1), node.arguments[2]);
    const bool is_difference = node.op.find("sub") != std::string::npos;
    return Return(node, is_difference ? math_.Subtract(a, b) : math_.Add(a, b));
  }

  // (self, other, alpha): other - alpha * self
  bool Reverse(const Node& node) {
    const ComplexValue subtrahend = Times(Operands(node, 0), node.arguments[2]);
    return Return(node, math_.Subtract(Operands(node, 1), subtrahend));
  }

  ComplexValue Times(ComplexValue z, const Argument& number) {
    const auto [real, imaginary] = NumberOf(number).value_or(std::pair(1.0, 0.0));
    if (imaginary != 0) return math_.Multiply(z, math_.Constant(real, imaginary, z.real));
    return real == 1 ? z : math_.ScaleBy(z, math_.NumberLike(real, z.real));
  }

  // self * other or self / other of a complex number and a real one.
  bool Scale(const Node& node, size_t complex, size_t real) {
    std::vector<Argument> arguments = {Use{Pair(node, complex)}, node.arguments[real]};
    if (const ValueId factor = Operand(node, real); factor != kNoValue) {
      TensorType type = graph_.value(factor).type;
      type.sizes.push_back(1);
      arguments[1] = Use{Emit("aten.unsqueeze.default", {Use{factor}, SymInt(-1)}, type)};
    }
    return ReturnPair(node, Emit(node.op, std::move(arguments), PairType(node.outputs[0])));
  }

  bool Product(const Node& node) {
    if (IsComplexNumber(node.arguments[1]) || IsComplexNumber(node.arguments[0])) {
      return Return(node, math_.Multiply(Operands(node, 0), Operands(node, 1)));
    }
    if (!IsComplexOperand(node, 1)) return Scale(node, 0, 1);
    if (!IsComplexOperand(node, 0)) return Scale(node, 1, 0);
    const ComplexValue a = Operands(node, 0);
    return Return(node, math_.Multiply(a, Operands(node, 1)));
  }

  bool Quotient(const Node& node) {
    const bool is_by_real = !IsComplexOperand(node, 1) && !IsComplexNumber(node.arguments[1]);
    if (is_by_real) return IsComplexOperand(node, 0) && Scale(node, 0, 1);
    const ComplexValue a = Operands(node, 0);
    return Return(node, math_.Divide(a, Operands(node, 1)));
  }

  // Part `part` of the result of an op that is one of each operand.
  ValueId ProductOfParts(const Node& node, size_t first, bool imaginary, bool other_imaginary, const TensorType& type) {
    const DType dtype = type.dtype;
    const ComplexValue a = Operands(node, first, dtype), b = Operands(node, first + 1, dtype);
    const std::string op = node.op == "aten.addmm.default"     ? "aten.mm.default"
                           : node.op == "aten.addmv.default"   ? "aten.mv.default"
                           : node.op == "aten.baddbmm.default" ? "aten.bmm.default"
                                                               : node.op;
    return Emit(op, {Use{imaginary ? a.imaginary : a.real}, Use{other_imaginary ? b.imaginary : b.real}}, type);
  }

  ComplexValue ProductOf(const Node& node, size_t first, const TensorType& type) {
    const ValueId ac = ProductOfParts(node, first, false, false, type);
    const ValueId bd = ProductOfParts(node, first, true, true, type);
    const ValueId ad = ProductOfParts(node, first, false, true, type);
    const ValueId bc = ProductOfParts(node, first, true, false, type);
    return {math_.Binary("sub", ac, bd), math_.Binary("add", ad, bc)};
  }

  bool MatrixProduct(const Node& node) {
    if (!IsComplexOperand(node, 0) || !IsComplexOperand(node, 1)) return false;
    return Return(node, ProductOf(node, 0, PartType(node.outputs[0])));
  }

  // (self, a, b, beta, alpha)
  bool AddMatrixProduct(const Node& node) {
    if (!IsComplexOperand(node, 1) || !IsComplexOperand(node, 2)) return false;
    const ComplexValue product = Times(ProductOf(node, 1, PartType(node.outputs[0])), node.arguments[4]);
    if (NumberOf(node.arguments[3]) == std::pair(0.0, 0.0)) return Return(node, product);
    return Return(node, math_.Add(Times(Operands(node, 0), node.arguments[3]), product));
  }

  // (self, a, b, value)
  bool AddProduct(const Node& node) {
    const ComplexValue product = math_.Multiply(Operands(node, 1), Operands(node, 2));
    return Return(node, math_.Add(Operands(node, 0), Times(product, node.arguments[3])));
  }

  bool AddQuotient(const Node& node) {
    const ComplexValue quotient = math_.Divide(Operands(node, 1), Operands(node, 2));
    return Return(node, math_.Add(Operands(node, 0), Times(quotient, node.arguments[3])));
  }

  // (self, end, weight)
  bool Interpolate(const Node& node) {
    const ComplexValue start = Operands(node, 0);
    const ComplexValue way = math_.Subtract(Operands(node, 1), start);
    return Return(node, math_.Add(start, math_.Multiply(way, Operands(node, 2))));
  }

  template <ComplexValue (ComplexMath::*kFunction)(ComplexValue)>
  bool Function(const Node& node) {
    return IsComplexOperand(node, 0) && Return(node, (math_.*kFunction)(Operands(node, 0)));
  }

  bool InverseRoot(const Node& node) { return Return(node, math_.Reciprocal(math_.Sqrt(Operands(node, 0)))); }
  bool Square(const Node& node) { return Return(node, math_.Power(Operands(node, 0), 2)); }
  bool Log2(const Node& node) { return ScaledLog(node, 1.4426950408889634); }
  bool Log10(const Node& node) { return ScaledLog(node, 0.43429448190325183); }
  bool ScaledLog(const Node& node, double factor) {
    const ComplexValue log = math_.Log(Operands(node, 0));
    return Return(node, math_.Scale(log.real, factor), math_.Scale(log.imaginary, factor));
  }
  bool LogPlusOne(const Node& node) {
    const ComplexValue z = Operands(node, 0);
    return Return(node, math_.Log(math_.Add(z, math_.Constant(1, 0, z.real))));
  }
  bool ExpMinusOne(const Node& node) {
    const ComplexValue z = Operands(node, 0);
    return Return(node, math_.Subtract(math_.Exp(z), math_.Constant(1, 0, z.real)));
  }
  bool Silu(const Node& node) {
    const ComplexValue z = Operands(node, 0);
    return Return(node, math_.Multiply(z, math_.Sigmoid(z)));
  }

  // (gradient, result): gradient times the conjugate of the derivative.
  bool SigmoidBackward(const Node& node) {
    const ComplexValue y = Operands(node, 1);
    const ComplexValue rest = math_.Subtract(math_.Constant(1, 0, y.real), y);
    return Return(node, TimesConjugate(Operands(node, 0), math_.Multiply(y, rest)));
  }
  bool TanhBackward(const Node& node) {
    const ComplexValue y = Operands(node, 1);
    return Return(
        node, TimesConjugate(Operands(node, 0), math_.Subtract(math_.Constant(1, 0, y.real), math_.Multiply(y, y))));
  }
  ComplexValue TimesConjugate(ComplexValue a, ComplexValue b) {
    return math_.Multiply(a, {b.real, math_.Unary("neg", b.imaginary)});
  }

  // Either may be a number.
  bool Power(const Node& node) {
    const auto exponent = NumberOf(node.arguments[1]);
    if (exponent.has_value() && exponent->second == 0) {
      return Return(node, math_.Power(Operands(node, 0), exponent->first));
    }
    const ComplexValue base = Operands(node, 0);
    return Return(node, math_.Power(base, Operands(node, 1)));
  }

  ValueId Magnitude(const Node& node) { return math_.Magnitude({Part(node, 0, 0), Part(node, 0, 1)}); }

  bool Abs(const Node& node) { return ReturnReal(node, Magnitude(node)); }
  bool Angle(const Node& node) { return ReturnReal(node, math_.Angle({Part(node, 0, 0), Part(node, 0, 1)})); }

  // What an op on the magnitudes returns.
  bool OfMagnitude(const Node& node) { return ReturnOf(node, Magnitude(node)); }
  bool OfNonZero(const Node& node) { return ReturnOf(node, math_.IsNotZero({Part(node, 0, 0), Part(node, 0, 1)})); }

  // The op on real numbers in the place of its first operand.
  bool ReturnOf(const Node& node, ValueId real) {
    std::vector<Argument> arguments = node.arguments;
    arguments[0] = Use{real};
    const TensorType type = graph_.value(node.outputs[0]).type;
    for (Argument& argument : arguments) {
      if (std::holds_alternative<DType>(argument)) argument = type.dtype;
    }
    return ReturnReal(node, Emit(node.op, std::move(arguments), type));
  }

  // Tests of one part.
  ComplexValue Tests(const Node& node) {
    const TensorType type = graph_.value(node.outputs[0]).type;
    const ValueId real = Emit(node.op, {Use{Part(node, 0, 0)}}, type);
    return {real, Emit(node.op, {Use{Part(node, 0, 1)}}, type)};
  }
  bool OfBoth(const Node& node) {
    const ComplexValue tests = Tests(node);
    return ReturnReal(node, math_.Binary("logical_and", tests.real, tests.imaginary));
  }
  bool OfEither(const Node& node) {
    const ComplexValue tests = Tests(node);
    return ReturnReal(node, math_.Binary("logical_or", tests.real, tests.imaginary));
  }
  bool IsZero(const Node& node) {
    const ValueId real = math_.Compare("eq", Part(node, 0, 0), 0);
    return ReturnReal(node, math_.Binary("logical_and", real, math_.Compare("eq", Part(node, 0, 1), 0)));
  }

  bool Equal(const Node& node) {
    const bool is_equal = node.op.find(".eq.") != std::string::npos;
    DType dtype = DType::kFloat32;
    for (const size_t i : {0, 1}) {
      if (IsComplexOperand(node, i) && graph_.value(Operand(node, i)).type.dtype == DType::kComplex128) {
        dtype = DType::kFloat64;
      }
    }
    const ComplexValue a = Operands(node, 0, dtype), b = Operands(node, 1, dtype);
    const absl::string_view op = is_equal ? "eq" : "ne";
    const ValueId real = math_.Binary(op, a.real, b.real);
    const ValueId imaginary = math_.Binary(op, a.imaginary, b.imaginary);
    return ReturnReal(node, math_.Binary(is_equal ? "logical_and" : "logical_or", real, imaginary));
  }

  // x / |x|, and 0 for 0.
  bool Sgn(const Node& node) {
    const ValueId magnitude = Magnitude(node);
    const ValueId is_zero = math_.Compare("eq", magnitude, 0);
    const ValueId divisor = math_.Where(is_zero, math_.NumberLike(1, magnitude), magnitude);
    const ValueId real = math_.Binary("div", Part(node, 0, 0), divisor);
    return Return(node, real, math_.Binary("div", Part(node, 0, 1), divisor));
  }

  // (self or sizes, value)
  bool Fill(const Node& node) { return Return(node, Operands(node, 1)); }
  bool FillFirst(const Node& node) { return Return(node, Operands(node, 0)); }
  // (self, sizes, value)
  bool FillNew(const Node& node) { return Return(node, Operands(node, 2)); }
  bool Ones(const Node& node) {
    const TensorType type = PartType(node.outputs[0]);
    return Return(node, Full(1, type), Full(0, type));
  }
  bool Eye(const Node& node) {
    const TensorType type = PartType(node.outputs[0]);
    std::vector<Argument> arguments = node.arguments;
    for (Argument& argument : arguments) {
      if (std::holds_alternative<DType>(argument)) argument = type.dtype;
    }
    return Return(node, Emit(node.op, std::move(arguments), type), Full(0, type));
  }

  // One of OpsOnParts().
  bool OnParts(const Node& node) {
    std::vector<TensorType> types;
    for (const ValueId output : node.outputs) {
      if (!IsComplex(output)) return false;
      types.push_back(PartType(output));
    }
    std::vector<std::vector<ValueId>> parts;
    for (const int64_t part : {0, 1}) {
      std::vector<Argument> arguments = node.arguments;
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (!TakePart(node, i, part, types[0].dtype, arguments[i])) return false;
      }
      parts.push_back(graph_.InsertNode(at_, node.op, std::move(arguments), types, node.source).outputs);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) ReturnPart(node.outputs[i], parts[0][i], parts[1][i]);
    return true;
  }

  // Argument `i` of an op on one of the parts.
  bool TakePart(const Node& node, size_t i, int64_t part, DType dtype, Argument& argument) {
    if (Use* use = std::get_if<Use>(&argument)) return TakePart(part, dtype, *use);
    if (auto* list = std::get_if<std::vector<Use>>(&argument)) {
      const bool are_elements = node.op == "aten.cat.default" || node.op == "aten.stack.default";
      for (Use& use : *list) {
        if (are_elements && !IsComplex(use.value)) use.value = math_.Convert(use.value, dtype);
        if (!TakePart(part, dtype, use)) return false;
      }
      return true;
    }
    if (std::holds_alternative<DType>(argument)) argument = dtype;
    if (static_cast<int>(i) != OpsOnParts().at(node.op)) return true;
    const auto number = NumberOf(argument);
    if (number.has_value()) argument = part == 0 ? number->first : number->second;
    return number.has_value();
  }

  // Masks and indices are what they are.
  bool TakePart(int64_t part, DType dtype, Use& use) {
    if (use.value == kNoValue) return true;
    const TensorType type = graph_.value(use.value).type;
    if (IsComplex(use.value)) {
      TensorType part_type = type;
      part_type.dtype = PartOf(type.dtype);
      use.value = Emit("aten.select.int", {Use{pairs_.at(use.value)}, SymInt(-1), SymInt(part)}, part_type);
    } else if (IsFloatingPoint(type.dtype) && part == 1) {
      use.value = Full(0, type);
    }
    if (IsFloatingPoint(graph_.value(use.value).type.dtype)) use.value = math_.Convert(use.value, dtype);
    return true;
  }

  // Views whose sizes are given.
  bool Resize(const Node& node) {
    const TensorType type = PairType(node.outputs[0]);
    std::vector<Argument> arguments = node.arguments;
    arguments[0] = Use{Pair(node, 0)};
    arguments[1] = std::vector<SymInt>(type.sizes.begin(), type.sizes.end());
    return ReturnPair(node, Emit(node.op, std::move(arguments), type));
  }

  bool AsSized(const Node& node) {
    const TensorType type = PairType(node.outputs[0]);
    const std::vector<SymInt> sizes(type.sizes.begin(), type.sizes.end());
    return ReturnPair(node, Emit("aten.view.default", {Use{Pair(node, 0)}, sizes}, type));
  }

  bool Permute(const Node& node) {
    Node on_pair = node;
    auto& dims = std::get<std::vector<SymInt>>(on_pair.arguments[1]);
    const int64_t rank = Rank(node, 0);
    for (SymInt& dim : dims) dim = WrapDim(dim, rank);
    dims.push_back(rank);
    return ReturnSame(std::move(on_pair));
  }

  bool Turn(const Node& node) {
    const int64_t rank = Rank(node, 0);
    if (rank == 0) return Same(node);
    const bool is_t = node.op == "aten.t.default";
    if (is_t && rank == 1) return Same(node);
    const int64_t first = is_t ? 0 : WrapDim(node.arguments[1], rank);
    const int64_t second = is_t ? 1 : WrapDim(node.arguments[2], rank);
    return ReturnPair(node, Emit("aten.transpose.int", {Use{Pair(node, 0)}, SymInt(first), SymInt(second)},
                                 PairType(node.outputs[0])));
  }

  // (self, dim, ...)
  bool AlongDim(const Node& node) {
    Node on_pair = node;
    on_pair.arguments[1] = SymInt(WrapDim(node.arguments[1], Rank(node, 0)));
    return ReturnSame(std::move(on_pair));
  }

  bool SumOver(const Node& node, const std::vector<SymInt>& dims, bool keep) {
    return ReturnPair(
        node, Emit("aten.sum.dim_IntList", {Use{Pair(node, 0)}, dims, keep, None{}}, PairType(node.outputs[0])));
  }

  bool SumAll(const Node& node) {
    std::vector<SymInt> dims;
    for (int64_t d = 0; d < Rank(node, 0); ++d) dims.push_back(d);
    return dims.empty() ? Same(node) : SumOver(node, dims, false);
  }

  // (self, dims, keepdim, dtype)
  bool SumDims(const Node& node) {
    const auto* dims = std::get_if<std::vector<SymInt>>(&node.arguments[1]);
    if (dims == nullptr || dims->empty()) return false;
    std::vector<SymInt> wrapped;
    for (const SymInt& dim : *dims) wrapped.push_back(WrapDim(dim, Rank(node, 0)));
    return SumOver(node, wrapped, std::get<bool>(node.arguments[2]));
  }

  Graph& graph_;
  Graph::NodeList::iterator at_;
  ComplexMath math_;
  absl::flat_hash_map<ValueId, ValueId> pairs_;  // by complex value
  std::set<std::string> unsupported_;
};

}  // namespace

absl::Status SplitComplex(Graph& graph) { return Splitter(graph).Run(); }

}  // namespace cotan::aot
