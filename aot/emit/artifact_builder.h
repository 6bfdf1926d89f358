// Collects what the methods of a model share and writes the artifact. No
// LibTorch.
#ifndef COTAN_AOT_EMIT_ARTIFACT_BUILDER_H_
#define COTAN_AOT_EMIT_ARTIFACT_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/capture/traced_program.h"
#include "aot/ir/graph.h"
#include "serialization/container/container.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// One artifact in the making. Not thread-safe.
class ArtifactBuilder {
 public:
  // The RNG state starts at (seed, 0).
  explicit ArtifactBuilder(uint64_t seed) : seed_(seed) {}

  // Adds the parameters and buffers of a traced program, and of its constants
  // and generator state those that `graph`, made from it, still reads. What
  // has been added before stays.
  void AddTracedStates(const TracedProgram& traced, const Graph& graph);
  // Adds states that the optimizer brought; the same rule.
  void AddStates(absl::Span<const serialization::State> states);
  // Everything added so far; indexes stay valid.
  absl::Span<const serialization::State> states() const { return states_; }

  void AddMethod(serialization::Method method) { *artifact_.add_methods() = std::move(method); }

  // A run of `method` from the initial state, with the generator at (seed, 0).
  // An output may be off by rounding of the largest output.
  void AddReference(absl::string_view method, absl::Span<const TensorData> inputs, absl::Span<const TensorData> outputs,
                    absl::Span<const ExpectedState> states_after);

  // The bytes of the file. `producer` is for people.
  absl::StatusOr<std::string> Build(std::string producer) &&;

 private:
  bool Has(absl::string_view name) const;
  serialization::ReferenceTensor ReferenceOf(const TensorData& tensor, double slack);

  uint64_t seed_;
  serialization::Artifact artifact_;
  std::vector<serialization::State> states_;
  ArtifactWriter writer_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_EMIT_ARTIFACT_BUILDER_H_
