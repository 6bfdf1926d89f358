// SPDX-License-Identifier: Apache-2.0

// A thin wrapper of oneDNN's C interface: owning handles, errors as absl::Status with the text of the failed
// call, and a primitive as a Kernel. The C interface is used because it works without exceptions.
//
// oneDNN makes a few small heap allocations (the argument table) in every execution. Its large temporaries
// are in the kernel's scratch: primitives run in user-scratchpad mode.
#ifndef COTAN_KERNELS_CPU_ONEDNN_PRIMITIVE_H_
#define COTAN_KERNELS_CPU_ONEDNN_PRIMITIVE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "dnnl.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu::onednn {

// Converts a status of oneDNN; the message has the text `call` and oneDNN's name of the error.
// Unimplemented: oneDNN does not implement the operation. ResourceExhausted: out of memory. Internal: any
// other error.
absl::Status ToStatus(dnnl_status_t status, absl::string_view call);

// Evaluates `call` and returns its error, if any, from the enclosing function.
#define COTAN_RETURN_IF_DNNL_ERROR(call) COTAN_RETURN_IF_ERROR(::cotan::cpu::onednn::ToStatus(call, #call))

// Deletes a oneDNN object by the function for its type.
struct Deleter {
  void operator()(dnnl_engine_t object) const { dnnl_engine_destroy(object); }
  void operator()(dnnl_stream_t object) const { dnnl_stream_destroy(object); }
  void operator()(dnnl_memory_t object) const { dnnl_memory_destroy(object); }
  void operator()(dnnl_primitive_t object) const { dnnl_primitive_destroy(object); }
  void operator()(dnnl_primitive_desc_iterator_t object) const { dnnl_primitive_desc_iterator_destroy(object); }
  void operator()(dnnl_primitive_desc_t object) const { dnnl_primitive_desc_destroy(object); }
  void operator()(dnnl_primitive_attr_t object) const { dnnl_primitive_attr_destroy(object); }
  void operator()(dnnl_post_ops_t object) const { dnnl_post_ops_destroy(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Deleter>;
using OwnedDesc = Owned<dnnl_primitive_desc>;
using OwnedAttr = Owned<dnnl_primitive_attr>;

// Returns the CPU engine, which is created on first use and never destroyed. Thread-safe.
absl::StatusOr<dnnl_engine_t> CpuEngine();

// Returns oneDNN's data type for f32, bf16, i32, i8 or u8.
// Unimplemented: any other dtype; the message names it.
absl::StatusOr<dnnl_data_type_t> DataType(DType dtype);

// Returns true if this processor multiplies matrices of `dtype` natively: f32 always, bf16 with AVX512_BF16
// or AMX.
bool HasFast(DType dtype);

// Returns the descriptor of a strided operand of 1 to 12 dimensions. Strides count elements. No size and no
// stride is 0.
// Unimplemented: more than 12 dimensions, or a dtype that DataType() does not accept.
absl::StatusOr<dnnl_memory_desc_t> StridedMemory(DType dtype, absl::Span<const int64_t> sizes,
                                                 absl::Span<const int64_t> strides);
// Returns a descriptor whose layout the primitive chooses (dnnl_format_tag_any). Errors: see StridedMemory().
absl::StatusOr<dnnl_memory_desc_t> AnyMemory(DType dtype, absl::Span<const int64_t> sizes);

// Returns attributes with user-scratchpad mode. With `accumulate` the primitive adds its result to the
// destination (post-op sum).
absl::StatusOr<OwnedAttr> MakeAttr(bool accumulate = false);

// Returns the primitive descriptor of `operation`, which points to a dnnl_..._desc_t. `forward` is the hint
// that backward descriptors need, otherwise null. The second overload returns the first of oneDNN's
// implementations for whose name `is_usable` returns true.
// Unimplemented: there is no (usable) implementation. Other errors: see ToStatus().
absl::StatusOr<OwnedDesc> MakeDesc(const_dnnl_op_desc_t operation, const_dnnl_primitive_attr_t attr,
                                   const_dnnl_primitive_desc_t forward = nullptr);
absl::StatusOr<OwnedDesc> MakeDesc(const_dnnl_op_desc_t operation, const_dnnl_primitive_attr_t attr,
                                   const_dnnl_primitive_desc_t forward,
                                   absl::FunctionRef<bool(absl::string_view name)> is_usable);

// Returns the name of the implementation that oneDNN chose, for instance "brgconv:avx512_core" or "ref:any".
absl::string_view ImplementationName(const_dnnl_primitive_desc_t desc);

// Returns the rank of that implementation by its name: 0 for dedicated code, 1 for code built on a matrix
// product, 2 for reference loops, which are about 100 times slower.
int ImplementationRank(const_dnnl_primitive_desc_t desc);

// Returns the layout that the primitive chose for an operand; `what` is dnnl_query_src_md or another
// dnnl_query_..._md. The reference is valid as long as `desc`.
const dnnl_memory_desc_t& ChosenMemory(const_dnnl_primitive_desc_t desc, dnnl_query_t what);

// Returns true if both descriptors have equal dtype, sizes and layout.
inline bool SameMemory(const dnnl_memory_desc_t& a, const dnnl_memory_desc_t& b) {
  return dnnl_memory_desc_equal(&a, &b) != 0;
}

// An operand of a primitive: its number in oneDNN (DNNL_ARG_SRC, ...) and its layout.
struct Argument {
  int argument;
  dnnl_memory_desc_t memory;
};

// Returns a kernel that executes one primitive. The kernel's inputs and outputs are the primitive's operands
// in the order given. OpenMP's default thread count must be the same at creation and in every run: see
// ScopedThreads.
absl::StatusOr<std::unique_ptr<Kernel>> MakePrimitive(const_dnnl_primitive_desc_t desc, std::vector<Argument> inputs,
                                                      std::vector<Argument> outputs);

// Returns a kernel that copies input 0 of layout `from` to output 0 of layout `to`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeReorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to);

}  // namespace cotan::cpu::onednn

#endif  // COTAN_KERNELS_CPU_ONEDNN_PRIMITIVE_H_
