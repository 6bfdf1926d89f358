// SPDX-License-Identifier: Apache-2.0

// Owning handles of oneDNN's objects, its engine, and its errors as absl::Status.
#ifndef COTAN_KERNELS_CPU_ONEDNN_HANDLES_H_
#define COTAN_KERNELS_CPU_ONEDNN_HANDLES_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "dnnl.h"

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

}  // namespace cotan::cpu::onednn

#endif  // COTAN_KERNELS_CPU_ONEDNN_HANDLES_H_
