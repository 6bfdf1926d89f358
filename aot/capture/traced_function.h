// SPDX-License-Identifier: Apache-2.0

// The function of tensors that is traced or analysed, with the parameters and buffers that it holds.
#ifndef COTAN_AOT_CAPTURE_TRACED_FUNCTION_H_
#define COTAN_AOT_CAPTURE_TRACED_FUNCTION_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// A function to trace. Parameters and buffers are not among its arguments: it holds them (ModuleState).
using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// A parameter or buffer of the function.
struct ModuleState {
  std::string name;
  serialization::State::Role role = serialization::State::PARAMETER;
  // The functional tensor that the function computes with, made under the tracing keys
  // (aot/frontend/module.h); the same object in every trace.
  at::Tensor tensor;
  at::Tensor initial;  // real CPU tensor
  // The real tensor that the constructor made. Other attributes of the module may share its storage, which
  // tracing reports as unsupported.
  at::Tensor constructed;
  bool requires_grad = false;
  bool persistent = true;  // whether checkpoints hold it
  std::vector<std::string> aliases = {};
  // The tensor belongs to another trace in progress: its place in the autograd graph survives this one.
  bool is_borrowed = false;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_TRACED_FUNCTION_H_
