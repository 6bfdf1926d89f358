// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/artifact_summary.h"

#include <algorithm>
#include <string>

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

}  // namespace

int64_t SavedBytes(const serialization::Method& method) {
  int64_t bytes = 0;
  const int first_saved = method.outputs_size() - static_cast<int>(method.num_saved());
  for (int i = std::max(first_saved, 0); i < method.outputs_size(); ++i) {
    bytes += BytesOf(method.values(static_cast<int>(method.outputs(i))).type());
  }
  return bytes;
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
