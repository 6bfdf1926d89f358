// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/compiled_case.h"

#include <cstdint>
#include <exception>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "base/status_macros.h"
#include "testing/conformance/harness/resized_case.h"

namespace cotan::conformance {
namespace {

enum class Sizes : uint8_t { kFixed, kDynamic };

absl::StatusOr<std::string> Compile(const ConfCase& c, bool keep_input_mutations, Sizes sizes,
                                    const aot::PartitionOptions& partition) {
  g_roots.clear();
  const std::vector<at::Tensor> examples = c.inputs();
  aot::CompileOptions options;
  options.tracing.keep_input_mutations = keep_input_mutations;
  if (sizes == Sizes::kDynamic) options.dynamic_dims = DynamicDimsOf(examples);
  options.partitioner = partition.partitioner;
  options.activation_memory_budget = partition.activation_memory_budget;
  options.debug.store_references = false;
  options.tracing.undefined_outputs_are_none = true;
  at::AutoGradMode mode(c.grad);
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, aot::CompileFunction(c.f, examples, options));
  return model.bytes();
}

absl::StatusOr<std::string> TryCompile(const ConfCase& c, bool keep_input_mutations, Sizes sizes,
                                       const aot::PartitionOptions& partition = {}) {
  try {
    return Compile(c, keep_input_mutations, sizes, partition);
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("the compiler threw: ", e.what()));
  }
}

}  // namespace

absl::StatusOr<std::string> CompileCase(const ConfCase& c, bool keep_input_mutations,
                                        const aot::PartitionOptions& partition) {
  return TryCompile(c, keep_input_mutations, Sizes::kFixed, partition);
}

absl::StatusOr<std::string> CompileDynamic(const ConfCase& c) {
  return TryCompile(c, /*keep_input_mutations=*/false, Sizes::kDynamic);
}

}  // namespace cotan::conformance
