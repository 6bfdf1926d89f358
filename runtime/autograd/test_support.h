// SPDX-License-Identifier: Apache-2.0

// Helpers of this package's tests.
#ifndef COTAN_RUNTIME_AUTOGRAD_TEST_SUPPORT_H_
#define COTAN_RUNTIME_AUTOGRAD_TEST_SUPPORT_H_

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

inline TensorOps& Ops() {
  static TensorOps& ops = *new TensorOps(CpuKernels());
  return ops;
}

inline Tensor Values(const std::vector<float>& values, const std::vector<int64_t>& sizes) {
  return *Tensor::From<float>(values, sizes);
}

inline Tensor Vector(const std::vector<float>& values) { return Values(values, {static_cast<int64_t>(values.size())}); }

// Returns a tensor with the elements 0, 1, 2, ...
inline Tensor Count(const std::vector<int64_t>& sizes) {
  std::vector<float> values(static_cast<size_t>(NumElements(sizes)));
  std::iota(values.begin(), values.end(), 0.0f);
  return Values(values, sizes);
}

inline std::vector<float> ToVector(const Tensor& tensor) { return *tensor.ToVector<float>(); }
inline std::vector<float> ToVector(const Variable& variable) { return ToVector(variable.tensor()); }

// Returns factor * x with a recorded node called `name`.
inline Variable Scale(const Variable& x, float factor, std::string name = "Scale") {
  const auto scale = [factor](const Tensor& tensor) {
    std::vector<float> values = ToVector(tensor);
    for (float& value : values) value *= factor;
    return *Tensor::From<float>(values, tensor.sizes());
  };
  const auto backward = [scale](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    if (!incoming[0].defined()) return Gradients(1);
    return Gradients{scale(incoming[0])};
  };
  return (*ApplyFunction(std::move(name), {x}, {scale(x.tensor())}, backward))[0];
}

// Matches a status with this code whose message contains the text.
inline ::testing::Matcher<const absl::Status&> Fails(absl::StatusCode code, const std::string& text) {
  return ::testing::AllOf(::testing::Property(&absl::Status::code, code),
                          ::testing::Property(&absl::Status::message, ::testing::HasSubstr(text)));
}

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_TEST_SUPPORT_H_
