// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "kernels/testing/expr_builder.h"
#include "testing/fuzz/write_ops.h"

namespace cotan::testing {
namespace {

using serialization::ScalarFn;

// The result of an instruction.
struct Node {
  int instruction = 0;
  double bound = 0;
  bool full = true;  // at the level of the domain, not reduced
};

bool IsNumber(DType dtype) { return dtype != DType::kBool; }

class ExprWriter {
 public:
  ExprWriter(MethodWriter& w, const TypedValue& first)
      : w_(w), choices_(w.choices()), domain_(first.sizes), reduced_(ChooseReduced()), b_({}, ReduceDims()) {
    AddInput(first);
    for (size_t i = choices_.Below(3); i > 0; --i) {
      const auto other = w_.Find([this](const TypedValue& value) { return Broadcasts(value.sizes); });
      if (other.has_value()) AddInput(*other);
    }
  }

  void Write() {
    for (size_t i = 1 + choices_.Below(5); i > 0; --i) AddStep();
    for (const SymInt& size : domain_) b_.expr().add_domain_sizes(size.ToString());
    std::vector<Node> stored;
    for (size_t i = 1 + choices_.Below(2); i > 0; --i) {
      const Node node = i == 1 ? nodes_.back() : Any();
      stored.push_back(Bounded(node, kClampedBound * kClampModulus));
    }
    std::vector<TypedValue> results;
    for (const Node& node : stored) {
      b_.Output(node.instruction);
      results.push_back(w_.Result(b_.dtype(node.instruction), SizesOf(node), node.bound));
    }
    w_.Add(b_.Build(), inputs_, results);
  }

 private:
  std::vector<bool> ChooseReduced() {
    std::vector<bool> reduced(domain_.size());
    if (!choices_.OneIn(3)) return reduced;
    for (size_t d = 0; d < reduced.size(); ++d) reduced[d] = choices_.OneIn(2);
    return reduced;
  }

  std::vector<int> ReduceDims() const {
    std::vector<int> dims;
    for (size_t d = 0; d < reduced_.size(); ++d) {
      if (reduced_[d]) dims.push_back(static_cast<int>(d));
    }
    return dims;
  }

  bool Reduces() const { return std::find(reduced_.begin(), reduced_.end(), true) != reduced_.end(); }

  // Returns whether a value of these sizes broadcasts to the domain, and is stretched in all reduced dimensions or in
  // none. Whether the others are at the level of the domain depends on a dynamic dimension: at 1 they are not, and
  // their results have other sizes than at 2.
  bool Broadcasts(const SymSizes& sizes) const {
    if (sizes.size() > domain_.size()) return false;
    const size_t missing = domain_.size() - sizes.size();
    bool stretched = false, whole = false;
    for (size_t d = 0; d < domain_.size(); ++d) {
      const SymInt size = d < missing ? SymInt(1) : sizes[d - missing];
      if (!(size == SymInt(1)) && !(size == domain_[d])) return false;
      whole = whole || (reduced_[d] && size == domain_[d]);
      stretched = stretched || (reduced_[d] && !(size == domain_[d]));
    }
    return !stretched || !whole;
  }

  SymSizes SizesOf(const Node& node) const {
    SymSizes sizes = domain_;
    for (size_t d = 0; d < sizes.size() && !node.full; ++d) {
      if (reduced_[d]) sizes[d] = 1;
    }
    return sizes;
  }

  void AddInput(const TypedValue& value) {
    bool full = !Reduces();
    const size_t missing = domain_.size() - value.sizes.size();
    for (size_t d = 0; d < value.sizes.size(); ++d) {
      full = full || (reduced_[missing + d] && !(value.sizes[d] == SymInt(1)));
    }
    const int instruction = b_.Input(static_cast<int>(inputs_.size()), value.dtype);
    inputs_.push_back(value);
    nodes_.push_back({instruction, value.bound, full});
  }

  const Node& Any() { return nodes_[choices_.Below(nodes_.size())]; }

  // Returns a node as a number of this dtype.
  Node As(const Node& node, DType dtype) {
    if (b_.dtype(node.instruction) == dtype) return node;
    return {b_.Cast(node.instruction, dtype), node.bound, node.full};
  }

  // Returns the remainder of a node if its bound is greater.
  Node Bounded(const Node& node, double bound) {
    if (node.bound <= bound) return node;
    const DType dtype = b_.dtype(node.instruction);
    const int modulus = b_.Constant(dtype, kClampModulus);
    return {b_.Apply(serialization::FN_FMOD, {node.instruction, modulus}), kClampedBound, node.full};
  }

