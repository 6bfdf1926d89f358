// SPDX-License-Identifier: Apache-2.0

// Changes the sizes of a case's inputs.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_RESIZED_CASE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_RESIZED_CASE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "aot/dynamic/dynamic_dim.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// Returns every dimension of the inputs that is larger than 1, as the reference's `dynamic=True`: dimensions of equal
// size share a symbol, "s2" for size 2, which may be larger in a call. Inputs that share memory can be resized if they
// are the same tensor, or windows: runs of elements of a tensor that is not an input itself. Others are excluded.
std::vector<aot::DynamicDim> DynamicDimsOf(const std::vector<at::Tensor>& inputs);

// Returns the number of sizes larger than 1 that stay fixed because their input shares memory.
int NumFixedSizes(const std::vector<at::Tensor>& inputs);

// Returns a function for CompileOptions.examples_at_sizes, which resizes the tensor of which inputs are windows: those
// that overlap keep their distance, others follow each other. Null if there are no windows.
std::function<std::vector<at::Tensor>(const std::map<std::string, int64_t>&)> ExamplesAtSizes(
    const std::vector<at::Tensor>& inputs);

// Returns the case with every dynamic size larger by `more`. Nullopt if an input, or the tensor of which it is a
// window, is not a contiguous tensor with its own storage (a view, expanded, or computed from another tensor), or if
// no dimension is dynamic.
std::optional<ConfCase> LargerCase(const ConfCase& c, int64_t more);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_RESIZED_CASE_H_
