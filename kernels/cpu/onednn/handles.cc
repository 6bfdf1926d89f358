// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/onednn/handles.h"

#include "absl/strings/str_cat.h"

namespace cotan::cpu::onednn {
namespace {

absl::StatusOr<dnnl_engine_t> CreateEngine() {
  dnnl_engine_t engine = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_engine_create(&engine, dnnl_cpu, 0));
  return engine;
}

}  // namespace

absl::Status ToStatus(dnnl_status_t status, absl::string_view call) {
  const auto message = [&](absl::string_view name) { return absl::StrCat("oneDNN: ", name, " from ", call); };
  switch (status) {
    case dnnl_success:
      return absl::OkStatus();
    case dnnl_out_of_memory:
      return absl::ResourceExhaustedError(message("out of memory"));
    case dnnl_unimplemented:
      return absl::UnimplementedError(message("unimplemented"));
    case dnnl_invalid_arguments:
      return absl::InternalError(message("invalid arguments"));
    case dnnl_runtime_error:
      return absl::InternalError(message("runtime error"));
    default:
      return absl::InternalError(message(absl::StrCat("status ", static_cast<int>(status))));
  }
}

absl::StatusOr<dnnl_engine_t> CpuEngine() {
  static const absl::StatusOr<dnnl_engine_t>& engine = *new absl::StatusOr<dnnl_engine_t>(CreateEngine());
  return engine;
}

}  // namespace cotan::cpu::onednn
