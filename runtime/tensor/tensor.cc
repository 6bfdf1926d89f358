// SPDX-License-Identifier: Apache-2.0

#include "runtime/tensor/tensor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/api/pinned_memory.h"

namespace cotan {
namespace {

std::string TypeText(DType dtype, absl::Span<const int64_t> sizes) {
  return absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(sizes, ","), "]");
}

size_t AlignmentOf(DType dtype) { return IsComplex(dtype) ? ByteSize(dtype) / 2 : ByteSize(dtype); }

absl::Status CheckCount(DType dtype, absl::Span<const int64_t> sizes, size_t count) {
  if (dtype == DType::kUndefined) return absl::InvalidArgumentError("no dtype matches this C++ type");
  const int64_t needed = CheckedNumElements(sizes);
  if (needed >= 0 && static_cast<size_t>(needed) == count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a tensor ", TypeText(dtype, sizes), " does not have ", count, " elements"));
}

void CopyDimension(const char* from, const StridedLayout& from_layout, char* to, const StridedLayout& to_layout,
                   size_t element_size, int dim) {
  if (dim == from_layout.rank()) {
    std::memcpy(to, from, element_size);
    return;
  }
  const auto d = static_cast<size_t>(dim);
  const auto from_step = static_cast<size_t>(from_layout.strides[d]) * element_size;
  const auto to_step = static_cast<size_t>(to_layout.strides[d]) * element_size;
  const int64_t size = from_layout.sizes[d];
  if (dim + 1 == from_layout.rank() && from_step == element_size && to_step == element_size) {
    std::memcpy(to, from, static_cast<size_t>(size) * element_size);
    return;
  }
  for (int64_t i = 0; i < size; ++i, from += from_step, to += to_step) {
    CopyDimension(from, from_layout, to, to_layout, element_size, dim + 1);
  }
}

template <typename T>
void NegateAll(T* values, int64_t count, int64_t step) {
  for (int64_t i = 0; i < count; i += step) values[i] = -values[i];
}

// Applies the bits of `reading` to `count` dense elements on the host.
absl::Status Read(ConjNegBits reading, DType dtype, int64_t count, void* elements) {
  const int64_t parts = IsComplex(dtype) ? 2 * count : count;
  const bool is_double = dtype == DType::kFloat64 || dtype == DType::kComplex128;
  const bool is_float = dtype == DType::kFloat32 || dtype == DType::kComplex64;
  if (!is_double && !is_float) {
    return absl::UnimplementedError(absl::StrCat("a negative view of ", DTypeName(dtype), " cannot be copied"));
  }
  const auto negate = [&](int64_t first, int64_t step) {
    if (is_double) NegateAll(static_cast<double*>(elements) + first, parts - first, step);
    if (is_float) NegateAll(static_cast<float*>(elements) + first, parts - first, step);
  };
  if (reading.conjugate) negate(/*first=*/1, /*step=*/2);
  if (reading.negate) negate(0, 1);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Storage>> Storage::Allocate(Device& device, size_t bytes) {
  void* data = nullptr;
  if (bytes != 0) {
    COTAN_ASSIGN_OR_RETURN(data, device.Allocate(bytes));
  }
  return std::shared_ptr<Storage>(new Storage(device, data, bytes, /*owned=*/true));
}

absl::StatusOr<std::shared_ptr<Storage>> Storage::AllocatePinned(PinnedMemory& pinned, size_t bytes) {
  void* data = nullptr;
  if (bytes != 0) {
    COTAN_ASSIGN_OR_RETURN(data, pinned.AllocateHost(bytes));
  }
  return std::shared_ptr<Storage>(new Storage(HostDevice(), data, bytes, /*owned=*/true, &pinned));
}

std::shared_ptr<Storage> Storage::Borrow(Device& device, void* data, size_t bytes) {
  return std::shared_ptr<Storage>(new Storage(device, data, bytes, /*owned=*/false));
}

Storage::~Storage() {
  if (!owned_ || data_ == nullptr) return;
  if (pinned_ != nullptr) {
    pinned_->FreeHost(data_);
  } else {
    device_.Free(data_, bytes_);
  }
}

int64_t DenseBytes(DType dtype, absl::Span<const int64_t> sizes) {
  int64_t bytes = CheckedNumElements(sizes);
  if (bytes < 0 || __builtin_mul_overflow(bytes, static_cast<int64_t>(ByteSize(dtype)), &bytes)) return -1;
  return bytes;
}

void CopyStrided(const void* from, const StridedLayout& from_layout, void* to, const StridedLayout& to_layout,
                 size_t element_size) {
  if (NumElements(from_layout.sizes) == 0) return;
  CopyDimension(static_cast<const char*>(from), from_layout, static_cast<char*>(to), to_layout, element_size, 0);
}

absl::StatusOr<Tensor> Tensor::Empty(DType dtype, absl::Span<const int64_t> sizes, Device& device) {
  if (DenseBytes(dtype, sizes) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor ", TypeText(dtype, sizes), " has a negative size or too many elements"));
  }
  StridedLayout layout;
  layout.sizes.assign(sizes.begin(), sizes.end());
  layout.strides = ContiguousStrides(sizes);
  return EmptyStrided(dtype, std::move(layout), device);
}

absl::StatusOr<Tensor> Tensor::EmptyStrided(DType dtype, StridedLayout layout, Device& device) {
  if (dtype == DType::kUndefined) return absl::InvalidArgumentError("a tensor needs a dtype");
  const size_t bytes = static_cast<size_t>(StorageExtent(layout)) * ByteSize(dtype);
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, Storage::Allocate(device, bytes));
  return Tensor(std::move(storage), dtype, std::move(layout));
}

absl::StatusOr<Tensor> Tensor::Zeros(DType dtype, absl::Span<const int64_t> sizes) {
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Empty(dtype, sizes));
  if (tensor.storage_->bytes() != 0) std::memset(tensor.storage_->data(), 0, tensor.storage_->bytes());
  return tensor;
}

absl::StatusOr<Tensor> Tensor::FromBytes(DType dtype, const void* values, size_t count,
                                         absl::Span<const int64_t> sizes) {
  COTAN_RETURN_IF_ERROR(CheckCount(dtype, sizes, count));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Empty(dtype, sizes));
  if (count != 0) std::memcpy(tensor.address(), values, count * ByteSize(dtype));
  return tensor;
}

