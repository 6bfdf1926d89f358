// SPDX-License-Identifier: Apache-2.0

// The stages between the trace of a method and the artifact, in the order of the pipeline.
// Private to //aot:compile_impl.
#ifndef COTAN_AOT_METHOD_STAGES_H_
#define COTAN_AOT_METHOD_STAGES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/aotautograd/wrap_method.h"
#include "aot/blocks/lower_calls.h"
#include "aot/capture/traced_program.h"
#include "aot/compile_options.h"
#include "aot/compiled_model.h"
#include "aot/dump.h"
#include "aot/emit/artifact_builder.h"
#include "aot/ir/graph.h"
#include "aot/partitioner/cut_at_sizes.h"

namespace cotan::aot {

// Names of the methods that are traced. "apply_optimizer" and "backward" are made from the traces
// of kAccumulate and kForward.
inline constexpr absl::string_view kTrainStep = "train_step";
inline constexpr absl::string_view kAccumulate = "accumulate";
inline constexpr absl::string_view kForward = "forward";
inline constexpr absl::string_view kEval = "eval";

// The artifact under construction.
struct Compilation {
  const CompileOptions& options;
  const WrapperStructure* wrappers = nullptr;  // null: no wrapper types
  ArtifactBuilder artifact;
  std::vector<MethodSummary> summaries = {};
  std::vector<StageTime> times = {};
  BlockLowerer* blocks = nullptr;  // of the blocks that the traces call
};

// A method of the artifact before emission.
struct MethodDraft {
  std::string name;
  std::string backward = {};                   // the method that reads its saved values; empty: none
  std::string differentiable_backward = {};    // Method.differentiable_backward
  bool is_backward = false;                    // it is the `backward` of another draft
  bool is_traced = true;                       // false: the graph was built, as that of "apply_optimizer"
  std::string continuation = {};               // of a sizing method: the draft that goes on; empty: none
  std::vector<ContinuedValue> continued = {};  // of a sizing method: the further inputs of that draft
  Graph graph = {};                            // lowered
  GraphDump dump;
};

// A trace and the methods that become of it.
struct TracedMethod {
  TracedProgram traced;
  std::vector<MethodDraft> drafts;  // drafts[0] has the name of the trace
};

// Returns the options of the partitions of joint graphs.
PartitionOptions PartitionOptionsOf(const CompileOptions& options);

// Returns the producer string of an artifact: "cotan 0.2.0, LibTorch 2.15.0".
std::string Producer();

// Returns the ops that cannot be lowered, among those that are left after clean-up.
std::vector<std::string> UnsupportedLiveOps(const Graph& traced);
// Returns the same; nothing if the forward of the joint graph has none of them, so that LowerMethod() can leave the
// backward out.
std::vector<std::string> UnsupportedForwardOps(const Graph& traced);

// Cleans up and lowers a trace. If the backward of kForward cannot be lowered, but the forward can, the method has no
// backward, and traced.backward_refusal has the reason. Errors are those of GuardUndefinedTangents(), CleanUp() and
// LowerToPrims().
absl::StatusOr<TracedMethod> LowerMethod(absl::string_view name, TracedProgram traced, const Compilation& compilation);

// Completes kTrainStep and kAccumulate: packs the values that live from the forward to the backward, if there are
// saved-tensor hooks, sets the tangent of the loss to 1, or to the loss scale,
// and appends the optimizer, or the accumulation and the method "apply_optimizer". Does nothing for
// other methods. Errors are those of Partition(), PackSavedValues(), ScaleLoss(), SeedLoss(), AppendOptimizer(),
// AppendAccumulation() and BuildApplyOptimizer().
absl::Status AddUpdates(TracedMethod& method, Compilation& compilation);

// Splits kForward, or its differentiable backward of any order, into a forward and a backward if it has gradients, and
// packs the saved values. Does nothing for other methods. Errors are those of Partition() and PackSavedValues().
absl::Status PartitionForward(TracedMethod& method, const Compilation& compilation);

// Cuts the methods where their sizes depend on data; the sizing methods become further drafts.
// Unimplemented: sizes of the backward depend on data that the forward does not count.
absl::Status CutMethodAtSizes(TracedMethod& method, const Compilation& compilation);

// Packs the values that a block saves for itself, if there are saved-tensor hooks. Errors are those of
// PackSavedValues().
absl::Status PackBlockValues(const Compilation& compilation, Partitioned& block);

// Runs the passes on lowered graphs. Errors are those of Optimize() and OptimizePair().
absl::Status OptimizeMethod(TracedMethod& method, const LayoutPreferences& layouts);

// Emits the methods and adds them to the artifact. Errors are those of Emit(), WrapForward() and
// GraphDump.
absl::Status EmitMethod(TracedMethod& method, Compilation& compilation);

// Adds the reference runs to the artifact, unless the options have none stored.
void RecordReferences(const TracedMethod& method, Compilation& compilation);

}  // namespace cotan::aot

#endif  // COTAN_AOT_METHOD_STAGES_H_
