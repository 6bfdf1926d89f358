// SPDX-License-Identifier: Apache-2.0

// Collects the methods, states and reference runs of a model and writes the artifact. No LibTorch.
#ifndef COTAN_AOT_EMIT_ARTIFACT_BUILDER_H_
#define COTAN_AOT_EMIT_ARTIFACT_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/capture/traced_program.h"
#include "aot/ir/graph.h"
#include "serialization/calls/outline_calls.h"
#include "serialization/container/container.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Builder of one artifact. Not thread-safe.
class ArtifactBuilder {
 public:
  // The RNG state starts at (seed, 0).
  explicit ArtifactBuilder(uint64_t seed) : seed_(seed) {}

  // Adds the parameters and buffers of a traced program, and those of its constants and generator
  // state that `graph`, lowered from it, reads. States that were added before are kept.
  void AddTracedStates(const TracedProgram& traced, const Graph& graph);
  // Adds the states of the optimizer. States that were added before are kept.
  void AddStates(absl::Span<const serialization::State> states);
  // Returns all states added so far; their indexes do not change.
  absl::Span<const serialization::State> states() const { return states_; }

  // Adds a block and returns its index.
  uint32_t AddBlock(serialization::Method block);
  void AddMethod(serialization::Method method) { *artifact_.add_methods() = std::move(method); }

  // Stores equal runs of ops of the methods once (serialization/calls/outline_calls.h).
  void OutlineRepeats() { OutlineCalls(artifact_); }

  // Adds a reference run of `method` from the initial states, with the generator at (seed, 0). The
  // recorded tolerance of each output scales with the largest output. `half` is HalfDType() of the traced graph
  // (aot/references/tolerance.h).
  void AddReference(absl::string_view method, absl::Span<const TensorData> inputs, absl::Span<const TensorData> outputs,
                    absl::Span<const ExpectedState> states_after, DType half);

  // Returns the bytes of the file. `producer` is informative only. Errors of
  // ArtifactWriter::Serialize().
  absl::StatusOr<std::string> Build(std::string producer) &&;

 private:
  // Returns the state of this name, which it adds; null if there is one.
  serialization::State* AddState(const std::string& name);
  serialization::ReferenceTensor ReferenceOf(const TensorData& tensor, DType half, double slack);

  uint64_t seed_;
  serialization::Artifact artifact_;
  std::vector<serialization::State> states_;
  absl::flat_hash_set<std::string> names_;  // of the states
  ArtifactWriter writer_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_EMIT_ARTIFACT_BUILDER_H_
