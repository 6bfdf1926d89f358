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

struct CaseOptions {
  bool keep_input_mutations = false;
  Sizes sizes = Sizes::kFixed;
  aot::PartitionOptions partition = {};
  bool store_references = false;
};

absl::StatusOr<std::string> Compile(const ConfCase& c, const CaseOptions& case_options) {
  g_roots.clear();
  const std::vector<at::Tensor> examples = c.inputs();
  aot::CompileOptions options;
  options.tracing.keep_input_mutations = case_options.keep_input_mutations;
  if (case_options.sizes == Sizes::kDynamic) options.dynamic_dims = DynamicDimsOf(examples);
  options.partitioner = case_options.partition.partitioner;
  options.activation_memory_budget = case_options.partition.activation_memory_budget;
  options.debug.store_references = case_options.store_references;
  options.tracing.undefined_outputs_are_none = true;
  at::AutoGradMode mode(c.grad);
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, aot::CompileFunction(c.f, examples, options));
  return model.bytes();
}

absl::StatusOr<std::string> TryCompile(const ConfCase& c, const CaseOptions& options) {
  try {
    return Compile(c, options);
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("the compiler threw: ", e.what()));
  }
}

}  // namespace

absl::StatusOr<std::string> CompileCase(const ConfCase& c, bool keep_input_mutations,
                                        const aot::PartitionOptions& partition) {
  return TryCompile(c, {.keep_input_mutations = keep_input_mutations, .partition = partition});
}

absl::StatusOr<std::string> CompileDynamic(const ConfCase& c) { return TryCompile(c, {.sizes = Sizes::kDynamic}); }

absl::StatusOr<std::string> CompileRecorded(const ConfCase& c) { return TryCompile(c, {.store_references = true}); }

}  // namespace cotan::conformance
