// SPDX-License-Identifier: Apache-2.0

// The inputs of an exported program that are numbers.
#ifndef COTAN_AOT_FRONTEND_PT2_NUMBER_INPUTS_H_
#define COTAN_AOT_FRONTEND_PT2_NUMBER_INPUTS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>

#include "aot/frontend/pt2/exported_program.h"

namespace cotan::aot::pt2 {

// The kind of a user input, which the caller gives as
//   kTensor   a tensor
//   kFloat, kInt, kBool  a number for tensor arithmetic (Number(), aot/capture/number.h)
//   kSize     an integer that decides a size or another setting of an op (SizeNumber())
enum class UserInputKind : uint8_t { kTensor, kFloat, kInt, kBool, kSize };

// Returns the kind of the user input `name` of the graph. An integer is kSize if a size of a tensor depends on its
// symbol, or if an op takes it, or a number computed from it, where it takes an integer.
UserInputKind KindOfUserInput(const Graph& graph, const std::string& name);

// Returns the value that an input of this kind has in the graph: `input` itself, or the number that it holds.
// Throws std::invalid_argument: `input` is not a number of that kind.
c10::IValue UserInputValue(UserInputKind kind, const std::string& name, const at::Tensor& input);

// Returns an example of an input that is a number; `hint` is the value of an integer.
at::Tensor ExampleNumber(UserInputKind kind, int64_t hint);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_NUMBER_INPUTS_H_
