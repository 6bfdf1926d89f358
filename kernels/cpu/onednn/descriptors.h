// SPDX-License-Identifier: Apache-2.0

// Descriptors of memory and of primitives, in one interface for oneDNN 2 (Debian 12) and 3 (Debian 13): in version 2 a
// memory descriptor is a struct and a primitive descriptor is made from an operation descriptor; in version 3 memory
// descriptors are handles and operation descriptors do not exist.
#ifndef COTAN_KERNELS_CPU_ONEDNN_DESCRIPTORS_H_
#define COTAN_KERNELS_CPU_ONEDNN_DESCRIPTORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "dnnl.h"
#include "kernels/cpu/onednn/handles.h"

namespace cotan::cpu::onednn {

#if DNNL_VERSION_MAJOR >= 3
using MemoryHandle = const_dnnl_memory_desc_t;
#else
using MemoryHandle = const dnnl_memory_desc_t*;
#endif

// Returns the major version of oneDNN: 2 or 3.
int MajorVersion();

// Dtype, sizes and layout of an operand. Copies are cheap and share the descriptor, which does not change.
class MemoryLayout {
 public:
  MemoryLayout() = default;
  explicit MemoryLayout(std::shared_ptr<std::remove_pointer_t<MemoryHandle>> handle) : handle_(std::move(handle)) {}

  // Returns null for a default-constructed layout. Valid as long as a copy of this layout exists.
  MemoryHandle handle() const { return handle_.get(); }

  size_t bytes() const { return dnnl_memory_desc_get_size(handle()); }

  friend bool operator==(const MemoryLayout& a, const MemoryLayout& b) {
    return dnnl_memory_desc_equal(a.handle(), b.handle()) != 0;
  }

 private:
  std::shared_ptr<std::remove_pointer_t<MemoryHandle>> handle_;
};

// Returns oneDNN's data type for f32, bf16, i32, i8 or u8.
// Unimplemented: any other dtype; the message names it.
absl::StatusOr<dnnl_data_type_t> DataType(DType dtype);

// Returns the layout of a strided operand of 1 to 12 dimensions. Strides count elements. No size and no
// stride is 0.
// Unimplemented: more than 12 dimensions, or a dtype that DataType() does not accept.
absl::StatusOr<MemoryLayout> StridedMemory(DType dtype, absl::Span<const int64_t> sizes,
                                           absl::Span<const int64_t> strides);

// Returns a layout that the primitive chooses (dnnl_format_tag_any). Errors: see StridedMemory().
absl::StatusOr<MemoryLayout> AnyMemory(DType dtype, absl::Span<const int64_t> sizes);

// Returns the layout of the first `count` indices of the first dimension of `whole`.
// Unimplemented: `whole` does not store that dimension index by index.
absl::StatusOr<MemoryLayout> FirstIndices(const MemoryLayout& whole, int64_t count);

// Returns the layout that the primitive chose for an operand; `what` is dnnl_query_src_md or another
// dnnl_query_..._md.
absl::StatusOr<MemoryLayout> ChosenMemory(const_dnnl_primitive_desc_t desc, dnnl_query_t what);

// Returns attributes with user-scratchpad mode. With `accumulate` the primitive adds its result to the
// destination (post-op sum).
absl::StatusOr<OwnedAttr> MakeAttr(bool accumulate = false);

// Returns true for the name of an implementation that may be chosen.
using NameFilter = absl::FunctionRef<bool(absl::string_view name)>;

// Returns the descriptor of the product of matrices (or batches of them) `a` and `b`: the first of oneDNN's
// implementations for whose name `is_usable` returns true. `bias` may have no handle.
// Unimplemented: there is no (usable) implementation. Other errors: see ToStatus().
absl::StatusOr<OwnedDesc> MakeMatmulDesc(const MemoryLayout& a, const MemoryLayout& b, const MemoryLayout& bias,
                                         const MemoryLayout& c, const_dnnl_primitive_attr_t attr, NameFilter is_usable);

// A convolution: operands in any of its three products, and steps per spatial dimension; dilation 0 is dense.
struct ConvolutionDesc {
  MemoryLayout source;
  MemoryLayout weights;
  MemoryLayout destination;
  MemoryLayout bias;  // of the forward product, or none
  absl::Span<const int64_t> stride;
  absl::Span<const int64_t> dilation;
  absl::Span<const int64_t> padding_before;
  absl::Span<const int64_t> padding_after;
};

// Returns the descriptor of the forward product. Implementations and errors: see MakeMatmulDesc().
absl::StatusOr<OwnedDesc> MakeConvolutionForwardDesc(const ConvolutionDesc& convolution,
                                                     const_dnnl_primitive_attr_t attr, NameFilter is_usable);

// Returns the descriptor of the gradient of the source or of the weights. `forward` is the hint that oneDNN asks for.
// Implementations and errors: see MakeMatmulDesc().
absl::StatusOr<OwnedDesc> MakeConvolutionBackwardDataDesc(const ConvolutionDesc& convolution,
                                                          const_dnnl_primitive_attr_t attr,
                                                          const_dnnl_primitive_desc_t forward, NameFilter is_usable);
absl::StatusOr<OwnedDesc> MakeConvolutionBackwardWeightsDesc(const ConvolutionDesc& convolution,
                                                             const_dnnl_primitive_attr_t attr,
                                                             const_dnnl_primitive_desc_t forward, NameFilter is_usable);

// Returns the name of the implementation that oneDNN chose, for instance "brgconv:avx512_core" or "ref:any".
absl::string_view ImplementationName(const_dnnl_primitive_desc_t desc);

// Returns the rank of that implementation by its name: 0 for dedicated code, 1 for code built on a matrix
// product, 2 for reference loops, which are about 100 times slower.
int ImplementationRank(const_dnnl_primitive_desc_t desc);

}  // namespace cotan::cpu::onednn

#endif  // COTAN_KERNELS_CPU_ONEDNN_DESCRIPTORS_H_
