// oneDNN's C interface, wrapped thinly: owning handles, errors as absl::Status
// with the text of the failed call, and a primitive as a Kernel. The C
// interface is used because it works without exceptions.
//
// oneDNN itself makes a few small heap allocations (a table of the arguments)
// in every execution; large memory is ours: primitives run in user-scratchpad
// mode.
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

// Unimplemented: oneDNN has no code for the operation described.
// ResourceExhausted: out of memory. Internal: anything else. The message has
// the call's text and oneDNN's name of the error.
absl::Status ToStatus(dnnl_status_t status, absl::string_view call);

#define COTAN_RETURN_IF_DNNL_ERROR(call) COTAN_RETURN_IF_ERROR(::cotan::cpu::onednn::ToStatus(call, #call))

// Deletes any oneDNN object by the function for its kind.
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

// The CPU engine, made on first use and never destroyed. Thread-safe.
absl::StatusOr<dnnl_engine_t> CpuEngine();

// f32, bf16, i32, i8, u8.
// Unimplemented: oneDNN has no such type; the message names it.
absl::StatusOr<dnnl_data_type_t> DataType(DType dtype);

// Whether this processor multiplies matrices of `dtype` without emulation: f32,
// and bf16 with AVX512_BF16 or AMX.
bool HasFast(DType dtype);

// Geometry of a strided operand; 1 to 12 dimensions, none of size 0.
// Strides count elements; none is 0.
absl::StatusOr<dnnl_memory_desc_t> StridedMemory(DType dtype, absl::Span<const int64_t> sizes,
                                                 absl::Span<const int64_t> strides);
// Geometry that the primitive may choose.
absl::StatusOr<dnnl_memory_desc_t> AnyMemory(DType dtype, absl::Span<const int64_t> sizes);

// User-scratchpad mode; with `accumulate` the result is added to what the
// destination holds.
absl::StatusOr<OwnedAttr> MakeAttr(bool accumulate = false);

// `operation` points to a dnnl_..._desc_t. `forward` is the hint that backward
// descriptors need, else null. With `is_usable`, the first of oneDNN's
// implementations whose name it is true for. Unimplemented: there is none.
absl::StatusOr<OwnedDesc> MakeDesc(const_dnnl_op_desc_t operation, const_dnnl_primitive_attr_t attr,
                                   const_dnnl_primitive_desc_t forward = nullptr);
absl::StatusOr<OwnedDesc> MakeDesc(const_dnnl_op_desc_t operation, const_dnnl_primitive_attr_t attr,
                                   const_dnnl_primitive_desc_t forward,
                                   absl::FunctionRef<bool(absl::string_view name)> is_usable);

// Name of the code that oneDNN chose: "brgconv:avx512_core", "ref:any".
absl::string_view ImplementationName(const_dnnl_primitive_desc_t desc);

// How good that choice is: 0 dedicated code, 1 built on a matrix product, 2
// plain loops that are 100 times slower.
int ImplementationRank(const_dnnl_primitive_desc_t desc);

// Geometry of an operand after the primitive has chosen, by dnnl_query_src_md
// and its like.
const dnnl_memory_desc_t& ChosenMemory(const_dnnl_primitive_desc_t desc, dnnl_query_t what);

inline bool SameMemory(const dnnl_memory_desc_t& a, const dnnl_memory_desc_t& b) {
  return dnnl_memory_desc_equal(&a, &b) != 0;
}

// An operand of a primitive: oneDNN's number for it (DNNL_ARG_SRC, ...).
struct Argument {
  int argument;
  dnnl_memory_desc_t memory;
};

// A kernel that executes one primitive. Its inputs, then its outputs, are the
// operands in the order given. The thread count is OpenMP's default when
// created and when run: see ScopedThreads.
absl::StatusOr<std::unique_ptr<Kernel>> MakePrimitive(const_dnnl_primitive_desc_t desc, std::vector<Argument> inputs,
                                                      std::vector<Argument> outputs);

// A kernel that copies input 0 in geometry `from` to output 0 in geometry `to`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeReorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to);

}  // namespace cotan::cpu::onednn

#endif  // COTAN_KERNELS_CPU_ONEDNN_PRIMITIVE_H_
