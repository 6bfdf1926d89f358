// SPDX-License-Identifier: Apache-2.0

// Runs a program of worlds in LibTorch eager, node by node and captured. Gradients of the last two are equal bit for
// bit, hook traces equal among all three.
#ifndef COTAN_TESTING_AUTOGRAD_THREE_WAYS_H_
#define COTAN_TESTING_AUTOGRAD_THREE_WAYS_H_

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "aot/compile.h"
#include "testing/autograd/world.h"

namespace cotan::testing {

// Returns the tensors to compare.
using Case = std::function<Tensors(World&)>;

// The tensors, and the log of the hooks.
struct Outcome {
  Tensors gradients;
  std::vector<std::string> log;
};

// Runs the case three ways with equal random numbers, and expects `captures` captures and `walked_segments` segments
// that were not captured. Returns the outcome of the captured run; CompiledAutograd has its counters.
Outcome ExpectThreeWays(const Case& run, int captures, int walked_segments = 0);

// Returns the function of this name, compiled when it is first asked for; later calls ignore the other arguments.
// Arguments: `function` of tensors of these sizes; the first dimension of the first is dynamic if `dynamic`.
const CompiledFunction& Compiled(const std::string& name, const TensorFunction& function,
                                 const std::vector<std::vector<int64_t>>& sizes, bool dynamic = false);

// Compiles the function for these examples, as they are.
CompiledFunction CompileFor(const TensorFunction& function, const Tensors& examples,
                            const aot::CompileOptions& options = {});
// Returns random elements that require grad.
at::Tensor Example(at::IntArrayRef sizes);

bool SameBits(const at::Tensor& a, const at::Tensor& b);
// Returns a hook that notes `name` in the log and returns the gradient times `factor`.
World::GradientHook Scaled(World& world, std::string name, double factor);
// Returns copies of the gradients; undefined ones stay so.
Tensors GradsOf(World& world, const std::vector<int>& values);
void Append(Tensors& to, Tensors from);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_AUTOGRAD_THREE_WAYS_H_
