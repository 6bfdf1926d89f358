// Example tensors as BindInputs() wants to have them described.
#ifndef COTAN_AOT_AOTAUTOGRAD_DESCRIBE_EXAMPLES_H_
#define COTAN_AOT_AOTAUTOGRAD_DESCRIBE_EXAMPLES_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/types/span.h"
#include "aot/aotautograd/input_binding.h"
#include "aot/capture/traced_function.h"

namespace cotan::aot {

// `states`, each of which is a tensor and a storage of its own, then `inputs`,
// which are real. The descriptions are about the tensors that exist now.
std::vector<InputDescription> DescribeExamples(absl::Span<const ModuleState> states,
                                               absl::Span<const at::Tensor> inputs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_DESCRIBE_EXAMPLES_H_
