// SPDX-License-Identifier: Apache-2.0

// Exports low-rank adapters (aot/frontend/lora.h) as files of the PEFT library.
#ifndef COTAN_RUNTIME_TOOLS_ADAPTERS_H_
#define COTAN_RUNTIME_TOOLS_ADAPTERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/session/session.h"

namespace cotan::tools {

// The states of the adapter of one linear layer.
struct AdapterStates {
  std::string layer;    // "blocks.0.q_proj"
  std::string weight;   // state [out, in]
  std::string down;     // state [rank, in]
  std::string up;       // state [out, rank]
  std::string scaling;  // state []
};

// Returns the adapters of a program, in the order of its states. Empty if it has none.
// InvalidArgument: states of an adapter are missing.
absl::StatusOr<std::vector<AdapterStates>> FindAdapters(const Program& program);

// Writes "adapter_model.safetensors" and "adapter_config.json" to an existing folder, with the names that
// PeftModel.from_pretrained() reads: "base_model.model.LAYER.lora_A.weight". Other trained parameters are
// "base_model.model.NAME" in modules_to_save.
// NotFound: the program has no adapters. Other errors: see FindAdapters() and WriteFileAtomically().
absl::Status SaveAdapters(const Session& session, const std::string& folder);

// Writes "model.safetensors" to an existing folder: all parameters and persistent buffers of the model, under its own
// names, with weight + scaling * up * down in place of each adapted weight.
// FailedPrecondition: an adapted weight is quantized. Other errors: see SaveAdapters().
absl::Status SaveMerged(const Session& session, const std::string& folder);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_ADAPTERS_H_
