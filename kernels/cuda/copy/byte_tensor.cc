// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/byte_tensor.h"

#include <utility>

#include "kernels/reference/element.h"

namespace cotan::cuda::testing {

using cotan::testing::HostTensor;

HostTensor RandomBytes(DType dtype, StridedLayout layout, std::mt19937_64& random) {
  HostTensor tensor(dtype, std::move(layout));
  auto* bytes = static_cast<char*>(tensor.data());
  for (size_t i = 0; i < tensor.bytes().size(); ++i) bytes[i] = static_cast<char>(random());
  return tensor;
}

std::string ElementBytes(const HostTensor& tensor, absl::Span<const int64_t> index) {
  const size_t size = ByteSize(tensor.dtype());
  const auto at = static_cast<size_t>(reference::Offset(index, tensor.layout().strides)) * size;
  return {tensor.bytes().data() + at, size};
}

std::string AllBytes(const HostTensor& tensor) {
  std::string bytes;
  reference::ForEachIndex(tensor.layout().sizes,
                          [&](absl::Span<const int64_t> index) { bytes += ElementBytes(tensor, index); });
  return bytes;
}

}  // namespace cotan::cuda::testing
