// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/joint_facts.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/size_estimate.h"

namespace cotan::aot {
namespace {

// Sets is_input, is_state and, for tangents, dependent. Returns whether there are tangents.
bool ClassifyInputs(JointFacts& facts) {
  const Graph& joint = *facts.joint;
  absl::flat_hash_set<int> mutated;
  for (const GraphOutput& output : joint.outputs()) {
    if (IsOfInput(output.kind) && output.kind != OutputKind::kBackwardUpdate) mutated.insert(output.index);
  }
  bool has_tangents = false;
  for (size_t i = 0; i < joint.inputs().size(); ++i) {
    const GraphInput& input = joint.inputs()[i];
    const size_t value = JointFacts::At(input.value);
    if (input.kind == InputKind::kTangent || IsBackwardToken(input)) {
      facts.dependent[value] = true;
      has_tangents = has_tangents || input.kind == InputKind::kTangent;
      continue;
    }
    const bool is_kept =
        input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer || input.kind == InputKind::kConstant;
    facts.is_input[value] = true;
    facts.is_state[value] = is_kept && !mutated.contains(static_cast<int>(i));
  }
  return has_tangents;
}

void ClassifyNodes(JointFacts& facts) {
  for (const Node& node : facts.joint->nodes()) {
    facts.nodes.push_back(&node);
    bool depends = false;
    for (const ValueId id : TensorOperands(node))
      depends = depends || (id != kNoValue && facts.dependent[JointFacts::At(id)]);
    for (const ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      facts.dependent[JointFacts::At(id)] = depends;
      facts.producer[JointFacts::At(id)] = &node;
    }
  }
}

// Sets in_forward and is_output.
void MarkForward(JointFacts& facts) {
  for (const GraphOutput& output : facts.joint->outputs()) {
    if (!IsOfForward(output) || output.value == kNoValue) continue;
    facts.is_output[JointFacts::At(output.value)] = true;
    facts.in_forward[JointFacts::At(output.value)] = true;
  }
  for (size_t i = facts.nodes.size(); i-- > 0;) {
    const Node& node = *facts.nodes[i];
    if (!facts.RunsForward(node)) continue;
    for (const ValueId id : TensorOperands(node)) {
      if (id != kNoValue) facts.in_forward[JointFacts::At(id)] = true;
    }
  }
}

// Sets is_read, must_save and without_version_check.
void MarkRead(JointFacts& facts) {
  const auto read = [&](ValueId id) {
    if (id != kNoValue && !facts.dependent[JointFacts::At(id)]) facts.is_read[JointFacts::At(id)] = true;
  };
  for (const Node* node : facts.nodes) {
    if (!facts.RunsBackward(*node)) continue;
    for (const ValueId id : TensorOperands(*node)) read(id);
  }
  for (const GraphOutput& output : facts.joint->outputs()) {
    if (output.kind == OutputKind::kGradient) read(output.value);
    if (output.kind != OutputKind::kBackwardUpdate) continue;
    read(output.value);
    const ValueId written = facts.joint->inputs()[static_cast<size_t>(output.index)].value;
    if (!facts.is_state[JointFacts::At(written)]) facts.must_save[JointFacts::At(written)] = true;
  }
  const auto mark = [&](ValueId id) {
    if (id == kNoValue || !facts.is_read[JointFacts::At(id)] || facts.is_state[JointFacts::At(id)]) return;
    facts.must_save[JointFacts::At(id)] = facts.without_version_check[JointFacts::At(id)] = true;
  };
  for (const GraphInput& input : facts.joint->inputs()) {
    if (input.without_version_check) mark(input.value);
  }
  for (const GraphOutput& output : facts.joint->outputs()) {
    if (output.without_version_check) mark(output.value);
  }
}

}  // namespace

bool IsOfInput(OutputKind kind) {
  return kind == OutputKind::kMutatedInput || kind == OutputKind::kBackwardUpdate || UpdatesInput(kind);
}

bool IsOfForward(const GraphOutput& output) {
  return output.kind != OutputKind::kGradient && output.kind != OutputKind::kBackwardUpdate && !IsBackwardToken(output);
}

int64_t EstimatedBytes(const TensorType& type) {
  int64_t bytes = static_cast<int64_t>(ByteSize(type.dtype));
  for (const SymInt& size : type.sizes) {
    bytes *= size == SymInt(0) ? 0 : std::max<int64_t>(EstimatedSize(size), 1);
  }
  return bytes;
}

bool JointFacts::RunsBackward(const Node& node) const {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId id) { return id != kNoValue && dependent[At(id)]; });
}

bool JointFacts::RunsForward(const Node& node) const {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId id) { return id != kNoValue && in_forward[At(id)]; });
}

absl::StatusOr<JointFacts> JointFactsOf(const Graph& joint) {
  JointFacts facts;
  facts.joint = &joint;
  const auto size = static_cast<size_t>(joint.num_values());
  facts.producer.assign(size, nullptr);
  for (std::vector<bool>* flags : {&facts.dependent, &facts.is_state, &facts.is_input, &facts.in_forward,
                                   &facts.is_output, &facts.is_read, &facts.must_save, &facts.without_version_check}) {
    flags->assign(size, false);
  }
  if (!ClassifyInputs(facts)) {
    return absl::InvalidArgumentError(absl::StrCat("@", joint.name, " has no tangents to cut at"));
  }
  ClassifyNodes(facts);
  MarkForward(facts);
  MarkRead(facts);
  return facts;
}

}  // namespace cotan::aot
