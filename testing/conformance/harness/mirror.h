// SPDX-License-Identifier: Apache-2.0

// Copies LibTorch's tensors to the runtime's Variables, for calls with the same arguments on both
// sides.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_MIRROR_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_MIRROR_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor.h"
#include "testing/conformance/harness/eager_run.h"

namespace cotan::conformance {

// Returns a copy on `device` with the same dtype, sizes, strides and offset, in a new storage of the same size.
// `tensor` is a CPU tensor. ResourceExhausted: the device has not enough memory.
absl::StatusOr<Tensor> ToCotan(const at::Tensor& tensor, Device& device = HostDevice());
// Returns a row-major copy on the CPU with the same elements. Errors are those of Tensor::ToHost().
absl::StatusOr<at::Tensor> ToTorch(const Tensor& tensor);

// Inputs of a case and their roots, as Variables with copied elements on one device. Shared storages stay shared,
// views are views of the same base, and leaves are leaves. An input that was computed in LibTorch
// has a node that passes the gradient through LibTorch's graph to the roots.
struct MirroredInputs {
  std::vector<Variable> inputs;
  std::vector<Variable> roots;
};

// Returns the Variables of `in`, which has not been used in any call; the result keeps its graph
// alive. Errors are those of the runtime.
absl::StatusOr<MirroredInputs> ToVariables(const CaseInputs& in, Device& device = HostDevice());

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_MIRROR_H_
