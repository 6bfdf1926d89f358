// Compiling through the cache of artifacts. Private to //aot:compile_impl.
#ifndef COTAN_AOT_CACHED_COMPILE_H_
#define COTAN_AOT_CACHED_COMPILE_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/aotautograd/wrap_method.h"
#include "aot/compile.h"
#include "aot/dynamic/compile_at_sizes.h"
#include "base/layout.h"

namespace cotan::aot {

// One of the ways to compile, with sizes that are fixed.
using CompileFixed = std::function<absl::StatusOr<CompiledModel>(
    const std::vector<at::Tensor>& examples, const CompileOptions& options, const DimVector& values, TraceLog* log)>;

// Traces, and compiles what the cache of the options does not have. Traces alone
// need no cache. CompiledModel::cache() tells what became of it. `wrappers`: of
// the caller's tensors, known whole once the function is traced.
absl::StatusOr<CompiledModel> CompileThroughCache(const CompileFixed& compile, const std::vector<at::Tensor>& examples,
                                                  const CompileOptions& options, const DimVector& values, TraceLog* log,
                                                  const WrapperStructure* wrappers = nullptr);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CACHED_COMPILE_H_
