// SPDX-License-Identifier: Apache-2.0

#include "serialization/calls/shared_types.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/calls/inline_calls.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using serialization::State;
using serialization::StateRead;
using serialization::TensorType;
using serialization::Value;

// Where else a file has what a value has. Null: nowhere.
struct Source {
  const TensorType* type = nullptr;
  const std::string* name = nullptr;
};

bool Equal(const TensorType& a, const TensorType& b) {
  return a.dtype() == b.dtype() && std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin(), b.sizes().end()) &&
         std::equal(a.dim_order().begin(), a.dim_order().end(), b.dim_order().begin(), b.dim_order().end());
}

template <typename Indexes>
void AddOperands(const Indexes& operands, const Method& block, const Indexes& block_operands,
                 std::vector<Source>& sources) {
  for (int i = 0; i < std::min(operands.size(), block_operands.size()); ++i) {
    const uint32_t value = operands.Get(i), of_block = block_operands.Get(i);
    if (value >= sources.size() || sources[value].type != nullptr) continue;
    if (of_block >= static_cast<uint32_t>(block.values_size())) continue;
    const Value& operand = block.values(static_cast<int>(of_block));
    if (operand.has_type()) sources[value].type = &operand.type();
  }
}

// Returns the sources of the values of `method`, which may call the first `num_blocks` blocks.
std::vector<Source> SourcesOf(const Artifact& artifact, int num_blocks, const Method& method) {
  std::vector<Source> sources(static_cast<size_t>(method.values_size()));
  for (const StateRead& read : method.state_reads()) {
    if (read.value() >= sources.size() || read.state() >= static_cast<uint32_t>(artifact.states_size())) continue;
    const State& state = artifact.states(static_cast<int>(read.state()));
    sources[read.value()] = {state.has_type() ? &state.type() : nullptr, &state.name()};
  }
  for (const Op& op : method.ops()) {
    if (!op.has_call() || op.call().block() >= static_cast<uint32_t>(num_blocks)) continue;
    const Method& block = artifact.blocks(static_cast<int>(op.call().block()));
    AddOperands(op.inputs(), block, block.inputs(), sources);
    AddOperands(op.outputs(), block, block.outputs(), sources);
  }
  return sources;
}

void Omit(const Artifact& artifact, int num_blocks, Method& method) {
  const std::vector<Source> sources = SourcesOf(artifact, num_blocks, method);
  for (size_t i = 0; i < sources.size(); ++i) {
    Value& value = *method.mutable_values(static_cast<int>(i));
    if (sources[i].type != nullptr && value.has_type() && Equal(value.type(), *sources[i].type)) value.clear_type();
    if (sources[i].name != nullptr && value.name() == *sources[i].name) value.clear_name();
  }
}

absl::Status Restore(const Artifact& artifact, int num_blocks, Method& method, uint64_t& bytes) {
  const std::vector<Source> sources = SourcesOf(artifact, num_blocks, method);
  for (size_t i = 0; i < sources.size(); ++i) {
    Value& value = *method.mutable_values(static_cast<int>(i));
    if (sources[i].type != nullptr && !value.has_type()) {
      bytes += sources[i].type->ByteSizeLong();
      *value.mutable_type() = *sources[i].type;
    }
    if (sources[i].name != nullptr && value.name().empty()) {
      bytes += sources[i].name->size();
      value.set_name(*sources[i].name);
    }
    if (bytes > kMaxInlinedBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "method '", method.name(), "': the types of operands of calls take more than ", kMaxInlinedBytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

// Each method is handled while the blocks that it calls, which are before it, still have their types.
void OmitSharedTypes(Artifact& artifact) {
  if (artifact.blocks_size() == 0) return;
  for (Method& method : *artifact.mutable_methods()) Omit(artifact, artifact.blocks_size(), method);
  for (int i = artifact.blocks_size() - 1; i >= 0; --i) Omit(artifact, i, *artifact.mutable_blocks(i));
}

absl::Status RestoreSharedTypes(Artifact& artifact) {
  if (artifact.blocks_size() == 0) return absl::OkStatus();
  uint64_t bytes = 0;
  for (int i = 0; i < artifact.blocks_size(); ++i) {
    COTAN_RETURN_IF_ERROR(Restore(artifact, i, *artifact.mutable_blocks(i), bytes));
  }
  for (Method& method : *artifact.mutable_methods()) {
    COTAN_RETURN_IF_ERROR(Restore(artifact, artifact.blocks_size(), method, bytes));
  }
  return absl::OkStatus();
}

}  // namespace cotan
