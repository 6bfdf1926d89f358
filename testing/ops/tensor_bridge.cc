// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/tensor_bridge.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "aot/capture/tensor_data.h"
#include "kernels/api/device.h"

namespace cotan::testing {

absl::StatusOr<Tensor> BorrowTensor(const at::Tensor& tensor) {
  const size_t bytes = tensor.storage().nbytes() - static_cast<size_t>(tensor.storage_offset()) * tensor.element_size();
  StridedLayout layout;
  layout.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  layout.strides.assign(tensor.strides().begin(), tensor.strides().end());
  return Tensor::InStorage(Storage::Borrow(HostDevice(), tensor.data_ptr(), bytes), aot::ToDType(tensor.scalar_type()),
                           std::move(layout));
}

at::Tensor ToAten(const Tensor& tensor) {
  const at::IntArrayRef sizes(tensor.layout().sizes.data(), tensor.layout().sizes.size());
  const at::IntArrayRef strides(tensor.layout().strides.data(), tensor.layout().strides.size());
  const at::ScalarType dtype = aot::ToScalarType(tensor.dtype());
  if (tensor.num_elements() == 0) return at::empty(sizes, dtype);
  return at::from_blob(tensor.address(), sizes, strides, dtype).clone();
}

double ErrorOf(const at::Tensor& actual, const at::Tensor& expected) {
  if (expected.is_complex()) {
    return ErrorOf(at::view_as_real(actual.resolve_conj()), at::view_as_real(expected.resolve_conj()));
  }
  const double eps = Epsilon(aot::ToDType(expected.scalar_type()));
  const at::Tensor a = actual.to(at::kDouble).contiguous().flatten();
  const at::Tensor e = expected.to(at::kDouble).contiguous().flatten();
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < e.numel(); ++i) {
    const double x = a.data_ptr<double>()[i];
    const double y = e.data_ptr<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(y) || eps == 0) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(y));
    difference = std::max(difference, std::abs(x - y));
  }
  return difference == 0 ? 0 : difference / (eps * std::max(largest, 1e-6));
}

}  // namespace cotan::testing
