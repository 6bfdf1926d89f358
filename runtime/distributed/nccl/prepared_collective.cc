// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/nccl/prepared_collective.h"

namespace cotan::testing {

using serialization::Op;
using Specs = std::vector<TensorSpec>;

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(GpuRank& rank, const Op& op, const Specs& inputs,
                                                          const Specs& outputs, absl::string_view name) {
  return rank.communicator().Prepare(
      {.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}, .device = &rank.device(), .name = name});
}

TensorSpec VectorSpec(DType dtype, int64_t elements) { return {dtype, {{elements}, {1}, 0}}; }

QueuedReduce::QueuedReduce(GpuRank& rank, absl::string_view name) : array_(rank, {1, 2}), memory_(array_.memory()) {
  Op op;
  op.mutable_collective()->set_function(serialization::Collective::ALL_REDUCE);
  const Specs specs = {VectorSpec(DType::kFloat32, 2)};
  kernel_ = *PrepareCollective(rank, op, specs, specs, name);
}

absl::Status QueuedReduce::Run() { return kernel_->Run({.inputs = &memory_, .outputs = &memory_}); }

}  // namespace cotan::testing
