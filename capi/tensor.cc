// SPDX-License-Identifier: Apache-2.0

#include "runtime/tensor/tensor.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "include/cotan.h"
#include "kernels/api/device.h"

namespace cotan::capi {
namespace {

constexpr int32_t kMaxRank = 64;
constexpr size_t kFirstTensorInfo = sizeof(cotan_tensor_info);

// Memory of the caller as a storage. Calls `release` after the storage is gone.
struct LentMemory {
  std::shared_ptr<Storage> storage;
  cotan_release_fn release = nullptr;
  void* context = nullptr;

  LentMemory() = default;
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;
  ~LentMemory() {
    storage.reset();
    if (release != nullptr) release(context);
  }
};

absl::StatusOr<DType> CheckedDType(cotan_dtype dtype) {
  if (dtype > COTAN_UNDEFINED && dtype < kNumDTypes) return static_cast<DType>(dtype);
  return absl::InvalidArgumentError(
      absl::StrCat("dtype is ", dtype, ", expected one of the enumerators COTAN_BOOL to COTAN_F8E5M2"));
}

absl::StatusOr<absl::Span<const int64_t>> CheckedSizes(int32_t rank, const int64_t* sizes) {
  if (rank < 0 || rank > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("rank is ", rank, ", expected 0 to ", kMaxRank));
  }
  if (rank > 0) COTAN_RETURN_IF_ERROR(CheckNotNull(sizes, "sizes"));
  return absl::MakeConstSpan(sizes, static_cast<size_t>(rank));
}

absl::StatusOr<size_t> CheckedBytes(DType dtype, absl::Span<const int64_t> sizes) {
  const int64_t bytes = DenseBytes(dtype, sizes);
  if (bytes >= 0) return static_cast<size_t>(bytes);
  return absl::InvalidArgumentError("a size is negative, or the tensor is too large");
}

absl::Status Create(cotan_dtype dtype_number, int32_t rank, const int64_t* sizes_data, const void* data, size_t bytes,
                    cotan_tensor** out) {
  COTAN_RETURN_IF_ERROR(CheckNotNull(out, "out"));
  COTAN_ASSIGN_OR_RETURN(const DType dtype, CheckedDType(dtype_number));
  COTAN_ASSIGN_OR_RETURN(const auto sizes, CheckedSizes(rank, sizes_data));
  COTAN_ASSIGN_OR_RETURN(const size_t expected, CheckedBytes(dtype, sizes));
  if (bytes != 0) COTAN_RETURN_IF_ERROR(CheckNotNull(data, "data"));
  if (data != nullptr && bytes != expected) {
    return absl::InvalidArgumentError(absl::StrCat("bytes is ", bytes, ", but the elements have ", expected, " bytes"));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, data == nullptr ? Tensor::Zeros(dtype, sizes) : Tensor::Empty(dtype, sizes));
  if (data != nullptr && bytes != 0) std::memcpy(tensor.address(), data, bytes);
  *out = new cotan_tensor{std::move(tensor)};
  return absl::OkStatus();
}

absl::StatusOr<StridedLayout> CheckedLayout(int32_t rank, const int64_t* sizes_data, const int64_t* strides) {
  COTAN_ASSIGN_OR_RETURN(const auto sizes, CheckedSizes(rank, sizes_data));
  StridedLayout layout;
  layout.sizes.assign(sizes.begin(), sizes.end());
  if (CheckedNumElements(sizes) < 0) {
    return absl::InvalidArgumentError("a size is negative, or the tensor is too large");
  }
  if (strides == nullptr) {
    layout.strides = ContiguousStrides(sizes);
  } else {
    layout.strides.assign(strides, strides + rank);
  }
  return layout;
}

absl::Status Borrow(cotan_dtype dtype_number, StridedLayout layout, void* data, size_t bytes, cotan_release_fn release,
                    void* context, cotan_tensor** out) {
  COTAN_RETURN_IF_ERROR(CheckNotNull(out, "out"));
  COTAN_ASSIGN_OR_RETURN(const DType dtype, CheckedDType(dtype_number));
  if (bytes != 0) COTAN_RETURN_IF_ERROR(CheckNotNull(data, "data"));
  auto lent = std::make_shared<LentMemory>();
  lent->storage = Storage::Borrow(HostDevice(), data, bytes);
  COTAN_ASSIGN_OR_RETURN(
      Tensor tensor, Tensor::InStorage(std::shared_ptr<Storage>(lent, lent->storage.get()), dtype, std::move(layout)));
  *out = new cotan_tensor{std::move(tensor)};
  lent->release = release;
  lent->context = context;
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::capi

using cotan::Tensor;
using cotan::capi::CheckNotNull;
using cotan::capi::Guarded;

cotan_status cotan_tensor_create(cotan_dtype dtype, int32_t rank, const int64_t* sizes, const void* data, size_t bytes,
                                 cotan_tensor** out) {
  return Guarded(__func__, [&] { return cotan::capi::Create(dtype, rank, sizes, data, bytes, out); });
}

cotan_status cotan_tensor_borrow(cotan_dtype dtype, int32_t rank, const int64_t* sizes, const int64_t* strides,
                                 void* data, size_t bytes, cotan_release_fn release, void* context,
                                 cotan_tensor** out) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_ASSIGN_OR_RETURN(cotan::StridedLayout layout, cotan::capi::CheckedLayout(rank, sizes, strides));
    return cotan::capi::Borrow(dtype, std::move(layout), data, bytes, release, context, out);
  });
}

void cotan_tensor_free(cotan_tensor* tensor) { delete tensor; }

cotan_status cotan_tensor_get_info(const cotan_tensor* tensor, cotan_tensor_info* info) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(tensor, "tensor"));
    const Tensor& value = tensor->tensor;
    const cotan::StridedLayout& layout = value.layout();
    const int64_t num_elements = value.num_elements();
    const bool has_address = num_elements > 0 && value.device().type() == cotan::DeviceType::kCpu;
    return cotan::capi::WriteStruct<cotan_tensor_info>({.struct_size = 0,
                                                        .dtype = static_cast<cotan_dtype>(value.dtype()),
                                                        .rank = layout.rank(),
                                                        .sizes = layout.sizes.data(),
                                                        .strides = layout.strides.data(),
                                                        .num_elements = num_elements,
                                                        .data = has_address ? value.address() : nullptr,
                                                        .is_contiguous = value.is_contiguous() ? 1 : 0},
                                                       cotan::capi::kFirstTensorInfo, "info", info);
  });
}

cotan_status cotan_tensor_read(const cotan_tensor* tensor, void* data, size_t bytes) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(tensor, "tensor"));
    COTAN_ASSIGN_OR_RETURN(const Tensor host, tensor->tensor.ToHost());
    const auto expected = static_cast<size_t>(cotan::DenseBytes(host.dtype(), host.sizes()));
    if (bytes != expected) {
      return absl::InvalidArgumentError(
          absl::StrCat("bytes is ", bytes, ", but the elements have ", expected, " bytes"));
    }
    if (bytes == 0) return absl::OkStatus();
    COTAN_RETURN_IF_ERROR(CheckNotNull(data, "data"));
    std::memcpy(data, host.address(), bytes);
    return absl::OkStatus();
  });
}
