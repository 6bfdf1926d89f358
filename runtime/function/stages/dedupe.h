// SPDX-License-Identifier: Apache-2.0

// DedupeStage: duplicate inputs (AOTDedupeWrapper).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_DEDUPE_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_DEDUPE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Checks that duplicate inputs are one tensor, and that an input whose metadata or storage is mutated is not the same
// tensor as another input.
class DedupeStage final : public CallStage {
 public:
  struct Pair {
    int input = 0;
    int other = 0;
  };

  static std::unique_ptr<DedupeStage> Create(const FunctionMetadata& function);
  // `duplicates`: `other` is the first input that is the same tensor as `input`. `must_not_alias`: the metadata or
  // storage of `input` is mutated.
  DedupeStage(const FunctionMetadata& function, std::vector<Pair> duplicates, std::vector<Pair> must_not_alias)
      : function_(function), duplicates_(std::move(duplicates)), must_not_alias_(std::move(must_not_alias)) {}

  absl::string_view name() const override { return "dedupe"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  const FunctionMetadata& function_;
  const std::vector<Pair> duplicates_;
  const std::vector<Pair> must_not_alias_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_DEDUPE_H_
