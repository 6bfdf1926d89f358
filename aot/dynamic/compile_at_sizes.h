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

// The content of `examples` at other sizes: along each dynamic dimension it is
// cut off, or repeated from the start. Requires what `examples` require.
// `values`: of the symbols. `shapes` may have more arguments.
// Unimplemented: two examples share memory without being the same.
// InvalidArgument: an example that is empty along a dynamic dimension.
absl::StatusOr<std::vector<at::Tensor>> ResizeExamples(const std::vector<at::Tensor>& examples,
                                                       const DynamicShapes& shapes, const DimVector& values);

// Sizes of tensors.
std::vector<DimVector> SizesOf(const std::vector<at::Tensor>& tensors);

// Traces by the names of their methods, which need not be made again.
using TraceCache = std::map<std::string, TracedProgram>;

// What a compilation leaves besides the artifact.
struct TraceLog {
  bool traces_only = false;        // whether nothing is done with the traces: no artifact
  TraceCache* memo = nullptr;      // read and extended, if there is one
  std::vector<Graph> traces = {};  // of the methods, in order
};

// Compiles with fixed sizes; `values` are those of the symbols. Called several
// times; the first artifact's reference runs are kept.
using FixedCompiler = std::function<absl::StatusOr<std::string>(const DimVector& values, bool is_first, TraceLog& log)>;

// Whether the model is traced at the ends of the ranges, too: kTrusted is for one
// that somebody has found to be the same in all of them.
enum class RangeEnds : uint8_t { kTraced, kTrusted };

// The bytes of the artifact for all sizes.
// Errors of `compile`, with the sizes; InvalidArgument: of InferSymbolicSizes(),
// UnifyArtifacts() and ChooseSamplePoints().
absl::StatusOr<std::string> CompileAtSizes(const DynamicShapes& shapes, RangeEnds ends, const FixedCompiler& compile);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_COMPILE_AT_SIZES_H_
