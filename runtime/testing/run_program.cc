// SPDX-License-Identifier: Apache-2.0

#include "runtime/testing/run_program.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/layout.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/variable.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/test_kernels.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::testing {
namespace {

using serialization::Method;
using serialization::Op;

constexpr size_t kMaxBytes = 1 << 20;
constexpr int64_t kMaxElements = 10'000;  // of the domain of an expression, or of an argument

bool IsCheap(const Method& method, const DimVector& symbols) {
  return std::all_of(method.ops().begin(), method.ops().end(), [&](const Op& op) {
    const absl::StatusOr<DimVector> domain = EvaluateSizes(op.expr().domain_sizes(), symbols);
    return domain.ok() && BoundedElements(*domain) >= 0 && BoundedElements(*domain) <= kMaxElements;
  });
}

// Returns arguments for the first inputs, up to one that is too large.
std::vector<Tensor> ArgumentsOf(const Method& method, const DimVector& symbols, Device& device) {
  std::vector<Tensor> arguments;
  for (const uint32_t input : method.inputs()) {
    const serialization::TensorType& type = method.values(static_cast<int>(input)).type();
    const absl::StatusOr<StridedLayout> layout = DenseLayout(type, symbols);
    if (!layout.ok() || NumElements(layout->sizes) > kMaxElements) break;
    absl::StatusOr<Tensor> tensor = Tensor::Empty(ToDType(type.dtype()), layout->sizes, device);
    if (!tensor.ok()) break;
    std::fill_n(static_cast<char*>(tensor->storage()->data()), tensor->storage()->bytes(), '\1');
    arguments.push_back(*std::move(tensor));
  }
  // A backward gets its forward's saved values from the session.
  if (method.name() == "backward" && !arguments.empty()) arguments.erase(arguments.begin());
  return arguments;
}

std::vector<Variable> VariablesOf(const std::vector<Tensor>& tensors, bool requires_grad) {
  std::vector<Variable> variables;
  for (const Tensor& tensor : tensors) {
    absl::StatusOr<Variable> leaf = requires_grad ? Variable::Leaf(tensor) : Variable(tensor);
    variables.push_back(leaf.ok() ? *std::move(leaf) : Variable(tensor));
  }
  return variables;
}

// Runs the backward from all results that require grad.
bool RunBackward(const std::vector<FunctionResult>& results, Device& device, Session& session) {
  std::vector<Variable> roots;
  std::vector<Tensor> gradients;
  for (const FunctionResult& result : results) {
    const auto* const root = std::get_if<Variable>(&result);
    if (root == nullptr || !root->defined() || !root->requires_grad()) continue;
    absl::StatusOr<Tensor> gradient = Tensor::Empty(root->tensor().dtype(), root->sizes(), device);
    if (!gradient.ok()) return false;
    std::fill_n(static_cast<char*>(gradient->storage()->data()), gradient->storage()->bytes(), '\1');
    roots.push_back(*root);
    gradients.push_back(*std::move(gradient));
  }
  return !roots.empty() && autograd::Backward(roots, gradients, session.ops()).ok();
}

void RunFunction(const Method& method, const std::vector<Tensor>& arguments, Device& device, Session& session,
                 RunCounts& counts) {
  absl::StatusOr<Function> function = Function::Create(session, method.name());
  if (!function.ok()) return;
  for (const bool requires_grad : {true, false}) {
    const absl::StatusOr<std::vector<FunctionResult>> results = function->Call(VariablesOf(arguments, requires_grad));
    if (!results.ok()) continue;
    ++counts.functions;
    if (RunBackward(*results, device, session)) ++counts.backwards;
  }
}

}  // namespace

RunCounts RunProgram(const std::shared_ptr<const Program>& program, int64_t size) {
  LimitedDevice device;
  device.LimitBytes(kMaxBytes);
  RunCounts counts;
  absl::StatusOr<Session> session =
      Session::Create(program, {.kernels = &TestKernels(), .device = &device, .threads = 1});
  if (!session.ok()) return counts;
  const DimVector symbols(static_cast<size_t>(program->artifact().symbols_size()), size);
  const auto& methods = program->artifact().methods();
  if (!std::all_of(methods.begin(), methods.end(), [&](const Method& m) { return IsCheap(m, symbols); })) return counts;
  for (const Method& method : methods) {
    const std::vector<Tensor> arguments = ArgumentsOf(method, symbols, device);
    if (session->Run(method.name(), arguments).ok()) ++counts.methods;
    RunFunction(method, arguments, device, *session, counts);
  }
  return counts;
}

}  // namespace cotan::testing
