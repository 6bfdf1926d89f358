// SPDX-License-Identifier: Apache-2.0

// Versions, and names of codes and dtypes.
#include "base/version.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "capi/guard.h"
#include "include/cotan.h"

using cotan::DType;

const char* cotan_version(void) { return cotan::kVersion; }

uint32_t cotan_abi_version(void) { return COTAN_ABI_VERSION; }

cotan_status cotan_check_abi(uint32_t abi_version) {
  return cotan::capi::Guarded(__func__, [&]() -> absl::Status {
    if (abi_version == COTAN_ABI_VERSION) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("the program was compiled with version ", abi_version, " of the binary interface, cotan ",
                     cotan::kVersion, " has version ", COTAN_ABI_VERSION, ": compile it again with this cotan.h"));
  });
}

const char* cotan_status_name(cotan_status status) {
  static constexpr const char* kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return status >= COTAN_OK && status <= COTAN_UNAUTHENTICATED ? kNames[status] : kNames[COTAN_UNKNOWN];
}

const char* cotan_dtype_name(cotan_dtype dtype) {
  const bool is_known = dtype >= 0 && dtype < cotan::kNumDTypes;
  // The names are literals, which end with NUL.
  return cotan::DTypeName(is_known ? static_cast<DType>(dtype) : DType::kUndefined).data();
}

size_t cotan_dtype_size(cotan_dtype dtype) {
  const bool is_known = dtype >= 0 && dtype < cotan::kNumDTypes;
  return cotan::ByteSize(is_known ? static_cast<DType>(dtype) : DType::kUndefined);
}
