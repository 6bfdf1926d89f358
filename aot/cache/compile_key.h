// SPDX-License-Identifier: Apache-2.0

// Digest of all inputs that determine the bytes of an artifact.
#ifndef COTAN_AOT_CACHE_COMPILE_KEY_H_
#define COTAN_AOT_CACHE_COMPILE_KEY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/capture/traced_program.h"
#include "aot/ir/size_estimate.h"
#include "aot/optimizer/data_parallel.h"
#include "aot/optimizer/optimizer.h"
#include "aot/partitioner/partition.h"
#include "serialization/metadata/wrapper_meta.h"

namespace cotan::aot {

// A traced method, by the name of its trace.
struct KeyedTrace {
  std::string name;
  const TracedProgram* traced = nullptr;
};

// Inputs of the compiler besides the traces.
struct KeyedOptions {
  std::optional<OptimizerConfig> optimizer;
  std::optional<DataParallelOptions> data_parallel = {};
  bool accumulate_gradients = false;
  bool store_references = true;
  bool outline_repeats = false;
  Partitioner partitioner = Partitioner::kMinCut;
  double activation_memory_budget = 1;
  uint64_t seed = 0;
  std::string compiler;  // its CompilerRevision()
  std::string producer;  // Artifact.producer: the versions of Cotan and of LibTorch
  // Sizes that cost models assume for dynamic dimensions.
  std::vector<UsualSize> usual_sizes = {};
  std::string saved_tensor_hooks = {};  // a text that is equal for equal hooks; empty: none
  // Structure of the caller's arguments and results, if any is of a wrapper type.
  std::vector<FlatMeta> input_wrappers = {};
  std::vector<FlatMeta> output_wrappers = {};
};

// Returns the key: 64 hexadecimal digits, equal if graphs, metadata, signatures, states with their
// content, reference runs and options are equal.
std::string CompileKey(absl::Span<const KeyedTrace> traces, const KeyedOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CACHE_COMPILE_KEY_H_
