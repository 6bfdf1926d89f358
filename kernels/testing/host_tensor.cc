// SPDX-License-Identifier: Apache-2.0

#include "kernels/testing/host_tensor.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "kernels/api/device.h"
#include "kernels/reference/element.h"

namespace cotan::testing {

using reference::ForEachIndex;
using reference::Offset;
using reference::Scalar;

namespace {

// Bytes after a kernel's scratch, which the kernel must not write.
constexpr size_t kBehindScratch = 4096;  // bytes

}  // namespace

HostTensor::HostTensor(DType dtype, StridedLayout layout)
    : dtype_(dtype), layout_(std::move(layout)), bytes_(StorageExtent(layout_) * ByteSize(dtype), '\xa5') {}

HostTensor::HostTensor(DType dtype, absl::Span<const int64_t> sizes)
    : HostTensor(dtype, StridedLayout{DimVector(sizes.begin(), sizes.end()), ContiguousStrides(sizes)}) {}

HostTensor::HostTensor(DType dtype, absl::Span<const int64_t> sizes, absl::Span<const double> values)
    : HostTensor(dtype, sizes) {
  SetValues(values);
}

std::vector<double> HostTensor::Values() const {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(numel()));
  ForEachIndex(layout_.sizes, [&](absl::Span<const int64_t> index) {
    const Scalar value = reference::Load(dtype_, bytes_.data(), Offset(index, layout_.strides));
    values.push_back(IsFloatingPoint(dtype_) ? value.f : static_cast<double>(value.i));
  });
  return values;
}

void HostTensor::SetValues(absl::Span<const double> values) {
  auto next = values.begin();
  ForEachIndex(layout_.sizes, [&](absl::Span<const int64_t> index) {
    const Scalar value = {*next, IsFloatingPoint(dtype_) ? 0 : static_cast<int64_t>(*next)};
    reference::Store(dtype_, bytes_.data(), Offset(index, layout_.strides), value);
    ++next;
  });
}

void FillRandom(HostTensor& tensor, std::mt19937_64& random, double low, double high) {
  std::vector<double> values(static_cast<size_t>(tensor.numel()));
  std::uniform_real_distribution<double> uniform(low, high);
  for (double& value : values)
    value = tensor.dtype() == DType::kBool ? static_cast<double>(random() % 2) : uniform(random);
  tensor.SetValues(values);
}

StridedLayout RandomLayout(absl::Span<const int64_t> sizes, std::mt19937_64& random, bool gaps, bool expand) {
  DimVector order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  StridedLayout layout;
  layout.sizes.assign(sizes.begin(), sizes.end());
  layout.strides.resize(sizes.size());
  int64_t stride = gaps ? 1 + static_cast<int64_t>(random() % 3) : 1;
  for (size_t k = order.size(); k-- > 0;) {
    const auto dim = static_cast<size_t>(order[k]);
    if (expand && random() % 4 == 0) {
      layout.strides[dim] = 0;
      continue;
    }
    layout.strides[dim] = stride;
    stride *= std::max<int64_t>(sizes[dim], 1);
    if (gaps && random() % 3 == 0) stride += 1;
  }
  return layout;
}

absl::Status RunOp(absl::FunctionRef<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelRequest&)> factory,
                   const serialization::Op& op, absl::Span<HostTensor* const> inputs,
                   absl::Span<HostTensor* const> outputs, int threads, absl::Span<const int64_t> symbols) {
  std::vector<TensorSpec> input_specs;
  std::vector<TensorSpec> output_specs;
  std::vector<void*> input_data;
  std::vector<void*> output_data;
  for (HostTensor* tensor : inputs) {
    input_specs.push_back(tensor->spec());
    input_data.push_back(tensor->data());
  }
  for (HostTensor* tensor : outputs) {
    output_specs.push_back(tensor->spec());
    output_data.push_back(tensor->data());
  }
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                         factory({op, input_specs, output_specs, symbols, threads}));
  const size_t scratch_bytes = std::max<size_t>(kernel->scratch_bytes(), 64);
  const size_t allocated = scratch_bytes + kBehindScratch;
  COTAN_ASSIGN_OR_RETURN(void* const scratch, HostDevice().Allocate(allocated));
  // All bits set is a NaN, so that a result that depends on uninitialized scratch is detected.
  std::memset(scratch, 0xff, allocated);
  absl::Status status = kernel->Run({input_data.data(), output_data.data(), scratch});
  const auto* behind = static_cast<const unsigned char*>(scratch) + scratch_bytes;
  if (std::any_of(behind, behind + kBehindScratch, [](unsigned char byte) { return byte != 0xff; })) {
    status.Update(absl::InternalError("the kernel writes after the end of its scratch memory"));
  }
  HostDevice().Free(scratch, allocated);
  return status;
}

}  // namespace cotan::testing
