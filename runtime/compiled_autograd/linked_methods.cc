// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/linked_methods.h"

#include <utility>

namespace cotan {

absl::StatusOr<std::shared_ptr<const LinkedMethods>> LinkedMethods::Load(std::shared_ptr<const Program> program) {
  auto linked = std::shared_ptr<LinkedMethods>(new LinkedMethods(std::move(program)));
  const serialization::Artifact& artifact = linked->program_->artifact();
  for (int i = 0; i < artifact.methods_size(); ++i) {
    const serialization::Method& method = artifact.methods(i);
    if (!method.has_linked()) continue;
    linked->methods_[{method.linked().key().begin(), method.linked().key().end()}].push_back(i);
  }
  if (linked->methods_.empty()) {
    return absl::InvalidArgumentError(
        "the artifact has no linked method: write it by CompiledAutograd::SaveCaptures() or //aot:link");
  }
  return linked;
}

absl::Span<const int> LinkedMethods::Find(absl::Span<const uint64_t> key) const {
  const auto found = methods_.find(std::vector<uint64_t>(key.begin(), key.end()));
  if (found == methods_.end()) return {};
  return found->second;
}

}  // namespace cotan
