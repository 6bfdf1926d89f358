// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/strided_storage.h"

#include <ATen/ops/empty.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "aot/capture/tensor_data.h"

namespace cotan::aot::pt2 {
namespace {

// LibTorch's ops take no more dimensions.
constexpr size_t kMaxRank = 64;

// Returns whether the product of the sizes fits int64, also of those that are not 0. LibTorch throws otherwise.
bool AreSizes(const DimVector& sizes) {
  DimVector nonzero;
  for (const int64_t size : sizes) nonzero.push_back(size == 0 ? 1 : size);
  return sizes.size() <= kMaxRank && CheckedNumElements(nonzero) >= 0;
}

// Returns whether all elements are within the first `elements` elements of a storage.
bool Fits(const StridedLayout& layout, int64_t elements) {
  if (!AreSizes(layout.sizes) || layout.sizes.size() != layout.strides.size() || layout.offset < 0) return false;
  if (NumElements(layout.sizes) == 0) return true;
  int64_t last = layout.offset;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    int64_t reach = 0;
    if (layout.strides[d] < 0) return false;
    if (__builtin_mul_overflow(layout.sizes[d] - 1, layout.strides[d], &reach)) return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
  }
  return last < elements;
}

}  // namespace

absl::StatusOr<at::Tensor> StorageFromBytes(absl::string_view bytes, DType dtype) {
  const size_t size = ByteSize(dtype);
  if (size == 0 || bytes.size() % size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes, which is not a multiple of ", size,
                                                   ", the size of an element of ", DTypeName(dtype)));
  }
  at::Tensor storage = at::empty({static_cast<int64_t>(bytes.size() / size)}, at::TensorOptions(ToScalarType(dtype)));
  if (!bytes.empty()) std::memcpy(storage.mutable_data_ptr(), bytes.data(), bytes.size());
  return storage;
}

absl::StatusOr<at::Tensor> ViewOfStorage(const at::Tensor& storage, const StridedLayout& layout) {
  if (!Fits(layout, storage.numel())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor ", ToString(layout), " in a file of ", storage.numel(), " elements"));
  }
  return storage.as_strided({layout.sizes.data(), layout.sizes.size()}, {layout.strides.data(), layout.strides.size()},
                            layout.offset);
}

}  // namespace cotan::aot::pt2
