#include "aot/lower/complex.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace cotan::aot {
namespace {

DType PartOf(DType complex) { return complex == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64; }

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph) {}

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
      source_ = node.source;
      const auto found = Rules().find(node.op);
      if (HasPairs(node) && (found == Rules().end() || !(this->*found->second)(node))) unsupported_.insert(node.op);
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

  static const absl::flat_hash_map<absl::string_view, Rule>& Rules() {
    static const auto* const kRules = new absl::flat_hash_map<absl::string_view, Rule>({
        {"aten._conj.default", &Splitter::Conjugate},
        {"aten._conj_copy.default", &Splitter::Conjugate},
        {"aten._conj_physical.default", &Splitter::Conjugate},
        {"aten._to_copy.default", &Splitter::Convert},
        {"aten._unsafe_view.default", &Splitter::Resize},
        {"aten.abs.default", &Splitter::Abs},
        {"aten.add.Scalar", &Splitter::Sum},
        {"aten.add.Tensor", &Splitter::Sum},
        {"aten.alias.default", &Splitter::Same},
        {"aten.clone.default", &Splitter::Same},
        {"aten.complex.default", &Splitter::Join},
        {"aten.conj_physical.default", &Splitter::Conjugate},
        {"aten.copy.default", &Splitter::CopySource},
        {"aten.detach.default", &Splitter::Same},
        {"aten.div.Scalar", &Splitter::Quotient},
        {"aten.div.Tensor", &Splitter::Quotient},
        {"aten.expand.default", &Splitter::Resize},
        {"aten.mul.Scalar", &Splitter::Product},
        {"aten.mul.Tensor", &Splitter::Product},
        {"aten.neg.default", &Splitter::Negate},
        {"aten.permute.default", &Splitter::Permute},
        {"aten.reshape.default", &Splitter::Resize},
        {"aten.select.int", &Splitter::AlongDim},
        {"aten.sgn.default", &Splitter::Sgn},
        {"aten.slice.Tensor", &Splitter::AlongDim},
        {"aten.squeeze.dim", &Splitter::AsSized},
        {"aten.sub.Scalar", &Splitter::Sum},
        {"aten.sub.Tensor", &Splitter::Sum},
        {"aten.sum.default", &Splitter::SumAll},
        {"aten.sum.dim_IntList", &Splitter::SumDims},
        {"aten.t.default", &Splitter::Turn},
        {"aten.transpose.int", &Splitter::Turn},
        {"aten.unsqueeze.default", &Splitter::AsSized},
        {"aten.view.default", &Splitter::Resize},
        {"aten.view_as_complex.default", &Splitter::FromReal},
        {"aten.view_as_complex_copy.default", &Splitter::FromReal},
        {"aten.view_as_real.default", &Splitter::ToReal},
        {"aten.view_as_real_copy.default", &Splitter::ToReal},
        {"aten.empty_like.default", &Splitter::Zeros},
        {"aten.new_empty_strided.default", &Splitter::Zeros},
        {"aten.new_zeros.default", &Splitter::Zeros},
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
    return graph_.InsertNode(at_, std::move(op), std::move(arguments), {{std::move(type)}}, source_).outputs[0];
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
    const std::vector<Use> parts = {Use{real}, Use{imaginary}};
    return ReturnPair(node, Emit("aten.stack.default", {parts, SymInt(-1)}, PairType(node.outputs[0])));
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

  ValueId Binary(absl::string_view op, ValueId a, ValueId b, const TensorType& type) {
    std::vector<Argument> arguments = {Use{a}, Use{b}};
    if (op == "add" || op == "sub") arguments.push_back(SymInt(1));
    return Emit(absl::StrCat("aten.", op, ".Tensor"), std::move(arguments), type);
  }

  ValueId Full(double value, TensorType type) {
    const std::vector<SymInt> sizes(type.sizes.begin(), type.sizes.end());
    const DType dtype = type.dtype;
    return Emit("aten.full.default", {sizes, value, dtype, None{}, None{}, None{}}, std::move(type));
  }

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
  bool CopySource(const Node& node) {
    if (!IsComplexOperand(node, 1) || graph_.value(Operand(node, 1)).type != graph_.value(node.outputs[0]).type) {
      return false;
    }
    return ReturnPair(node, Pair(node, 1));
  }

  bool Convert(const Node& node) {
    const TensorType& result = graph_.value(node.outputs[0]).type;
    if (IsComplexOperand(node, 0)) {
      return cotan::IsComplex(result.dtype) && result.dtype == graph_.value(Operand(node, 0)).type.dtype && Same(node);
    }
    std::vector<Argument> arguments = node.arguments;
    for (Argument& argument : arguments) {
      if (std::holds_alternative<DType>(argument)) argument = PartOf(result.dtype);
    }
    const ValueId real = Emit(node.op, std::move(arguments), PartType(node.outputs[0]));
    return Return(node, real, Full(0, PartType(node.outputs[0])));
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
    if (Operand(node, 0) == kNoValue) return false;
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
    if (!IsComplexOperand(node, 1)) return Scale(node, 0, 1);
    if (!IsComplexOperand(node, 0)) return Scale(node, 1, 0);
    const ValueId a = Part(node, 0, 0), b = Part(node, 0, 1), c = Part(node, 1, 0), d = Part(node, 1, 1);
    const TensorType type = PartType(node.outputs[0]);
    const ValueId ac = Binary("mul", a, c, type), bd = Binary("mul", b, d, type);
    const ValueId ad = Binary("mul", a, d, type), bc = Binary("mul", b, c, type);
    const ValueId real = Binary("sub", ac, bd, type);
    return Return(node, real, Binary("add", ad, bc, type));
  }

  bool Quotient(const Node& node) {
    if (!IsComplexOperand(node, 1)) return IsComplexOperand(node, 0) && Scale(node, 0, 1);
    if (!IsComplexOperand(node, 0)) return false;
    const ValueId a = Part(node, 0, 0), b = Part(node, 0, 1), c = Part(node, 1, 0), d = Part(node, 1, 1);
    const TensorType type = PartType(node.outputs[0]);
    const TensorType divisor = PartType(Operand(node, 1));
    const ValueId cc = Binary("mul", c, c, divisor), dd = Binary("mul", d, d, divisor);
    const ValueId norm = Binary("add", cc, dd, divisor);
    const ValueId ac = Binary("mul", a, c, type), bd = Binary("mul", b, d, type);
    const ValueId ad = Binary("mul", a, d, type), bc = Binary("mul", b, c, type);
    const ValueId real = Binary("div", Binary("add", ac, bd, type), norm, type);
    return Return(node, real, Binary("div", Binary("sub", bc, ad, type), norm, type));
  }

  ValueId Magnitude(const Node& node) {
    const ValueId a = Part(node, 0, 0), b = Part(node, 0, 1);
    const TensorType type = PartType(Operand(node, 0));
    const ValueId aa = Binary("mul", a, a, type), bb = Binary("mul", b, b, type);
    return Emit("aten.sqrt.default", {Use{Binary("add", aa, bb, type)}}, type);
  }

  bool Abs(const Node& node) { return ReturnReal(node, Magnitude(node)); }

  // x / |x|, and 0 for 0.
  bool Sgn(const Node& node) {
    const TensorType type = PartType(Operand(node, 0));
    const ValueId magnitude = Magnitude(node);
    TensorType mask = type;
    mask.dtype = DType::kBool;
    const ValueId is_zero = Emit("aten.eq.Scalar", {Use{magnitude}, 0.0}, mask);
    const ValueId divisor = Emit("aten.where.self", {Use{is_zero}, Use{Full(1, type)}, Use{magnitude}}, type);
    const ValueId real = Binary("div", Part(node, 0, 0), divisor, type);
    return Return(node, real, Binary("div", Part(node, 0, 1), divisor, type));
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
  std::string source_;
  absl::flat_hash_map<ValueId, ValueId> pairs_;  // by complex value
  std::set<std::string> unsupported_;
};

}  // namespace

absl::Status SplitComplex(Graph& graph) { return Splitter(graph).Run(); }

}  // namespace cotan::aot
