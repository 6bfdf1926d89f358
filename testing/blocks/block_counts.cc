// SPDX-License-Identifier: Apache-2.0

#include "testing/blocks/block_counts.h"

#include <algorithm>

#include "serialization/calls/shared_types.h"
#include "serialization/container/container.h"

namespace cotan::testing {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;

Artifact StoredArtifact(const aot::CompiledModel& model) {
  return ArtifactFile::Parse(model.bytes(), "model", Calls::kKeep)->artifact();
}

int CountOps(const Method& method, Op::KindCase kind) {
  return static_cast<int>(
      std::count_if(method.ops().begin(), method.ops().end(), [kind](const Op& op) { return op.kind_case() == kind; }));
}

BlockCounts CountBlocks(const aot::CompiledModel& model) {
  Artifact artifact = StoredArtifact(model);
  OmitSharedTypes(artifact);  // as in the file
  BlockCounts counts;
  counts.blocks = artifact.blocks_size();
  const auto add_bytes = [&counts](const Method& method) {
    for (const serialization::Value& value : method.values()) counts.program_bytes += value.ByteSizeLong();
    for (const Op& op : method.ops()) counts.program_bytes += op.ByteSizeLong();
  };
  for (const Method& block : artifact.blocks()) add_bytes(block);
  for (const Method& method : artifact.methods()) {
    add_bytes(method);
    if (const int calls = CountOps(method, Op::kCall); calls > 0) counts.calls[method.name()] = calls;
  }
  return counts;
}

}  // namespace cotan::testing
