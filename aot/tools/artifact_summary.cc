// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/artifact_summary.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/sym_int.h"

namespace cotan::aot {
namespace {

// Returns the number of elements; a dynamic size counts as 1.
int64_t ElementsOf(const serialization::TensorType& type) {
  int64_t elements = 1;
  for (const std::string& text : type.sizes()) {
    const absl::StatusOr<SymInt> size = SymInt::Parse(text);
    if (size.ok() && size->is_constant()) elements *= size->constant();
  }
  return elements;
}

int64_t BytesOf(const serialization::TensorType& type) {
  return ElementsOf(type) * static_cast<int64_t>(ByteSize(static_cast<DType>(type.dtype())));
}

// Returns the number of ops of a method or block, given those of the blocks.
int64_t NumOpsWith(const std::vector<int64_t>& of_blocks, const serialization::Method& method) {
  int64_t count = 0;
  for (const serialization::Op& op : method.ops()) count += op.has_call() ? of_blocks[op.call().block()] : 1;
  return count;
}

}  // namespace

int64_t SavedBytes(const serialization::Method& method) {
  int64_t bytes = 0;
  const int first_saved = method.outputs_size() - static_cast<int>(method.num_saved());
  for (int i = std::max(first_saved, 0); i < method.outputs_size(); ++i) {
    bytes += BytesOf(method.values(static_cast<int>(method.outputs(i))).type());
  }
  return bytes;
}

int64_t NumOps(const serialization::Artifact& artifact, const serialization::Method& method) {
  std::vector<int64_t> of_blocks;
  // A block calls only blocks that are listed before it.
  for (const serialization::Method& block : artifact.blocks()) of_blocks.push_back(NumOpsWith(of_blocks, block));
  return NumOpsWith(of_blocks, method);
}

ParameterCount ParametersOf(const serialization::Artifact& artifact) {
  ParameterCount count;
  for (const serialization::State& state : artifact.states()) {
    if (state.role() != serialization::State::PARAMETER) continue;
    const int64_t elements = ElementsOf(state.type());
    count.all += elements;
    if (state.requires_grad()) count.trained += elements;
  }
  return count;
}

}  // namespace cotan::aot