absl::StatusOr<Tensor> Tensor::BorrowBytes(DType dtype, void* values, size_t count, absl::Span<const int64_t> sizes) {
  COTAN_RETURN_IF_ERROR(CheckCount(dtype, sizes, count));
  StridedLayout layout;
  layout.sizes.assign(sizes.begin(), sizes.end());
  layout.strides = ContiguousStrides(sizes);
  return InStorage(Storage::Borrow(HostDevice(), values, count * ByteSize(dtype)), dtype, std::move(layout));
}

absl::StatusOr<Tensor> Tensor::InStorage(std::shared_ptr<Storage> storage, DType dtype, StridedLayout layout) {
  if (dtype == DType::kUndefined) return absl::InvalidArgumentError("a tensor needs a dtype");
  const size_t element = ByteSize(dtype);
  bool fits =
      layout.sizes.size() == layout.strides.size() && CheckedNumElements(layout.sizes) >= 0 && layout.offset >= 0;
  const auto capacity = static_cast<int64_t>(storage->bytes() / element);
  int64_t last = layout.offset;  // grows to the index of the last element
  for (size_t i = 0; fits && i < layout.sizes.size(); ++i) {
    int64_t step = 0;
    fits = layout.strides[i] >= 0 &&
           !__builtin_mul_overflow(layout.strides[i], std::max<int64_t>(layout.sizes[i] - 1, 0), &step) &&
           !__builtin_add_overflow(last, step, &last);
  }
  fits = fits && (NumElements(layout.sizes) == 0 || last < capacity);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("the geometry ", cotan::ToString(layout), " of ", DTypeName(dtype),
                                                   " leaves a storage of ", storage->bytes(), " bytes"));
  }
  if (reinterpret_cast<uintptr_t>(storage->data()) % AlignmentOf(dtype) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory of a ", DTypeName(dtype), " tensor must be aligned to ", AlignmentOf(dtype), " bytes"));
  }
  return Tensor(std::move(storage), dtype, std::move(layout));
}

