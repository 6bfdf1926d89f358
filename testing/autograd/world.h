// SPDX-License-Identifier: Apache-2.0

// World: programs of compiled functions, views, user nodes and hooks that run in LibTorch eager, node by node in the
// runtime, and captured.
#ifndef COTAN_TESTING_AUTOGRAD_WORLD_H_
#define COTAN_TESTING_AUTOGRAD_WORLD_H_

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "serialization/metadata/view_step.h"

namespace cotan::testing {

using Tensors = std::vector<at::Tensor>;
using TensorFunction = std::function<Tensors(const Tensors&)>;

// A function and its artifact, which was compiled for examples that all require grad. The first dimension of all of
// them is dynamic if `dynamic`.
class CompiledFunction {
 public:
  CompiledFunction(TensorFunction function, const Tensors& examples, bool dynamic = false);
  // The artifact was compiled by the caller.
  CompiledFunction(TensorFunction function_in, std::string bytes_in)
      : function(std::move(function_in)), bytes(std::move(bytes_in)) {}

  const TensorFunction function;
  std::string bytes;
  std::string name = "artifact";  // of the program
};

enum class Mode { kEager, kWalked, kCaptured };

// Values are numbers of handles. Not thread-safe. Failures of calls fail the test.
class World {
 public:
  // Undefined: keep the gradient.
  using GradientHook = std::function<at::Tensor(const at::Tensor& gradient)>;
  using NodeHook = std::function<void(const Tensors& results, const Tensors& incoming)>;

  static std::unique_ptr<World> Make(Mode mode);
  virtual ~World() = default;

  virtual int Leaf(const at::Tensor& values) = 0;
  virtual std::vector<int> Call(const CompiledFunction& function, const std::vector<int>& arguments) = 0;
  virtual int View(int value, const ViewStep& step) = 0;  // View, Permute, Slice, Select, Expand
  virtual void Copy(int to, int from) = 0;                // in place
  // A user node: computes `forward` of one value; the gradient is `backward` of the incoming one.
  virtual int Node(const std::string& name, int value, const GradientHook& forward, const GradientHook& backward) = 0;

  virtual void TensorHook(int value, GradientHook hook) = 0;
  virtual void RetainGrad(int value) = 0;
  // Hooks of the value's gradient node: grad_fn, or the accumulate node of a leaf.
  virtual void PreHook(int value, NodeHook hook) = 0;
  virtual void PostHook(int value, NodeHook hook) = 0;
  // As PreHook() and PostHook(); the hook returns the gradients that replace `incoming`, or the results.
  using ReplacingHook = std::function<Tensors(const Tensors& results, const Tensors& incoming)>;
  virtual void ReplacingPreHook(int value, ReplacingHook hook) = 0;
  virtual void ReplacingPostHook(int value, ReplacingHook hook) = 0;
  virtual void PostAccumulateHook(int leaf, std::function<void()> hook) = 0;

  // Backward with gradients of ones. `inputs`: of the backward; empty: all leaves.
  virtual void Backward(const std::vector<int>& roots, bool retain_graph = false,
                        const std::vector<int>& inputs = {}) = 0;
  // The same with these gradients.
  virtual void BackwardFrom(const std::vector<int>& roots, const Tensors& gradients) = 0;
  virtual Tensors Grad(const std::vector<int>& roots, const std::vector<int>& inputs) = 0;

  virtual at::Tensor Value(int value) = 0;
  virtual void SetValue(int value, const at::Tensor& elements) = 0;  // in place, with gradients disabled
  virtual at::Tensor GradOf(int value) = 0;                          // undefined: none
  virtual void SetGrad(int value, const at::Tensor& gradient) = 0;

  std::vector<std::string> log;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_AUTOGRAD_WORLD_H_
