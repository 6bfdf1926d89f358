// SPDX-License-Identifier: Apache-2.0

// The runtime's tensors: strided views of shared storage on a device.
#ifndef COTAN_RUNTIME_TENSOR_TENSOR_H_
#define COTAN_RUNTIME_TENSOR_TENSOR_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/device.h"

namespace cotan {

// Returns the dtype whose elements have the C++ type T; kUndefined if there is none. The floats of 8 and
// 16 bits have no C++ type.
template <typename T>
constexpr DType DTypeOf() {
  if (std::is_same_v<T, bool>) return DType::kBool;
  if (std::is_same_v<T, uint8_t>) return DType::kUInt8;
  if (std::is_same_v<T, int8_t>) return DType::kInt8;
  if (std::is_same_v<T, int16_t>) return DType::kInt16;
  if (std::is_same_v<T, int32_t>) return DType::kInt32;
  if (std::is_same_v<T, int64_t>) return DType::kInt64;
  if (std::is_same_v<T, float>) return DType::kFloat32;
  if (std::is_same_v<T, double>) return DType::kFloat64;
  if (std::is_same_v<T, std::complex<float>>) return DType::kComplex64;
  if (std::is_same_v<T, std::complex<double>>) return DType::kComplex128;
  return DType::kUndefined;
}

// A block of memory shared by tensors and freed with the last of them. The device outlives the storage. The
// block never moves.
class Storage {
 public:
  // Allocates `bytes` bytes on `device` with undefined content; no memory if `bytes` is 0.
  // ResourceExhausted: the device has not enough memory.
  static absl::StatusOr<std::shared_ptr<Storage>> Allocate(Device& device, size_t bytes);
  // Allocates `bytes` bytes of a device's pinned memory, which outlives the storage, with undefined content. Its
  // device() is the host; what the device has queued is in it after pinned()->device().Synchronize().
  // ResourceExhausted: the host has not enough memory.
  static absl::StatusOr<std::shared_ptr<Storage>> AllocatePinned(PinnedMemory& pinned, size_t bytes);
  // Wraps memory that the caller owns and that outlives the storage.
  static std::shared_ptr<Storage> Borrow(Device& device, void* data, size_t bytes);

  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device& device() const { return device_; }
  // Returns the memory that AllocatePinned() took it from; null for other storages.
  PinnedMemory* pinned() const { return pinned_; }

 private:
  Storage(Device& device, void* data, size_t bytes, bool owned, PinnedMemory* pinned = nullptr)
      : device_(device), pinned_(pinned), data_(data), bytes_(bytes), owned_(owned) {}

  Device& device_;
  PinnedMemory* pinned_;
  void* data_;
  size_t bytes_;
  bool owned_;
};

// Conjugate and negative bits: how the elements of a tensor follow from the numbers in its memory. Equal to
// ATen's is_conj() and is_neg().
struct ConjNegBits {
  bool conjugate = false;
  bool negate = false;

  bool is_plain() const { return !conjugate && !negate; }
  // Composes two pairs of bits; also the bits that lead from one pair to the other.
  friend ConjNegBits operator^(ConjNegBits a, ConjNegBits b) {
    return {a.conjugate != b.conjugate, a.negate != b.negate};
  }
  friend bool operator==(ConjNegBits, ConjNegBits) = default;
};

// A handle: copies share one storage. A default-constructed tensor is undefined: it has no storage and no
// dtype. Handles may be copied and destroyed on any thread; the caller synchronizes access to the elements.
class Tensor {
 public:
  Tensor() = default;

  // Returns a row-major tensor with undefined content.
  // InvalidArgument: `dtype` is undefined, or a size is negative or too large.
  // ResourceExhausted: the device has not enough memory.
  static absl::StatusOr<Tensor> Empty(DType dtype, absl::Span<const int64_t> sizes, Device& device = HostDevice());
  // Returns a tensor of the given layout, with undefined content, in a storage that is just large enough. The
  // layout's extent in bytes fits int64. Errors as Empty().
  static absl::StatusOr<Tensor> EmptyStrided(DType dtype, StridedLayout layout, Device& device = HostDevice());
  // Returns a row-major tensor on the host, filled with zero bytes. Errors as Empty().
  static absl::StatusOr<Tensor> Zeros(DType dtype, absl::Span<const int64_t> sizes);

  // Returns a row-major tensor on the host with a copy of `values`.
  // InvalidArgument: as Empty(), or values.size() is not the product of the sizes.
  template <typename T>
  static absl::StatusOr<Tensor> From(absl::Span<const T> values, absl::Span<const int64_t> sizes) {
    return FromBytes(DTypeOf<T>(), values.data(), values.size(), sizes);
  }
  // Returns a 0-d tensor on the host.
  template <typename T>
  static absl::StatusOr<Tensor> Scalar(T value) {
    return FromBytes(DTypeOf<T>(), &value, 1, {});
  }

  // Returns a row-major tensor over the caller's host memory, which outlives the tensor. Copies nothing.
  // InvalidArgument: as From(), or `values` is not aligned for the dtype.
  template <typename T>
  static absl::StatusOr<Tensor> Borrow(absl::Span<T> values, absl::Span<const int64_t> sizes) {
    return BorrowBytes(DTypeOf<T>(), values.data(), values.size(), sizes);
  }

