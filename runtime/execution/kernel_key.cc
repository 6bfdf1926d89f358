// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/kernel_key.h"

#include <cstdint>

#include "serialization/schema/program.pb.h"

namespace cotan {
namespace {

using serialization::Op;

void AppendNumber(int64_t number, std::string& key) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendOp(const Op& op, std::string& key) {
  Op content = op;
  content.clear_inputs();
  content.clear_outputs();
  content.clear_source();
  AppendNumber(static_cast<int64_t>(content.ByteSizeLong()), key);
  content.AppendToString(&key);
}

void AppendSpecs(absl::Span<const TensorSpec> specs, std::string& key) {
  AppendNumber(static_cast<int64_t>(specs.size()), key);
  for (const TensorSpec& spec : specs) {
    AppendNumber(static_cast<int64_t>(spec.dtype), key);
    AppendNumber(spec.layout.rank(), key);
    for (const int64_t size : spec.layout.sizes) AppendNumber(size, key);
    for (const int64_t stride : spec.layout.strides) AppendNumber(stride, key);
  }
}

}  // namespace

std::string KernelKey(absl::Span<const KernelRequest> requests) {
  std::string key;
  for (const KernelRequest& request : requests) {
    AppendOp(request.op, key);
    AppendSpecs(request.inputs, key);
    AppendSpecs(request.outputs, key);
    AppendNumber(request.guarded_outputs ? 1 : 0, key);
  }
  return key;
}

}  // namespace cotan
