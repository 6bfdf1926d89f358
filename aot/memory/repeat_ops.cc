// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/repeat_ops.h"

#include <utility>

#include "google/protobuf/repeated_ptr_field.h"

namespace cotan::aot {
namespace {

using serialization::Method;
using serialization::Op;

class Rematerializer {
 public:
  Rematerializer(const Rematerialization& repetition, const MethodFacts& facts, Method& method,
                 absl::flat_hash_map<uint32_t, uint32_t>& copies)
      : repetition_(repetition), facts_(facts), method_(method), copies_(copies) {}

  std::vector<RepeatedOp> Run() {
    old_.Swap(method_.mutable_ops());
    for (int i = 0; i < repetition_.before; ++i) method_.add_ops()->Swap(old_.Mutable(i));
    // Ops before `before` are now in `method_`; CopyOp() copies from there.
    for (const auto& [from, to] : repetition_.substitutes) copied_.emplace(from, to);
    for (const int op : repetition_.ops) CopyOp(op);
    // The substitutes apply to the repeated ops only; later readers use the copies of the targets.
    absl::flat_hash_map<uint32_t, uint32_t> targets;
    for (const uint32_t target : repetition_.targets) targets.emplace(target, copied_.at(target));
    copied_ = std::move(targets);
    for (int i = repetition_.before; i < old_.size(); ++i) MapOperands(*old_.Mutable(i));
    for (int i = repetition_.before; i < old_.size(); ++i) method_.add_ops()->Swap(old_.Mutable(i));
    return std::move(added_);
  }

 private:
  uint32_t AddValueLike(uint32_t value) {
    serialization::Value copy = method_.values(static_cast<int>(value));
    *method_.add_values() = std::move(copy);
    return static_cast<uint32_t>(method_.values_size()) - 1;
  }

  void CopyOp(int index) {
    Op op = RepeatedOpOf(repetition_, method_, index);  // before the insertion, so its index is unchanged
    for (uint32_t& input : *op.mutable_inputs()) input = Mapped(input);
    for (uint32_t& output : *op.mutable_outputs()) {
      const uint32_t copy = AddValueLike(output);
      copied_[output] = copy;
      if (!op.has_view()) copies_[output] = copy;
      output = copy;
    }
    added_.push_back({method_.ops_size(), index});
    *method_.add_ops() = std::move(op);
  }

  // Returns the replacement of a value: the value itself, its copy, or for a view of a copied
  // value, a copy of the view.
  uint32_t Mapped(uint32_t value) {
    if (const auto it = copied_.find(value); it != copied_.end()) return it->second;
    const uint32_t root = facts_.RootOf(value);
    if (root == value || !copied_.contains(root)) return value;
    const int view = facts_.producer[value];
    if (view >= repetition_.before) return value;  // the view's operand is mapped instead
    CopyOp(view);
    return copied_.at(value);
  }

  void MapOperands(Op& op) {
    for (uint32_t& input : *op.mutable_inputs()) input = Mapped(input);
  }

  const Rematerialization& repetition_;
  const MethodFacts& facts_;
  Method& method_;
  absl::flat_hash_map<uint32_t, uint32_t>& copies_;
  google::protobuf::RepeatedPtrField<Op> old_;
  absl::flat_hash_map<uint32_t, uint32_t> copied_;  // by value, views too
  std::vector<RepeatedOp> added_;
};

}  // namespace

const Op& RepeatedOpOf(const Rematerialization& repetition, const Method& method, int op) {
  const auto part = repetition.parts.find(op);
  return part == repetition.parts.end() ? method.ops(op) : part->second;
}

bool IsRepeatable(const Op& op) { return !op.has_effect() && !op.has_checked_index() && !op.has_collective(); }

std::vector<RepeatedOp> RematerializeOps(const Rematerialization& repetition, const MethodFacts& facts, Method& method,
                                         absl::flat_hash_map<uint32_t, uint32_t>& copies) {
  return Rematerializer(repetition, facts, method, copies).Run();
}

}  // namespace cotan::aot
