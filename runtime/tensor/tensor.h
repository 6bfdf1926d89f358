// The runtime's tensors: strided views of shared memory on a device.
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

// The dtype whose elements are C++'s T; kUndefined if there is none (f16 and
// bf16 have no C++ type).
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

// A block of memory that tensors share; freed with the last of them. Its
// device outlives it. The block never moves.
class Storage {
 public:
  // `bytes` of memory of `device`, content undefined; no memory if 0.
  // ResourceExhausted: from the device.
  static absl::StatusOr<std::shared_ptr<Storage>> Allocate(Device& device, size_t bytes);
  // Memory that belongs to the caller and outlives the storage.
  static std::shared_ptr<Storage> Borrow(Device& device, void* data, size_t bytes);

  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device& device() const { return device_; }

 private:
  Storage(Device& device, void* data, size_t bytes, bool owned)
      : device_(device), data_(data), bytes_(bytes), owned_(owned) {}

  Device& device_;
  void* data_;
  size_t bytes_;
  bool owned_;
};

// How the elements of a tensor follow from what is in its memory: by views that
// conjugate complex numbers or negate.
struct ConjNegBits {
  bool conjugate = false;
  bool negate = false;

  bool is_plain() const { return !conjugate && !negate; }
  // One reading after another; what leads from one to another.
  friend ConjNegBits operator^(ConjNegBits a, ConjNegBits b) {
    return {a.conjugate != b.conjugate, a.negate != b.negate};
  }
  friend bool operator==(ConjNegBits, ConjNegBits) = default;
};

// A handle: copies see the same memory. The default one is undefined: it has
// no storage and no dtype. Handles may be copied and destroyed on any thread;
// access to the elements needs the caller's own order.
class Tensor {
 public:
  Tensor() = default;

  // Row-major, content undefined.
  // InvalidArgument: undefined dtype, negative or too large sizes.
  // ResourceExhausted: from the device.
  static absl::StatusOr<Tensor> Empty(DType dtype, absl::Span<const int64_t> sizes, Device& device = HostDevice());
  // As Empty(), with the given geometry in a storage just large enough. The
  // layout's extent in bytes is at most that of int64.
  static absl::StatusOr<Tensor> EmptyStrided(DType dtype, StridedLayout layout, Device& device = HostDevice());
  // Row-major on the host, filled with zero bytes.
  static absl::StatusOr<Tensor> Zeros(DType dtype, absl::Span<const int64_t> sizes);

  // A copy of `values`, row-major, on the host.
  // InvalidArgument: as Empty(), or values.size() is not the sizes' product.
  template <typename T>
  static absl::StatusOr<Tensor> From(absl::Span<const T> values, absl::Span<const int64_t> sizes) {
    return FromBytes(DTypeOf<T>(), values.data(), values.size(), sizes);
  }
  // A 0-d tensor on the host.
  template <typename T>
  static absl::StatusOr<Tensor> Scalar(T value) {
    return FromBytes(DTypeOf<T>(), &value, 1, {});
  }

  // A row-major tensor in the caller's host memory, which outlives it; nothing
  // is copied. InvalidArgument: as From(), or `values` is not aligned.
  template <typename T>
  static absl::StatusOr<Tensor> Borrow(absl::Span<T> values, absl::Span<const int64_t> sizes) {
    return BorrowBytes(DTypeOf<T>(), values.data(), values.size(), sizes);
  }

  // Other geometry over the same storage.
  // InvalidArgument: it leaves the storage, or the memory is not aligned for
  // the dtype.
  static absl::StatusOr<Tensor> InStorage(std::shared_ptr<Storage> storage, DType dtype, StridedLayout layout);

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  const StridedLayout& layout() const { return layout_; }
  absl::Span<const int64_t> sizes() const { return layout_.sizes; }
  int64_t num_elements() const { return NumElements(layout_.sizes); }
  bool is_contiguous() const { return IsContiguous(layout_); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  // If defined().
  Device& device() const { return storage_->device(); }

  // Whether the elements are what is in memory. Only such tensors are read and
  // written by address.
  bool is_plain() const { return reading_.is_plain(); }
  ConjNegBits reading() const { return reading_; }
  // The same memory read another way; numbers that are not complex are their own
  // conjugates.
  Tensor WithConjNegBits(ConjNegBits reading) const;

  // Address of element (0, ..., 0) on the device; null if undefined or without
  // memory.
  void* address() const;
  // The same for T's dtype on the host; null for any other dtype or device, or if
  // it is not plain.
  template <typename T>
  T* data() const {
    return defined() && dtype_ == DTypeOf<T>() && device().type() == DeviceType::kCpu && is_plain()
               ? static_cast<T*>(address())
               : nullptr;
  }

  // The elements in row-major order.
  // InvalidArgument: undefined, or T is not of the dtype. ResourceExhausted.
  template <typename T>
  absl::StatusOr<std::vector<T>> ToVector() const;
  // The only element. Errors as ToVector(), and if there is not just one.
  template <typename T>
  absl::StatusOr<T> Item() const;

  // A row-major copy in memory of its own, on the same device, plain.
  // InvalidArgument: undefined. Unimplemented: strided memory of a device other
  // than the host, or memory of it that is not plain. ResourceExhausted.
  absl::StatusOr<Tensor> Clone() const;
  // This tensor if it is plain, else Clone(). Errors as Clone().
  absl::StatusOr<Tensor> ResolveConjNeg() const;
  // This tensor if it is row-major and plain, else Clone().
  absl::StatusOr<Tensor> Contiguous() const;
  // A row-major copy on the host, or this tensor if it is one. Errors as Clone().
  absl::StatusOr<Tensor> ToHost() const;

  // "f32[2,3]", "f32[2,3] cuda", "undefined".
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

// Bytes of a dense tensor; -1 if a size is negative or the product exceeds
// int64.
int64_t DenseBytes(DType dtype, absl::Span<const int64_t> sizes);

// Copies elements of `element_size` bytes between host tensors of equal sizes.
// Ranges do not overlap.
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
    return absl::InvalidArgumentError("Item() needs a tensor of one element, this is " + ToString());
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor host, ToHost());
  return *host.data<T>();
}

}  // namespace cotan

#endif  // COTAN_RUNTIME_TENSOR_TENSOR_H_