  // Returns a tensor of the given layout over `storage`.
  // InvalidArgument: `dtype` is undefined, the layout exceeds the storage, or the memory is not aligned for
  // the dtype.
  static absl::StatusOr<Tensor> InStorage(std::shared_ptr<Storage> storage, DType dtype, StridedLayout layout);

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  const StridedLayout& layout() const { return layout_; }
  absl::Span<const int64_t> sizes() const { return layout_.sizes; }
  int64_t num_elements() const { return NumElements(layout_.sizes); }
  bool is_contiguous() const { return IsContiguous(layout_); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  // Requires defined().
  Device& device() const { return storage_->device(); }

  // Returns true if neither bit is set, so that the numbers in memory are the elements. Only such tensors are
  // read and written by address.
  bool is_plain() const { return reading_.is_plain(); }
  ConjNegBits reading() const { return reading_; }
  // Returns a view of the same memory with these bits; `conjugate` is ignored unless the dtype is complex.
  Tensor WithConjNegBits(ConjNegBits reading) const;

  // Returns the device address of element (0, ..., 0); null if the tensor is undefined or has no memory.
  void* address() const;
  // Returns address() as a pointer to T; null if the tensor is not on the host, has not T's dtype, or has a
  // conjugate or negative bit.
  template <typename T>
  T* data() const {
    return defined() && dtype_ == DTypeOf<T>() && device().type() == DeviceType::kCpu && is_plain()
               ? static_cast<T*>(address())
               : nullptr;
  }

  // Returns the elements in row-major order.
  // InvalidArgument: the tensor is undefined, or T does not match the dtype. Other errors as Clone().
  template <typename T>
  absl::StatusOr<std::vector<T>> ToVector() const;
  // Returns the only element. Errors as ToVector(); InvalidArgument also if the tensor has not exactly one
  // element.
  template <typename T>
  absl::StatusOr<T> Item() const;

  // Returns a row-major copy in its own memory on the same device, without conjugate and negative bits. A strided
  // tensor of another device than the host is copied by way of the host.
  // InvalidArgument: the tensor is undefined.
  // Unimplemented: the tensor has a conjugate or negative bit and its dtype is not f32, f64, c64 or c128.
  // ResourceExhausted: the device has not enough memory.
  absl::StatusOr<Tensor> Clone() const;
  // Returns this tensor if is_plain(), else Clone(). Errors as Clone().
  absl::StatusOr<Tensor> ResolveConjNeg() const;
  // Returns this tensor if it is row-major and is_plain(), else Clone(). Errors as Clone().
  absl::StatusOr<Tensor> Contiguous() const;
  // Returns a row-major copy on the host, or this tensor if it already is row-major on the host. Errors as
  // Clone().
  absl::StatusOr<Tensor> ToHost() const;

  // Returns a row-major copy on `device`, or this tensor if it already is row-major there. Errors as Clone().
  absl::StatusOr<Tensor> ToDevice(Device& device) const;

  // Returns a description such as "f32[2,3]", "f32[2,3] cuda" or "undefined".
  std::string ToString() const;

 private:
  Tensor(std::shared_ptr<Storage> storage, DType dtype, StridedLayout layout)
      : storage_(std::move(storage)), layout_(std::move(layout)), dtype_(dtype) {}

  static absl::StatusOr<Tensor> FromBytes(DType dtype, const void* values, size_t count,
                                          absl::Span<const int64_t> sizes);
  static absl::StatusOr<Tensor> BorrowBytes(DType dtype, void* values, size_t count, absl::Span<const int64_t> sizes);
  absl::Status CheckElementType(DType expected) const;

  std::shared_ptr<Storage> storage_;
  StridedLayout layout_;
  DType dtype_ = DType::kUndefined;
  ConjNegBits reading_;
};

// Returns the bytes of a dense tensor; -1 if a size is negative or the product exceeds int64.
int64_t DenseBytes(DType dtype, absl::Span<const int64_t> sizes);

// Copies elements of `element_size` bytes between host tensors of equal sizes whose memory does not overlap.
void CopyStrided(const void* from, const StridedLayout& from_layout, void* to, const StridedLayout& to_layout,
                 size_t element_size);

template <typename T>
absl::StatusOr<std::vector<T>> Tensor::ToVector() const {
  COTAN_RETURN_IF_ERROR(CheckElementType(DTypeOf<T>()));
  COTAN_ASSIGN_OR_RETURN(const Tensor host, ToHost());
  const T* values = host.data<T>();
  return std::vector<T>(values, values + host.num_elements());
}

template <typename T>
absl::StatusOr<T> Tensor::Item() const {
  COTAN_RETURN_IF_ERROR(CheckElementType(DTypeOf<T>()));
  if (num_elements() != 1) {
    return absl::InvalidArgumentError("Item() requires a tensor with one element, got " + ToString());
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor host, ToHost());
  return *host.data<T>();
}

}  // namespace cotan

#endif  // COTAN_RUNTIME_TENSOR_TENSOR_H_
