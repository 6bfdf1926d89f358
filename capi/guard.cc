// SPDX-License-Identifier: Apache-2.0

#include "capi/guard.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::capi {
namespace {

constexpr char kOutOfMemory[] = "not enough memory";

// Of any version: a larger size was not initialized, and memory behind the struct is not to be read.
constexpr size_t kMaxStructSize = 4096;

// The last failure of a thread.
struct LastError {
  cotan_status code = COTAN_OK;
  const char* text = "";  // that of `buffer`, or a literal
  std::string buffer;
};

LastError& LastErrorOfThread() {
  thread_local LastError error;
  return error;
}

}  // namespace

cotan_status Report(const char* function, const absl::Status& status) noexcept {
  if (status.ok()) return COTAN_OK;
  LastError& last = LastErrorOfThread();
  last.code = static_cast<cotan_status>(status.code());
  try {
    last.buffer = absl::StrCat(function, ": ", status.message());
    last.text = last.buffer.c_str();
  } catch (const std::bad_alloc&) {
    last.text = kOutOfMemory;
  }
  return last.code;
}

cotan_status ReportOutOfMemory() noexcept {
  LastError& last = LastErrorOfThread();
  last.code = COTAN_RESOURCE_EXHAUSTED;
  last.text = kOutOfMemory;
  return last.code;
}

absl::Status CheckNotNull(const void* pointer, absl::string_view name) {
  if (pointer != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is NULL"));
}

absl::Status CheckStructSize(size_t found, size_t first, absl::string_view name) {
  if (found >= first && found <= kMaxStructSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ".struct_size is ", found, ", expected at least ", first,
                                                 " and at most ", kMaxStructSize,
                                                 ": initialize the struct with the initializer of cotan.h"));
}

absl::Status CheckUnknownFields(const void* data, size_t known, size_t size, absl::string_view name) {
  const char* bytes = static_cast<const char*>(data);
  for (size_t i = known; i < size; ++i) {
    if (bytes[i] == 0) continue;
    return absl::UnimplementedError(absl::StrCat(name, " has a field that cotan ", cotan_version(),
                                                 " does not know, at byte ", i, ": install a newer libcotan"));
  }
  return absl::OkStatus();
}

}  // namespace cotan::capi

const char* cotan_last_error(void) { return cotan::capi::LastErrorOfThread().text; }

cotan_status cotan_last_error_code(void) { return cotan::capi::LastErrorOfThread().code; }
