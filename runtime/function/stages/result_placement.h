// SPDX-License-Identifier: Apache-2.0

// ResultPlacement: the memory of the results of a forward.
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_RESULT_PLACEMENT_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_RESULT_PLACEMENT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/layout.h"
#include "runtime/execution/plan.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/tensor/tensor.h"
#include "serialization/metadata/tensor_geometry.h"

namespace cotan {

// Gives each result of the program its memory: dense, with the strides of eager mode, in the storage of another result,
// or in a recycled buffer of a saved value. Not thread-safe.
class ResultPlacement {
 public:
  explicit ResultPlacement(const FunctionMetadata& function);

  // Allocates call.results and binds them to call.executable. InvalidArgument: the recorded sizes contradict the
  // plan's. ResourceExhausted: memory cannot be allocated.
  absl::Status Place(CallContext& call);
  // Fills what the program does not write itself, after it has run: results that share the memory of an input or of
  // another result, and results whose elements overlap.
  absl::Status Finish(CallContext& call);
  // Drops all references to tensors, after an error.
  void Clear() { overlapping_.clear(); }

 private:
  // The layout of a result that is not dense, or that is in the storage of another result.
  struct StridedResult {
    int result = 0;
    int owner = 0;  // the result that owns the storage; may be `result` itself
    TensorGeometry geometry;
  };

  // Evaluates the layouts for plan.symbols, if they differ from those of the last call.
  absl::Status EvaluateLayouts(const Plan& plan);
  absl::Status AddLayout(const Plan& plan, size_t index);
  absl::Status PlaceStrided(CallContext& call, int result);
  absl::Status PlaceSaved(CallContext& call, int result) const;
  bool IsOwner(int result) const;
  const std::shared_ptr<Storage>& StorageOf(CallContext& call, int result) const;

  const FunctionMetadata& function_;
  std::vector<StridedResult> strided_;

  // The layouts of strided_ for the values `symbols_` of the dynamic dimensions.
  bool is_valid_ = false;
  DimVector symbols_;
  std::vector<StridedLayout> layouts_;  // by strided_
  std::vector<int> strided_of_;         // by result; -1: none
  std::vector<bool> is_placed_;         // by result; false: a dense tensor as planned
  std::vector<bool> is_overlapping_;    // by result: elements overlap (an expanded output)
  std::vector<size_t> storage_bytes_;   // by result: size of its storage, if it owns one

  // Results whose elements overlap: the result and the tensor that its dense value is copied to. Empty between calls.
  std::vector<std::pair<int, Tensor>> overlapping_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_RESULT_PLACEMENT_H_
