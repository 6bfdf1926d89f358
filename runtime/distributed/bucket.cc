// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/bucket.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

absl::StatusOr<Bucket> Bucket::Of(absl::Span<const TensorSpec> tensors) {
  if (tensors.empty()) return absl::InvalidArgumentError("the collective has no tensors");
  Bucket bucket;
  bucket.dtype_ = tensors[0].dtype;
  if (bucket.dtype_ != DType::kFloat32 && bucket.dtype_ != DType::kFloat64) {
    return absl::UnimplementedError(
        absl::StrCat("collectives of ", DTypeName(bucket.dtype_), " are not supported, only f32 and f64"));
  }
  for (const TensorSpec& tensor : tensors) {
    if (tensor.dtype != bucket.dtype_) {
      return absl::InvalidArgumentError(absl::StrCat("the collective has tensors of ", DTypeName(bucket.dtype_),
                                                     " and of ", DTypeName(tensor.dtype)));
    }
    const int64_t size = NumElements(tensor.layout.sizes);
    if (__builtin_add_overflow(bucket.elements_, size, &bucket.elements_)) {
      return absl::InvalidArgumentError("the collective's tensors have more elements than 64 bits count");
    }
    Member member = {.layout = tensor.layout,
                     .row_major = {tensor.layout.sizes, ContiguousStrides(tensor.layout.sizes), 0},
                     .elements = size,
                     .bytes = static_cast<size_t>(size) * ByteSize(tensor.dtype),
                     .is_row_major = IsContiguous(tensor.layout)};
    if (!member.is_row_major) bucket.scratch_bytes_ = std::max(bucket.scratch_bytes_, member.bytes);
    bucket.members_.push_back(std::move(member));
  }
  return bucket;
}

void Bucket::Pack(void* const* tensors, char* bucket) const {
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.is_row_major && member.bytes != 0) std::memcpy(bucket, tensors[i], member.bytes);
    if (!member.is_row_major) CopyStrided(tensors[i], member.layout, bucket, member.row_major, ByteSize(dtype_));
    bucket += member.bytes;
  }
}

void Bucket::Unpack(const char* bucket, void* const* tensors) const {
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.is_row_major && member.bytes != 0) std::memcpy(tensors[i], bucket, member.bytes);
    if (!member.is_row_major) CopyStrided(bucket, member.row_major, tensors[i], member.layout, ByteSize(dtype_));
    bucket += member.bytes;
  }
}

void Bucket::PackPart(void* const* tensors, int64_t first, int64_t count, char* part, void* scratch) const {
  const size_t size = ByteSize(dtype_);
  int64_t start = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const int64_t from = std::max(first, start);
    const int64_t to = std::min(first + count, start + member.elements);
    if (from < to) {
      const void* source = tensors[i];
      if (!member.is_row_major) {
        CopyStrided(source, member.layout, scratch, member.row_major, size);
        source = scratch;
      }
      std::memcpy(part + static_cast<size_t>(from - first) * size,
                  static_cast<const char*>(source) + static_cast<size_t>(from - start) * size,
                  static_cast<size_t>(to - from) * size);
    }
    start += member.elements;
  }
}

}  // namespace cotan
