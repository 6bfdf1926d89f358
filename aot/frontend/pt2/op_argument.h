// Arguments of exported nodes as LibTorch's dispatcher takes them.
#ifndef COTAN_AOT_FRONTEND_PT2_OP_ARGUMENT_H_
#define COTAN_AOT_FRONTEND_PT2_OP_ARGUMENT_H_

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include "aot/capture/tensor_data.h"
#include "aot/frontend/pt2/exported_program.h"
#include "aot/frontend/pt2/interpreter.h"

namespace cotan::aot::pt2 {

// `argument` as the op declares it: an int for a float becomes a float, a
// number for a tensor a wrapped number, a device the CPU.
// Throws std::invalid_argument: a name without a value, a kind that does not
// fit.
c10::IValue ToOpArgument(const Argument& argument, const c10::Argument& declared, const Environment& values);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_OP_ARGUMENT_H_
