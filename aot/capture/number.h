// SPDX-License-Identifier: Apache-2.0

// Numbers as arguments of traced functions: inputs of the program without dimensions, not constants.
//
//   auto f = [](const at::Tensor& x, c10::SymFloat scale) { return x * scale; };
//   CompileFunction(f, {torch::rand({8}), Number(0.5)}, options);     // inputs: f32[8], f64[]
//
// A number takes part in tensor arithmetic as a Python number does (a wrapped number of LibTorch): it promotes the
// dtype of a tensor only to another category, so that f32 * 0.5 is f32. Equivalent of PyTorch's tensorified scalars
// (torch/fx/passes/_tensorify_python_scalars.py).
//
// An int64 that decides sizes is an input i64[n, 0], a tensor without elements whose first dimension is the number: a
// dynamic dimension like any other (aot/dynamic/dynamic_dim.h).
#ifndef COTAN_AOT_CAPTURE_NUMBER_H_
#define COTAN_AOT_CAPTURE_NUMBER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include <concepts>
#include <cstdint>
#include <string>

namespace cotan::aot {

// Return the example of a number argument: a wrapped number of dtype f64, i64 or bool. The program's input has its
// dtype and no dimensions; every call may give it another value.
at::Tensor Number(double value);
at::Tensor Number(int64_t value);
at::Tensor Number(bool value);
template <std::integral T>
requires(!std::same_as<T, bool> && !std::same_as<T, int64_t>) at::Tensor Number(T value) {
  return Number(static_cast<int64_t>(value));
}

// Returns the example of an integer argument that decides sizes: an empty tensor i64[value, 0]. Its dimension 0 is
// dynamic if CompileOptions::dynamic_dims declares it; otherwise every call has to give `value`. Not negative.
at::Tensor SizeNumber(int64_t value);

// Returns whether `tensor` is an example made by Number(), or the traced input of one.
bool IsNumber(const at::Tensor& tensor);
// Returns whether `tensor` is an example made by SizeNumber(), or the traced input of one.
bool IsSizeNumber(const at::Tensor& tensor);

// Marks a functional tensor without dimensions as a number. Its proxy becomes a wrapped number; the functional tensor
// itself must not, because functionalization does not unwrap those.
void MarkNumber(const at::Tensor& functional);

// Return an argument as a number. A number input that is being traced gives a symbolic number, with which arithmetic is
// recorded; one that decides sizes, or a tensor outside of a trace, gives its value. Comparisons of a symbolic number
// that decide control flow, and its use as a size, are reported as unsupported. `name` is for messages.
// Throw std::invalid_argument: `tensor` is not a number of this type.
c10::SymFloat ToSymFloat(const at::Tensor& tensor, const std::string& name);
c10::SymInt ToSymInt(const at::Tensor& tensor, const std::string& name);
c10::SymBool ToSymBool(const at::Tensor& tensor, const std::string& name);
at::Scalar ToSymScalar(const at::Tensor& tensor, const std::string& name);

// Returns whether `value` is a symbolic number made here.
bool IsSymbolicNumber(const c10::IValue& value);
// Returns a symbolic number as a traced tensor that is a wrapped number. Requires IsSymbolicNumber(value).
at::Tensor TensorOfNumber(const c10::IValue& value);
// Returns a symbolic number as a traced tensor f64[], i64[] or bool[], which promotes dtypes like any other tensor.
at::Tensor PlainTensorOfNumber(const c10::IValue& value);
// Returns the symbolic number that is the value of a traced tensor f64[], i64[] or bool[].
c10::IValue NumberOfTensor(const at::Tensor& tensor, const std::string& name);
// Returns the name of a symbolic number for messages: "scale", "(scale * 2)".
std::string NameOfNumber(const c10::IValue& value);
// Returns the value that the example gives a symbolic number.
c10::IValue ExampleOfNumber(const c10::IValue& value);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_NUMBER_H_
