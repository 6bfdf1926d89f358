// SPDX-License-Identifier: Apache-2.0

// Describes the example inputs for BindInputs().
#ifndef COTAN_AOT_AOTAUTOGRAD_DESCRIBE_EXAMPLES_H_
#define COTAN_AOT_AOTAUTOGRAD_DESCRIBE_EXAMPLES_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/types/span.h"
#include "aot/aotautograd/input_description.h"
#include "aot/capture/traced_function.h"

namespace cotan::aot {

// Returns descriptions of `states`, each of which counts as a tensor and storage of its own, then
// of `inputs`, real CPU tensors. Identities are addresses: valid as long as the tensors exist.
std::vector<InputDescription> DescribeExamples(absl::Span<const ModuleState> states,
                                               absl::Span<const at::Tensor> inputs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_DESCRIBE_EXAMPLES_H_