  Node AnyNumber() {
    const Node node = choices_.OneIn(2) ? nodes_.back() : Any();
    return IsNumber(b_.dtype(node.instruction)) ? node : As(node, DType::kFloat32);
  }

  void AddStep() {
    switch (choices_.Below(8)) {
      case 0:
        return AddUnary();
      case 1:
        return AddSelect();
      case 2:
        return AddLeaf();
      case 3:
      case 4:
        return Reduces() ? AddReduction() : AddBinary();
      default:
        return AddBinary();
    }
  }

  void AddUnary() {
    constexpr ScalarFn kFunctions[] = {serialization::FN_NEG, serialization::FN_ABS, serialization::FN_SIGN,
                                       serialization::FN_RELU};
    const Node x = AnyNumber();
    nodes_.push_back(
        {b_.Apply(kFunctions[choices_.Below(std::size(kFunctions))], {x.instruction}), std::max(x.bound, 1.0), x.full});
  }

  void AddBinary() {
    constexpr ScalarFn kFunctions[] = {serialization::FN_ADD, serialization::FN_SUB, serialization::FN_MUL,
                                       serialization::FN_MAXIMUM, serialization::FN_MINIMUM};
    const ScalarFn fn = kFunctions[choices_.Below(std::size(kFunctions))];
    Node x = AnyNumber();
    Node y = As(Any(), b_.dtype(x.instruction));
    const bool multiplies = fn == serialization::FN_MUL;
    if ((multiplies ? x.bound * y.bound : x.bound + y.bound) > kMaxBound) {
      x = Bounded(x, kClampedBound);
      y = Bounded(y, kClampedBound);
    }
    const double bound = multiplies ? x.bound * y.bound : x.bound + y.bound;
    nodes_.push_back({b_.Apply(fn, {x.instruction, y.instruction}), bound, x.full || y.full});
  }

  void AddSelect() {
    constexpr ScalarFn kComparisons[] = {serialization::FN_EQ, serialization::FN_NE, serialization::FN_LT,
                                         serialization::FN_GE};
    const Node x = AnyNumber();
    const Node y = As(Any(), b_.dtype(x.instruction));
    const int condition =
        b_.Apply(kComparisons[choices_.Below(std::size(kComparisons))], {x.instruction, y.instruction});
    if (choices_.OneIn(4)) {
      nodes_.push_back({condition, 1, x.full || y.full});
      return;
    }
    const int chosen = b_.Apply(serialization::FN_SELECT, {condition, x.instruction, y.instruction});
    nodes_.push_back({chosen, std::max(x.bound, y.bound), x.full || y.full});
  }

  // A position, a size, a constant or another dtype.
  void AddLeaf() {
    constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kInt32};
    const DType dtype = kDTypes[choices_.Below(std::size(kDTypes))];
    switch (choices_.Below(4)) {
      case 0:
        if (domain_.empty()) return;
        nodes_.push_back({b_.Iota(dtype, static_cast<int>(choices_.Below(domain_.size()))), kMaxValueElements, true});
        return;
      case 1:
        nodes_.push_back({b_.Cast(b_.Size(DType::kInt64, "s0"), dtype), kMaxSymbol, !Reduces()});
        return;
      case 2:
        nodes_.push_back({b_.Constant(dtype, static_cast<double>(choices_.Below(7)) - 3), 3, !Reduces()});
        return;
      default: {
        const Node node = Any();
        nodes_.push_back(As(node, dtype));
      }
    }
  }

  void AddReduction() {
    constexpr ScalarFn kFunctions[] = {serialization::FN_REDUCE_SUM, serialization::FN_REDUCE_MAX,
                                       serialization::FN_REDUCE_MIN};
    const ScalarFn fn = kFunctions[choices_.Below(std::size(kFunctions))];
    const bool is_sum = fn == serialization::FN_REDUCE_SUM;
    // The largest element of none is infinite.
    if (!is_sum && MaxElements(domain_) == 0) return;
    const Node x = is_sum ? Bounded(AnyNumber(), kClampedBound) : AnyNumber();
    const double bound = is_sum ? x.bound * kMaxValueElements : x.bound;
    nodes_.push_back({b_.Apply(fn, {x.instruction}), bound, false});
  }

  MethodWriter& w_;
  Choices& choices_;
  const SymSizes domain_;
  const std::vector<bool> reduced_;
  ExprBuilder b_;
  std::vector<TypedValue> inputs_;
  std::vector<Node> nodes_;
};

}  // namespace

void WriteExpr(MethodWriter& w) { ExprWriter(w, w.Any()).Write(); }

}  // namespace cotan::testing
