// SPDX-License-Identifier: Apache-2.0

// Compiles a model with dynamic dimensions by compiling it at several sizes.
#ifndef COTAN_AOT_DYNAMIC_COMPILE_AT_SIZES_H_
#define COTAN_AOT_DYNAMIC_COMPILE_AT_SIZES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/capture/traced_program.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "aot/ir/graph.h"
#include "base/layout.h"

namespace cotan::aot {

// Returns `examples` at the sizes that the symbols have with `values`: along each dynamic dimension
// the content is cut off, or repeated from the start. Keeps requires_grad. `shapes` may have more
// arguments.
// Unimplemented: two different examples share memory.
// InvalidArgument: an example is empty along a dynamic dimension.
absl::StatusOr<std::vector<at::Tensor>> ResizeExamples(const std::vector<at::Tensor>& examples,
                                                       const DynamicShapes& shapes, const DimVector& values);

// Returns the sizes of tensors.
std::vector<DimVector> SizesOf(const std::vector<at::Tensor>& tensors);

// Traces that can be reused, by name of the method.
using TraceCache = std::map<std::string, TracedProgram>;

// Options and results of a compilation besides the artifact.
struct TraceLog {
  bool traces_only = false;        // trace only; the artifact is empty
  TraceCache* memo = nullptr;      // read and extended, if not null
  std::vector<Graph> traces = {};  // of the methods, in order
};

// Compiles with fixed sizes and returns the artifact; `values` are those of the symbols. Called
// several times; the reference runs of the first artifact are kept.
using FixedCompiler = std::function<absl::StatusOr<std::string>(const DimVector& values, bool is_first, TraceLog& log)>;

// Handling of the ends of the ranges: kTraced also traces the model there and checks that it is the
// same program; kTrusted assumes it.
enum class RangeEnds : uint8_t { kTraced, kTrusted };

// Returns the bytes of the artifact for all sizes.
// Errors of `compile`, with the sizes in the message.
// InvalidArgument: from InferSymbolicSizes(), UnifyArtifacts() and ChooseSamplePoints().
absl::StatusOr<std::string> CompileAtSizes(const DynamicShapes& shapes, RangeEnds ends, const FixedCompiler& compile);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_COMPILE_AT_SIZES_H_
