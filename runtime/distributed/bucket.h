// SPDX-License-Identifier: Apache-2.0

// A list of tensors as consecutive elements.
#ifndef COTAN_RUNTIME_DISTRIBUTED_BUCKET_H_
#define COTAN_RUNTIME_DISTRIBUTED_BUCKET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/api/kernel.h"

namespace cotan {

// The layout of a bucket (Collective in program.proto): the tensors one after another, each in row-major order.
class Bucket {
 public:
  // InvalidArgument: there are no tensors, or their dtypes differ. Unimplemented: the dtype is not f32 or f64.
  static absl::StatusOr<Bucket> Of(absl::Span<const TensorSpec> tensors);

  DType dtype() const { return dtype_; }
  int64_t elements() const { return elements_; }
  // Returns the elements of one of `count` equal shards, of which the last ones may be padded.
  int64_t ShardElements(int count) const { return (elements_ + count - 1) / count; }

  // Copies all tensors to the bucket, or from it. `tensors` has the address of each.
  void Pack(void* const* tensors, char* bucket) const;
  void Unpack(const char* bucket, void* const* tensors) const;

  // Copies elements [first, first + count) of the bucket, as far as there are so many, to `part`. `scratch` has
  // scratch_bytes().
  void PackPart(void* const* tensors, int64_t first, int64_t count, char* part, void* scratch) const;
  // Returns the bytes of the largest tensor that is not row-major.
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  struct Member {
    StridedLayout layout;
    StridedLayout row_major;
    int64_t elements = 0;
    size_t bytes = 0;
    bool is_row_major = false;
  };

  DType dtype_ = DType::kUndefined;
  int64_t elements_ = 0;
  size_t scratch_bytes_ = 0;
  std::vector<Member> members_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_BUCKET_H_
