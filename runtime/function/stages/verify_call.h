// SPDX-License-Identifier: Apache-2.0

// VerifyEntryStage, VerifyExitStage: the expensive checks of a call (DebugAssertWrapper in AOTAutograd, which checks
// requires_grad only).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_VERIFY_CALL_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_VERIFY_CALL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/layout.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// The inputs of a call, by input, before the program runs.
struct InputsAtEntry {
  struct Input {
    Tensor content;  // a dense copy on the host
    std::shared_ptr<Storage> storage;
    StridedLayout layout;
    uint32_t version = 0;
  };
  std::vector<Input> inputs;
};

// Copies the inputs.
class VerifyEntryStage final : public CallStage {
 public:
  explicit VerifyEntryStage(std::shared_ptr<InputsAtEntry> entry) : entry_(std::move(entry)) {}

  absl::string_view name() const override { return "verify in"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override { return "copies of all arguments"; }

 private:
  const std::shared_ptr<InputsAtEntry> entry_;
};

// Compares inputs and outputs after the call with the metadata:
//   - an input that is not mutated, and shares no storage with one that is, has its elements, geometry, storage and
//     version; a tracked mutation of data increases the version;
//   - an output has the sizes and strides of the trace, and requires grad as there if the grad mode is that of tracing;
//   - outputs share storages with inputs and with each other exactly as when traced.
// Internal: a difference; the message names the input or output. It means that a kernel or the planner is wrong, or
// that the artifact was not made by the compiler.
class VerifyExitStage final : public CallStage {
 public:
  VerifyExitStage(const FunctionMetadata& function, std::shared_ptr<const InputsAtEntry> entry);

  absl::string_view name() const override { return "verify out"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override { return "arguments and outputs are as the metadata says"; }

 private:
  absl::Status CheckInput(const CallContext& call, int input) const;
  absl::Status CheckOutput(const CallContext& call, int output) const;
  absl::Status CheckStorages(const CallContext& call, int output) const;
  // Returns whether the storage of `input` is that of an input which is mutated.
  bool IsInMutatedStorage(int input) const;

  const FunctionMetadata& function_;
  const std::shared_ptr<const InputsAtEntry> entry_;
  bool sets_storage_ = false;          // set_() gives an input another storage
  std::vector<int> owners_;            // by output: the input in whose storage it is; -1: none
  std::vector<int> memory_of_output_;  // by output: outputs with equal numbers are in one storage
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_VERIFY_CALL_H_
