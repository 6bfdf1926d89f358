#include "testing/conformance/compiled_case.h"

#include <exception>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "base/status_macros.h"

namespace cotan::conformance {
namespace {

absl::StatusOr<std::string> Compile(const ConfCase& c, bool keep_input_mutations) {
  g_roots.clear();
  const std::vector<at::Tensor> examples = c.inputs();
  aot::CompileOptions options;
  options.keep_input_mutations = keep_input_mutations;
  options.store_references = false;
  options.undefined_outputs_are_none = true;
  at::AutoGradMode mode(c.grad);
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, aot::CompileTensorFunction(c.f, examples, options));
  return model.bytes();
}

}  // namespace

absl::StatusOr<std::string> CompileCase(const ConfCase& c, bool keep_input_mutations) {
  try {
    return Compile(c, keep_input_mutations);
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("the compiler threw: ", e.what()));
  }
}

}  // namespace cotan::conformance
