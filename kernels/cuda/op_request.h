// SPDX-License-Identifier: Apache-2.0

// A KernelRequest that owns its op and operands, for tests.
#ifndef COTAN_KERNELS_CUDA_OP_REQUEST_H_
#define COTAN_KERNELS_CUDA_OP_REQUEST_H_

#include <cstdint>
#include <vector>

#include "kernels/api/kernel.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda {

struct OpRequest {
  serialization::Op op;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<int64_t> symbols = {};

  KernelRequest For(Device* device) const {
    return KernelRequest{.op = op, .inputs = inputs, .outputs = outputs, .symbols = symbols, .device = device};
  }
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_OP_REQUEST_H_
