// SPDX-License-Identifier: Apache-2.0

// Changes the sizes of a case's inputs.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_RESIZED_CASE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_RESIZED_CASE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "aot/dynamic/dynamic_dim.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// Returns every dimension of the inputs that is larger than 1, as the reference's `dynamic=True`:
// dimensions of equal size share a symbol, "s2" for size 2, which may be larger in a call. Inputs
// that share memory with another input cannot be resized and are excluded.
std::vector<aot::DynamicDim> DynamicDimsOf(const std::vector<at::Tensor>& inputs);

// Returns the number of sizes larger than 1 that stay fixed because their input shares memory.
int NumFixedSizes(const std::vector<at::Tensor>& inputs);

// Returns the case with every dynamic size larger by `more`. Nullopt if an input is not a
// contiguous tensor with its own storage (a view, expanded, or computed from another tensor), or if
// no dimension is dynamic.
std::optional<ConfCase> LargerCase(const ConfCase& c, int64_t more);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_RESIZED_CASE_H_
