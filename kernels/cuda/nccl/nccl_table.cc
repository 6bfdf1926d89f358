// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/nccl/nccl_table.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::cuda::nccl {
namespace {

constexpr char kFile[] = "libnccl.so.2";

template <typename Function>
absl::Status LoadFunction(void* library, const std::string& file, const char* name, std::function<Function>& to) {
  auto* function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) {
    return absl::UnavailableError(absl::StrCat(file, " has no function ", name, ". Install NCCL 2.14 or later."));
  }
  to = function;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NcclTable> NcclTable::Load(absl::string_view file) {
  const std::string path(file);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("groups of GPUs need ", path, ": ", dlerror(),
                     ". Install NCCL for CUDA 13 and add its folder to LD_LIBRARY_PATH, or train on CPUs."));
  }
  NcclTable table;
#define COTAN_NCCL_FUNCTION(name, parameters) COTAN_RETURN_IF_ERROR(LoadFunction(library, path, #name, table.name));
  COTAN_NCCL_FUNCTIONS(COTAN_NCCL_FUNCTION)
#undef COTAN_NCCL_FUNCTION
  COTAN_RETURN_IF_ERROR(LoadFunction(library, path, "ncclGetErrorString", table.ncclGetErrorString));
  COTAN_RETURN_IF_ERROR(LoadFunction(library, path, "ncclGetLastError", table.ncclGetLastError));
  return table;
}

absl::StatusOr<const NcclTable*> NcclTable::Get() {
  static const absl::StatusOr<NcclTable>& table = *new absl::StatusOr<NcclTable>(Load(kFile));
  if (!table.ok()) return table.status();
  return &*table;
}

absl::Status NcclTable::ToStatus(ncclResult_t result, absl::string_view expression) const {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const absl::StatusCode code =
      result == ncclRemoteError ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal;
  return absl::Status(code,
                      absl::StrCat(expression, ": ", ncclGetErrorString(result), ": ", ncclGetLastError(nullptr)));
}

}  // namespace cotan::cuda::nccl
