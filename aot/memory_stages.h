// SPDX-License-Identifier: Apache-2.0

// Memory limits and activation budgets of complete artifacts. Private to //aot:compile_impl.
#ifndef COTAN_AOT_MEMORY_STAGES_H_
#define COTAN_AOT_MEMORY_STAGES_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "aot/compile_options.h"
#include "aot/compiled_model.h"

namespace cotan::aot {

// Fits a compiled model into options.max_memory. Errors of FitFileIntoMemory().
absl::StatusOr<CompiledModel> FitModelIntoMemory(const CompiledModel& model, const CompileOptions& options);

// Repeats ops of a complete artifact where that saves much memory of options.memory_target for little time
// (aot::RepeatCheapOps()). The model itself is returned if nothing is repeated, if sizes have no maximum or depend on
// data, and if it has blocks, through which the search does not see. Errors of RepeatCheapOps().
absl::StatusOr<CompiledModel> WithCheapOpsRepeated(CompiledModel model, const CompileOptions& options);

// Returns whether WithCheapOpsRepeated() is a stage of the compilation.
bool RepeatsCheapOps(const CompileOptions& options);

// Stores equal runs of ops of a complete artifact once, if it then still fits into options.max_memory.
absl::StatusOr<CompiledModel> OutlineRepeats(CompiledModel model, const CompileOptions& options);

// Returns the model that `compile` makes with the options. With an activation memory budget below 1 and a
// memory_target, but without max_memory, no method needs more memory there than with the larger ones of the budgets 1,
// 0.75, 0.5 and 0.25: values are computed again several times if need be, and if that does not suffice, the forward
// saves what it saves with the next of these. The memory is that of the largest sizes; if sizes have no maximum or
// depend on data, budgets are not compared. `compile` is called up to five times, and once if nothing is compared.
// Errors of `compile` and of MeasurePeaks().
absl::StatusOr<CompiledModel> CompileWithinBudget(
    const CompileOptions& options, absl::FunctionRef<absl::StatusOr<CompiledModel>(const CompileOptions&)> compile);

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_STAGES_H_
