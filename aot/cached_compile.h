// SPDX-License-Identifier: Apache-2.0

// Looks artifacts up in the compile cache before compiling. Private to //aot:compile_impl.
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

// A compile function for fixed sizes. `values` are the values of the dynamic dimensions, by symbol;
// empty: none. With log->traces_only it only traces.
using CompileFixed = std::function<absl::StatusOr<CompiledModel>(
    const std::vector<at::Tensor>& examples, const CompileOptions& options, const DimVector& values, TraceLog* log)>;

// Traces by `compile`, and returns the artifact of the cache `options.cache_dir` with the same key;
// on a miss, compiles and adds it. CompiledModel::cache() records the outcome. Without cache_dir,
// or with log->traces_only, it only calls `compile`. `wrappers`, null without wrapper types, is
// part of the key; its outputs are read after the trace.
// Errors: those of `compile` and CompileCache::Open(); DataLoss: a damaged entry. An entry that
// cannot be written is not an error.
absl::StatusOr<CompiledModel> CompileThroughCache(const CompileFixed& compile, const std::vector<at::Tensor>& examples,
                                                  const CompileOptions& options, const DimVector& values, TraceLog* log,
                                                  const WrapperStructure* wrappers = nullptr);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CACHED_COMPILE_H_
