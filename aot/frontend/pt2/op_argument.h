// SPDX-License-Identifier: Apache-2.0

// Converts arguments of exported nodes to the types of LibTorch's dispatcher.
#ifndef COTAN_AOT_FRONTEND_PT2_OP_ARGUMENT_H_
#define COTAN_AOT_FRONTEND_PT2_OP_ARGUMENT_H_

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include "aot/capture/tensor_data.h"
#include "aot/frontend/pt2/exported_program.h"
#include "aot/frontend/pt2/interpreter.h"

namespace cotan::aot::pt2 {

// Returns `argument` as a value of the declared type: an int becomes a float where a float is
// declared, a number a wrapped number where a tensor is declared; devices become the CPU.
// Throws std::invalid_argument: a name without a value, or a kind that does not match the declared
// type.
c10::IValue ToOpArgument(const Argument& argument, const c10::Argument& declared, const Environment& values);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_OP_ARGUMENT_H_
