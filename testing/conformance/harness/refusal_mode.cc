// SPDX-License-Identifier: Apache-2.0

// Mode "refusals": Cotan refuses the functions that the reference refuses, with the expected message.
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "aot/export.h"
#include "base/status_macros.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "testing/conformance/harness/compiled_run.h"
#include "testing/conformance/harness/mirror.h"
#include "testing/conformance/harness/modes.h"

namespace cotan::conformance {
namespace {

using serialization::GraphSignature;

absl::StatusOr<aot::ExportedGraph> ExportAsModule(const RefusalCase& c, const Json& options) {
  aot::ExportOptions export_options;
  export_options.trace_joint = options["trace_joint"];
  if (options.contains("loss")) export_options.output_loss_index = options["loss"].get<int>();
  export_options.num_parameters_and_buffers = options["params"];
  export_options.pre_dispatch = options.value("pre_dispatch", false);
  return aot::ExportTensorFunction(c.f, c.inputs(), export_options);
}

// Compiles and runs the function, and takes a gradient of its gradient.
absl::Status DifferentiateTwice(const RefusalCase& c, std::string artifact) {
  COTAN_ASSIGN_OR_RETURN(auto program, Program::LoadBytes(std::move(artifact)));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, OnHost()));
  COTAN_ASSIGN_OR_RETURN(Function function, Function::Create(session, "forward"));
  CaseInputs in;
  in.inputs = c.inputs();
  in.roots = in.inputs;
  COTAN_ASSIGN_OR_RETURN(const MirroredInputs mirrored, ToVariables(in));
  COTAN_ASSIGN_OR_RETURN(const std::vector<FunctionResult> results, function.Call(mirrored.inputs));
  COTAN_ASSIGN_OR_RETURN(const Tensor one, ToCotan(at::ones({})));
  return autograd::Grad({std::get<Variable>(results[0])}, mirrored.inputs, {one}, session.ops(), {.create_graph = true})
      .status();
}

absl::Status CompileAsFunction(const RefusalCase& c, const Json& options) {
  aot::CompileOptions compile_options;
  compile_options.tracing.keep_input_mutations = options["keep"];
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, aot::CompileFunction(c.f, c.inputs(), compile_options));
  return options.value("double_backward", false) ? DifferentiateTwice(c, model.bytes()) : absl::OkStatus();
}

// The signature if the entry point gives one.
absl::StatusOr<GraphSignature> Attempt(const RefusalCase& c, const Json& golden) {
  const Json& options = golden["options"];
  try {
    if (golden["api"] == "aot_export_module") {
      COTAN_ASSIGN_OR_RETURN(const aot::ExportedGraph exported, ExportAsModule(c, options));
      return exported.signature;
    }
    if (golden["api"] == "aot_export_joint_simple") {
      COTAN_ASSIGN_OR_RETURN(const aot::ExportedGraph exported,
                             aot::ExportJointTensorFunction(c.f, c.inputs(), options["trace_joint"]));
      return exported.signature;
    }
    COTAN_RETURN_IF_ERROR(CompileAsFunction(c, options));
    return GraphSignature();
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("threw: ", e.what()));
  }
}

// --- Signatures: names of graph values are Cotan's own, those of tensors are not

template <typename Entries>
std::vector<std::string> Targets(const Entries& entries) {
  std::vector<std::string> targets;
  for (const auto& entry : entries) targets.push_back(entry.target());
  return targets;
}

std::vector<std::string> Targets(const Json& entries) {
  std::vector<std::string> targets;
  for (const auto& [output, target] : entries.items()) targets.push_back(target);
  return targets;
}

int PositionOf(const std::string& name, const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<int>(i);
  }
  return -1;
}

void CompareSignature(const GraphSignature& actual, const Json& golden, Differences& d) {
  const auto strings = [](const auto& field) { return std::vector<std::string>(field.begin(), field.end()); };
  d.Expect("parameters", strings(actual.parameters()), golden["parameters"].get<std::vector<std::string>>());
  d.Expect("buffers", strings(actual.buffers()), golden["buffers"].get<std::vector<std::string>>());
  d.Expect("number of user inputs", actual.user_inputs_size(), static_cast<int>(golden["user_inputs"].size()));
  d.Expect("number of user outputs", actual.user_outputs_size(), static_cast<int>(golden["user_outputs"].size()));
  d.Expect("buffers_to_mutate", Targets(actual.buffers_to_mutate()), Targets(golden["buffers_to_mutate"]));
  d.Expect("number of user inputs to mutate", actual.user_inputs_to_mutate_size(),
           static_cast<int>(golden["user_inputs_to_mutate"].size()));
  if (golden["backward"].is_null()) return d.Expect("loss", actual.loss_output(), std::string());
  const Json& backward = golden["backward"];
  d.Expect("gradients_to_parameters", Targets(actual.gradients_to_parameters()),
           Targets(backward["gradients_to_parameters"]));
  d.Expect("number of gradients to user inputs", actual.gradients_to_user_inputs_size(),
           static_cast<int>(backward["gradients_to_user_inputs"].size()));
  d.Expect("position of the loss", PositionOf(actual.loss_output(), strings(actual.user_outputs())),
           PositionOf(backward["loss_output"], golden["user_outputs"].get<std::vector<std::string>>()));
}

}  // namespace

void CheckRefusal(const RefusalCase& c, const Json& golden, Differences& differences) {
  const absl::StatusOr<GraphSignature> result = Attempt(c, golden);
  if (golden["error"].is_null()) {
    if (!result.ok()) return differences.Add(result.status().ToString());
    if (golden.contains("signature")) CompareSignature(*result, golden["signature"], differences);
    return;
  }
  if (std::string(c.message).empty()) {
    if (!result.ok()) differences.Add(result.status().ToString());
    return;
  }
  if (result.ok()) {
    return differences.Add(
        absl::StrCat("is not refused, as it is by the reference: ", golden["error"]["message"].get<std::string>()));
  }
  if (absl::IsInternal(result.status()) || !absl::StrContains(result.status().message(), c.message)) {
    differences.Add(absl::StrCat("the message does not contain '", c.message, "': ", result.status().ToString()));
  }
}

}  // namespace cotan::conformance
