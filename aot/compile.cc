// SPDX-License-Identifier: Apache-2.0

#include "aot/compile.h"

#include "aot/model_source.h"
#include "aot/pipeline.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace internal {

absl::StatusOr<CompiledModel> CompileModuleFactory(const ModuleFactory& factory,
                                                   const std::vector<at::Tensor>& examples,
                                                   const CompileOptions& options) {
  return Compile(ModuleSource(factory, examples, options));
}

absl::StatusOr<CompiledModel> CompileTensorFunction(const TensorFunction& function,
                                                    const std::vector<at::Tensor>& examples,
                                                    const CompileOptions& options) {
  return Compile(FunctionSource(function, examples, options));
}

absl::StatusOr<CompiledModel> CompileFlatFunction(const TensorFunction& function,
                                                  const std::vector<at::Tensor>& examples,
                                                  const CompileOptions& options, const WrapperStructure& wrappers) {
  return Compile(FunctionSource(function, examples, options, &wrappers));
}

}  // namespace internal

absl::StatusOr<CompiledModel> CompilePt2(const pt2::Model& model, const std::vector<at::Tensor>& examples,
                                         const CompileOptions& options, const pt2::Model* eval_model) {
  COTAN_ASSIGN_OR_RETURN(const Pt2Source source, Pt2Source::Create(model, eval_model, examples, options));
  return Compile(source);
}

}  // namespace cotan::aot
