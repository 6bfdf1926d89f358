// SPDX-License-Identifier: Apache-2.0

// Functions compiled with an order, called with Variables beside LibTorch eager; f64.
#ifndef COTAN_TESTING_HIGHER_ORDER_COMPILED_H_
#define COTAN_TESTING_HIGHER_ORDER_COMPILED_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/compile.h"
#include "runtime/autograd/variable.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "runtime/tensor.h"

namespace cotan::testing {

using Tensors = std::vector<at::Tensor>;
using Variables = std::vector<Variable>;

// Return the elements of a real tensor as f64 (integers as i64), and back.
Tensor ToCotan(const at::Tensor& tensor);
at::Tensor ToTorch(const Tensor& tensor);
// Returns a variable with the elements of `tensor`, which requires grad if that does.
Variable ToVariable(const at::Tensor& tensor);
Variables ToVariables(const Tensors& tensors);
// Return tensors that are leaves with the values of `tensors`, with the same requires_grad.
Tensors Copies(const Tensors& tensors);
// Returns f64 values in [0.2, 1.2), a leaf that requires grad. Equal seeds give equal values.
at::Tensor Leaf(int seed, at::IntArrayRef sizes);
// Returns the same values without requires_grad.
at::Tensor Constant(int seed, at::IntArrayRef sizes);

// A compiled artifact, loaded, and its function "forward".
class Compiled {
 public:
  // Compiles `function` with this order. Errors of the compiler and of the runtime.
  static absl::StatusOr<Compiled> Function(const aot::TensorFunction& function, const Tensors& examples, int order);
  // Loads a model that has been compiled.
  static absl::StatusOr<Compiled> Load(const aot::CompiledModel& model);

  // Returns the results, which are all tensors. The test fails if the call fails.
  Variables operator()(const Variables& arguments);
  TensorOps& ops() { return session_->ops(); }
  Session& session() { return *session_; }
  cotan::Function& function() { return *function_; }

 private:
  std::unique_ptr<Session> session_;
  std::unique_ptr<cotan::Function> function_;
};

// The gradients of sum <tangents[i], outputs[i]>, and those of sum <weights[j], gradient j>, with respect to the inputs
// that require grad, then the tangents. Undefined where there is none.
struct TwoOrders {
  Tensors first, second;
};

// Returns both orders by LibTorch eager (create_graph = true).
TwoOrders EagerOrders(const aot::TensorFunction& function, const Tensors& inputs, const Tensors& tangents);
// Returns both orders by the compiled function: the first by GradWithGraph(), the second by Grad().
absl::StatusOr<TwoOrders> CompiledOrders(Compiled& compiled, const Tensors& inputs, const Tensors& tangents);
// Compiles the function with order 2 and expects both orders to be those of eager, within `tolerance`, relative to the
// largest element.
void ExpectEagerOrders(const aot::TensorFunction& function, const Tensors& inputs, double tolerance = 1e-12);
// Expects equal sizes and elements within `tolerance` of the largest one; both undefined counts as equal, and zeros as
// undefined.
void ExpectNear(const at::Tensor& actual, const at::Tensor& expected, double tolerance = 1e-12);

// The step of central differences, for kFiniteDifference of testing/tolerance.h.
inline constexpr double kDifferenceStep = 1e-5;
// Returns the gradient of `function` at `x` by central differences. It is called with leaves like `x`.
at::Tensor CentralDifferences(const std::function<double(const at::Tensor&)>& function, const at::Tensor& x);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_HIGHER_ORDER_COMPILED_H_
