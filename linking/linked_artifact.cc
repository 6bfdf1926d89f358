// SPDX-License-Identifier: Apache-2.0

#include "linking/linked_artifact.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {

serialization::Artifact LinkedArtifact(absl::Span<const serialization::Method> methods) {
  serialization::Artifact artifact;
  artifact.set_producer("compiled autograd");
  uint32_t num_symbols = 0;
  for (const serialization::Method& method : methods) {
    num_symbols = std::max(num_symbols, method.linked().num_symbols());
    *artifact.add_methods() = method;
  }
  for (uint32_t i = 0; i < num_symbols; ++i) {
    serialization::SymbolProto& symbol = *artifact.add_symbols();
    symbol.set_name(absl::StrCat("size.", i));
    symbol.set_min(1);
    symbol.set_max(kMaxElements);
  }
  return artifact;
}

}  // namespace cotan
