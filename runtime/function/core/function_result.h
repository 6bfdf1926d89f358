// SPDX-License-Identifier: Apache-2.0

// FunctionResult, WrappedResult: what a call of a Function returns for one output. FunctionStats: its counters.
#ifndef COTAN_RUNTIME_FUNCTION_CORE_FUNCTION_RESULT_H_
#define COTAN_RUNTIME_FUNCTION_CORE_FUNCTION_RESULT_H_

#include <cstdint>
#include <string>
#include <variant>

#include "runtime/autograd/variable.h"
#include "runtime/function/core/wrappers.h"
#include "serialization/metadata/output_alias_info.h"

namespace cotan {

// A result of Function::Call(): a tensor, a constant of the trace, or an int64_t computed from the dynamic sizes.
using FunctionResult = std::variant<Variable, NoneValue, bool, int64_t, double, std::string>;

// A result of Function::CallWrapped(): as FunctionResult, but a tensor may be of a wrapper type.
using WrappedResult = std::variant<WrappedVariable, NoneValue, bool, int64_t, double, std::string>;

// Counters of calls and backwards, for tools and tests.
struct FunctionStats {
  int64_t calls = 0;
  int64_t write_backs = 0;         // mutated arguments whose new data was written back
  int64_t copies_elided = 0;       // write-backs whose data was computed in the argument's memory
  int64_t saved_without_copy = 0;  // saved values that share the memory of an argument or result
  int64_t saved_reused = 0;        // saved values placed in recycled buffers
  int64_t backwards = 0;
  int64_t backwards_in_donated_memory = 0;  // backwards that overwrote donated saved values
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_FUNCTION_RESULT_H_
