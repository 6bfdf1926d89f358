// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/recurrent/dense_rows.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {
namespace {

bool HasDenseRows(const TensorSpec& spec) { return spec.layout.sizes.back() <= 1 || spec.layout.strides.back() == 1; }

TensorSpec RowMajor(const TensorSpec& spec) {
  return {spec.dtype, {spec.layout.sizes, ContiguousStrides(spec.layout.sizes), 0}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> WithDenseRows(const KernelRequest& request, size_t weight, KernelFactory make) {
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  std::vector<TensorSpec> inputs(request.inputs.begin(), request.inputs.end());
  std::vector<TensorSpec> outputs(request.outputs.begin(), request.outputs.end());
  std::vector<Slot> from, to;
  bool copies = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    from.push_back(Slot::Input(i));
    if (i == weight || HasDenseRows(inputs[i])) continue;
    copies = true;
    from[i] = BringRowMajor(inputs[i], from[i], request.threads, *pipeline);
    inputs[i] = RowMajor(inputs[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    to.push_back(Slot::Output(i));
    if (HasDenseRows(outputs[i])) continue;
    copies = true;
    outputs[i] = RowMajor(outputs[i]);
    to[i] =
        pipeline->AddScratch(ByteSize(outputs[i].dtype) * static_cast<size_t>(NumElements(outputs[i].layout.sizes)));
  }
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                         make({request.op, inputs, outputs, request.symbols, request.threads, request.device}));
  if (!copies) return kernel;
  pipeline->Add(std::move(kernel), std::move(from), to);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (to[i].memory != Slot::Memory::kScratch) continue;
    const StridedLayout& layout = request.outputs[i].layout;
    pipeline->Add(MakeCopyKernel(ByteSize(outputs[i].dtype), layout.sizes, outputs[i].layout.strides, layout.strides,
                                 request.threads),
                  {to[i]}, {Slot::Output(i)});
  }
  return pipeline;
}

}  // namespace cotan::cpu
