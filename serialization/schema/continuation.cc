// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/continuation.h"

#include <algorithm>
#include <string>

namespace cotan {

using serialization::Artifact;
using serialization::Method;

std::vector<int> SizingMethodsOf(const Artifact& artifact, const Method& method) {
  std::vector<int> chain;
  const std::string* next = &method.name();
  while (chain.size() < static_cast<size_t>(artifact.methods_size())) {
    const auto before =
        std::find_if(artifact.methods().begin(), artifact.methods().end(), [next](const Method& candidate) {
          return candidate.has_continuation() && candidate.continuation().method() == *next;
        });
    if (before == artifact.methods().end()) break;
    chain.push_back(static_cast<int>(before - artifact.methods().begin()));
    next = &before->name();
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

int NumArguments(const Artifact& artifact, const Method& method) {
  const std::vector<int> chain = SizingMethodsOf(artifact, method);
  return chain.empty() ? method.inputs_size() : artifact.methods(chain.front()).inputs_size();
}

}  // namespace cotan
