// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/op_runner.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "aot/capture/argument.h"
#include "aot/capture/tensor_data.h"
#include "aot/emit/artifact_builder.h"
#include "aot/emit/emit.h"
#include "aot/lowering/lower.h"
#include "base/status_macros.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "testing/ops/tensor_bridge.h"

namespace cotan::testing {
namespace {

using aot::Argument;
using aot::Graph;
using aot::ValueId;

c10::OperatorHandle FindHandle(const std::string& op) {
  const std::vector<std::string> parts = absl::StrSplit(op, '.');
  const std::string overload = parts.at(2) == "default" ? "" : parts.at(2);
  return c10::Dispatcher::singleton().findSchemaOrThrow((parts.at(0) + "::" + parts.at(1)).c_str(), overload.c_str());
}

// Returns the tensors of a result, with lists flattened and undefined tensors kept.
std::vector<at::Tensor> Flatten(const OpArguments& results) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : results) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
    }
  }
  return tensors;
}

// Returns a graph of the op; `inputs` receives its tensors.
absl::StatusOr<Graph> MakeGraph(const std::string& op, const c10::FunctionSchema& schema, const OpArguments& arguments,
                                const std::vector<at::Tensor>& results, std::vector<at::Tensor>& inputs) {
  Graph graph;
  graph.name = "forward";
  const auto record = [&](const at::Tensor& tensor) -> Argument {
    const auto index = static_cast<int>(inputs.size());
    inputs.push_back(tensor);
    return aot::Use{
        graph.AddInput(aot::TypeOf(tensor), aot::InputKind::kUserInput, index, absl::StrCat("input.", index))};
  };
  std::vector<Argument> node_arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(Argument argument, aot::ToArgument(arguments[i], schema.arguments()[i], record));
    node_arguments.push_back(std::move(argument));
  }
  std::vector<aot::TensorType> types;
  for (const at::Tensor& result : results) {
    if (result.defined()) types.push_back(aot::TypeOf(result));
  }
  aot::Node& node = graph.InsertNode(graph.nodes().end(), op, std::move(node_arguments), types);
  std::vector<ValueId> outputs;
  size_t next = 0;
  for (const at::Tensor& result : results) {
    outputs.push_back(result.defined() ? node.outputs[next++] : aot::kNoValue);
  }
  node.outputs = outputs;
  for (const ValueId value : outputs) {
    if (value == aot::kNoValue) continue;
    const auto index = static_cast<int>(graph.outputs().size());
    graph.AddOutput(value, aot::OutputKind::kUserOutput, index, absl::StrCat("output.", index));
  }
  return graph;
}

absl::StatusOr<std::vector<Tensor>> RunCompiled(const Graph& graph, const std::vector<at::Tensor>& inputs,
                                                const KernelRegistry& kernels) {
  COTAN_ASSIGN_OR_RETURN(Graph lowered, aot::LowerToPrims(graph));
  COTAN_RETURN_IF_ERROR(aot::Optimize(lowered, {}));
  COTAN_ASSIGN_OR_RETURN(serialization::Method method, aot::Emit(lowered, {}));
  aot::ArtifactBuilder builder(/*seed=*/0);
  builder.AddMethod(std::move(method));
  COTAN_ASSIGN_OR_RETURN(std::string bytes, std::move(builder).Build("op test"));
  COTAN_ASSIGN_OR_RETURN(auto program, Program::LoadBytes(std::move(bytes)));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &kernels, .threads = 2}));
  std::vector<Tensor> arguments;
  for (const at::Tensor& input : inputs) {
    COTAN_ASSIGN_OR_RETURN(Tensor argument, BorrowTensor(input));
    arguments.push_back(std::move(argument));
  }
  return session.Run("forward", arguments);
}

std::string Describe(const at::Tensor& tensor) {
  return absl::StrCat(DTypeName(aot::ToDType(tensor.scalar_type())), "[",
                      absl::StrJoin(tensor.sizes().begin(), tensor.sizes().end(), ","), "]");
}

OpOutcome Compare(const std::vector<Tensor>& actual, const std::vector<at::Tensor>& results) {
  OpOutcome outcome;
  std::vector<at::Tensor> expected;
  for (const at::Tensor& result : results) {
    if (result.defined()) expected.push_back(result);
  }
  if (actual.size() != expected.size()) {
    outcome.message = absl::StrCat("yields ", actual.size(), " tensors, expected ", expected.size());
    return outcome;
  }
  for (size_t k = 0; k < expected.size(); ++k) {
    const at::Tensor found = ToAten(actual[k]);
    if (found.scalar_type() != expected[k].scalar_type() || found.sizes() != expected[k].sizes()) {
      outcome.message = absl::StrCat("output ", k, " is ", Describe(found), ", expected ", Describe(expected[k]));
      return outcome;
    }
    const double error = ErrorOf(found, expected[k]);
    if (error > outcome.error) outcome.message = absl::StrCat("output ", k, ", ", Describe(found));
    outcome.error = std::max(outcome.error, error);
  }
  outcome.kind = OpOutcome::Kind::kCompared;
  return outcome;
}

}  // namespace

OpOutcome RunOpBothWays(const std::string& op, const OpArguments& arguments, const KernelRegistry& kernels) {
  const at::NoGradGuard no_grad;
  OpOutcome outcome;
  const c10::OperatorHandle handle = FindHandle(op);
  std::vector<at::Tensor> expected;
  try {
    OpArguments stack = arguments;
    handle.callBoxed(stack);
    expected = Flatten(stack);
  } catch (const std::exception& error) {
    outcome.kind = OpOutcome::Kind::kRefusedByLibTorch;
    outcome.message = std::string(error.what()).substr(0, 200);
    return outcome;
  }
  std::vector<at::Tensor> inputs;
  absl::StatusOr<Graph> graph = MakeGraph(op, handle.schema(), arguments, expected, inputs);
  absl::StatusOr<std::vector<Tensor>> actual =
      graph.ok() ? RunCompiled(*graph, inputs, kernels) : absl::StatusOr<std::vector<Tensor>>(graph.status());
  if (actual.ok()) return Compare(*actual, expected);
  const bool unsupported = actual.status().code() == absl::StatusCode::kUnimplemented ||
                           actual.status().code() == absl::StatusCode::kNotFound;
  outcome.kind = unsupported ? OpOutcome::Kind::kUnsupported : OpOutcome::Kind::kFailed;
  outcome.message = std::string(actual.status().message());
  return outcome;
}

}  // namespace cotan::testing
