// What the tracer and the analysis before it run: a function of tensors, and
// the parameters and buffers that it holds.
#ifndef COTAN_AOT_CAPTURE_TRACED_FUNCTION_H_
#define COTAN_AOT_CAPTURE_TRACED_FUNCTION_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// What is traced. Parameters and buffers are not among its arguments: it holds
// them (ModuleState).
using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// A parameter or buffer of the function.
struct ModuleState {
  std::string name;
  serialization::State::Role role = serialization::State::PARAMETER;
  // What the function computes with: a functional tensor made while tracing
  // keys were on (aot/frontend/module.h), the same object in every trace.
  at::Tensor tensor;
  at::Tensor initial;  // real CPU tensor
  // The real tensor that the constructor left; other attributes of the module
  // may share its storage, which is found out and refused.
  at::Tensor constructed;
  bool requires_grad = false;
  bool persistent = true;  // whether checkpoints hold it
  std::vector<std::string> aliases = {};
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_TRACED_FUNCTION_H_