Tensor Tensor::WithConjNegBits(ConjNegBits reading) const {
  Tensor read = *this;
  read.reading_ = reading;
  if (!IsComplex(dtype_)) read.reading_.conjugate = false;
  return read;
}

void* Tensor::address() const {
  if (!defined() || storage_->data() == nullptr) return nullptr;
  return static_cast<char*>(storage_->data()) + static_cast<size_t>(layout_.offset) * ByteSize(dtype_);
}

absl::Status Tensor::CheckElementType(DType expected) const {
  if (defined() && dtype_ == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("elements of ", ToString(), " are not ",
                   expected == DType::kUndefined ? "of this C++ type" : DTypeName(expected)));
}

absl::StatusOr<Tensor> Tensor::Clone() const {
  if (!defined()) return absl::InvalidArgumentError("an undefined tensor cannot be copied");
  if (device().type() != DeviceType::kCpu && (!is_plain() || !is_contiguous())) {
    COTAN_ASSIGN_OR_RETURN(const Tensor host, ToHost());
    return host.ToDevice(device());
  }
  if (!is_plain()) {
    COTAN_ASSIGN_OR_RETURN(Tensor copy, WithConjNegBits({}).Clone());
    COTAN_RETURN_IF_ERROR(Read(reading_, dtype_, copy.num_elements(), copy.address()));
    return copy;
  }
  COTAN_ASSIGN_OR_RETURN(Tensor copy, Empty(dtype_, layout_.sizes, device()));
  if (copy.storage_->bytes() == 0) return copy;
  if (is_contiguous()) {
    COTAN_RETURN_IF_ERROR(device().Copy(copy.address(), address(), copy.storage_->bytes()));
    return copy;
  }
  CopyStrided(address(), layout_, copy.address(), copy.layout_, ByteSize(dtype_));
  return copy;
}

absl::StatusOr<Tensor> Tensor::ResolveConjNeg() const {
  if (is_plain()) return *this;
  return Clone();
}

absl::StatusOr<Tensor> Tensor::Contiguous() const {
  if (defined() && is_contiguous() && is_plain()) return *this;
  return Clone();
}

absl::StatusOr<Tensor> Tensor::ToHost() const {
  if (!defined() || device().type() == DeviceType::kCpu) return Contiguous();
  // Copies all bytes between the first and the last element, in the tensor's own layout.
  StridedLayout layout = layout_;
  layout.offset = 0;
  COTAN_ASSIGN_OR_RETURN(Tensor host, EmptyStrided(dtype_, layout));
  if (host.storage_->bytes() != 0) {
    COTAN_RETURN_IF_ERROR(device().CopyToHost(host.address(), address(), host.storage_->bytes()));
  }
  return host.WithConjNegBits(reading_).Contiguous();
}

absl::StatusOr<Tensor> Tensor::ToDevice(Device& device) const {
  if (!defined()) return absl::InvalidArgumentError("an undefined tensor cannot be copied");
  if (&this->device() == &device) return Contiguous();
  COTAN_ASSIGN_OR_RETURN(const Tensor host, ToHost());
  if (device.type() == DeviceType::kCpu) return host;
  COTAN_ASSIGN_OR_RETURN(Tensor copy, Empty(dtype_, layout_.sizes, device));
  if (copy.storage_->bytes() != 0) {
    COTAN_RETURN_IF_ERROR(device.CopyFromHost(copy.address(), host.address(), copy.storage_->bytes()));
  }
  return copy;
}

std::string Tensor::ToString() const {
  if (!defined()) return "undefined";
  std::string text = TypeText(dtype_, layout_.sizes);
  if (device().type() != DeviceType::kCpu) absl::StrAppend(&text, " ", DeviceTypeName(device().type()));
  if (reading_.conjugate) absl::StrAppend(&text, " conjugate");
  if (reading_.negate) absl::StrAppend(&text, " negative");
  return text;
}

}  // namespace cotan
