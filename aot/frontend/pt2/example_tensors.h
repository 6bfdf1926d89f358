// SPDX-License-Identifier: Apache-2.0

// Makes tensors with the types and sizes that an exported program records.
#ifndef COTAN_AOT_FRONTEND_PT2_EXAMPLE_TENSORS_H_
#define COTAN_AOT_FRONTEND_PT2_EXAMPLE_TENSORS_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/frontend/pt2/exported_program.h"
#include "base/dtype.h"

namespace cotan::aot::pt2 {

// Returns an example of the input `name`: random floating point numbers, or zeros of another dtype.
// InvalidArgument: more than 2^48 elements. ResourceExhausted: the memory is full.
absl::StatusOr<at::Tensor> ExampleInput(const std::string& name, const std::vector<int64_t>& sizes, DType dtype,
                                        at::Generator& generator);

// Returns a tensor on the meta device with the dtype and sizes that the tensor had in the export, and dense strides;
// undefined if a size depends on data.
at::Tensor ExportedShape(const TensorMeta& meta, absl::Span<const Symbol> symbols);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_EXAMPLE_TENSORS_H_
