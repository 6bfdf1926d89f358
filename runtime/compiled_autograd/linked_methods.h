// SPDX-License-Identifier: Apache-2.0

// LinkedMethods: backwards that were linked before they run.
#ifndef COTAN_RUNTIME_COMPILED_AUTOGRAD_LINKED_METHODS_H_
#define COTAN_RUNTIME_COMPILED_AUTOGRAD_LINKED_METHODS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/execution/program.h"

namespace cotan {

// The linked methods of an artifact that CompiledAutograd::SaveCaptures() or //aot:link wrote. Immutable; thread-safe.
// Keeps the program alive.
class LinkedMethods {
 public:
  // InvalidArgument: the program has no linked method.
  static absl::StatusOr<std::shared_ptr<const LinkedMethods>> Load(std::shared_ptr<const Program> program);

  const std::shared_ptr<const Program>& program() const { return program_; }
  // Returns the methods with this key (LinkedBackward.key), in the order of the artifact.
  absl::Span<const int> Find(absl::Span<const uint64_t> key) const;

 private:
  explicit LinkedMethods(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  const std::shared_ptr<const Program> program_;
  absl::flat_hash_map<std::vector<uint64_t>, std::vector<int>> methods_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_COMPILED_AUTOGRAD_LINKED_METHODS_H_
