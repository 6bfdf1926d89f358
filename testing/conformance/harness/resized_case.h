// The inputs of a case at other sizes.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_RESIZED_CASE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_RESIZED_CASE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "aot/dynamic/dynamic_dim.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// Every dimension of the inputs that is larger than 1, as `dynamic=True` of the
// reference has it: dimensions of one size have one symbol, "s2" of size 2,
// which may be larger in a call.
// Not those of inputs that share memory with another, which cannot be resized.
std::vector<aot::DynamicDim> DynamicDimsOf(const std::vector<at::Tensor>& inputs);

// How many sizes larger than 1 stay fixed, as their input shares memory.
int NumFixedSizes(const std::vector<at::Tensor>& inputs);

// The case with every dynamic size larger by `more`. None if an input is more
// than its own memory in row-major order (a view, expanded, computed from
// another), or if no dimension is dynamic.
std::optional<ConfCase> LargerCase(const ConfCase& c, int64_t more);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_RESIZED_CASE_H_
