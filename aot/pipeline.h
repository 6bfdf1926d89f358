// SPDX-License-Identifier: Apache-2.0

// The sequence of a compilation. Private to //aot:compile_impl.
#ifndef COTAN_AOT_PIPELINE_H_
#define COTAN_AOT_PIPELINE_H_

#include "absl/status/statusor.h"
#include "aot/compiled_model.h"
#include "aot/model_source.h"

namespace cotan::aot {

// Compiles a model: at its examples' sizes, or, with dynamic dimensions, at several sizes whose
// artifacts are unified. Then fits the artifact into max_memory, or into the memory of larger budgets, or repeats cheap
// ops (memory_stages.h). Each compilation at fixed sizes traces the methods, looks the artifact up in the cache, and on
// a miss lowers, partitions, optimizes and emits each method. Errors are those of CompileModule(), with the sizes if
// they are not the examples'.
absl::StatusOr<CompiledModel> Compile(const ModelSource& source);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PIPELINE_H_
