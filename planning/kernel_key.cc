// SPDX-License-Identifier: Apache-2.0

#include "planning/kernel_key.h"

#include <cstdint>

#include "serialization/schema/program.pb.h"

namespace cotan {
namespace {

using serialization::Op;

void AppendIntegers(absl::Span<const int64_t> values, std::string& key) {
  key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
}

void AppendOp(const Op& op, std::string& key) {
  Op content = op;
  content.clear_inputs();
  content.clear_outputs();
  content.clear_source();
  AppendIntegers({static_cast<int64_t>(content.ByteSizeLong())}, key);
  content.AppendToString(&key);
}

void AppendSpecs(absl::Span<const TensorSpec> specs, std::string& key) {
  AppendIntegers({static_cast<int64_t>(specs.size())}, key);
  for (const TensorSpec& spec : specs) {
    AppendIntegers({static_cast<int64_t>(spec.dtype), spec.layout.rank()}, key);
    AppendIntegers(spec.layout.sizes, key);
    AppendIntegers(spec.layout.strides, key);
  }
}

}  // namespace

std::string KernelKey(absl::Span<const KernelRequest> requests) {
  std::string key;
  for (const KernelRequest& request : requests) {
    AppendOp(request.op, key);
    AppendSpecs(request.inputs, key);
    AppendSpecs(request.outputs, key);
    AppendIntegers({request.guarded_outputs ? 1 : 0}, key);
  }
  return key;
}

}  // namespace cotan
