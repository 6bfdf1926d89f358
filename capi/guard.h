// SPDX-License-Identifier: Apache-2.0

// The boundary of the C interface: statuses and exceptions become codes and texts, structs of other versions are
// copied.
#ifndef COTAN_CAPI_GUARD_H_
#define COTAN_CAPI_GUARD_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "include/cotan.h"

namespace cotan::capi {

// Returns the code of `status`. Unless it is OK, stores the code and "<function>: <message>" for cotan_last_error() of
// this thread.
cotan_status Report(const char* function, const absl::Status& status) noexcept;

// Reports that an allocation failed; allocates nothing.
cotan_status ReportOutOfMemory() noexcept;

// Calls `body`, which returns an absl::Status, and reports the status. An exception becomes ResourceExhausted
// (std::bad_alloc) or Internal: the runtime throws none itself, but operator new does, and so may a callback.
template <typename Body>
cotan_status Guarded(const char* function, Body body) noexcept {
  try {
    return Report(function, body());
  } catch (const std::bad_alloc&) {
    return ReportOutOfMemory();
  } catch (const std::exception& exception) {
    return Report(function, absl::InternalError(exception.what()));
  } catch (...) {
    return Report(function, absl::InternalError("an exception of unknown type"));
  }
}

// Returns OK if `pointer` is not null. InvalidArgument: it is; `name` is that of the parameter.
absl::Status CheckNotNull(const void* pointer, absl::string_view name);

// Returns InvalidArgument unless `found`, the caller's struct_size, has at least `first` bytes, the size of the first
// version of `name`, and at most 4096.
absl::Status CheckStructSize(size_t found, size_t first, absl::string_view name);
// Returns Unimplemented unless bytes [known, size) of a struct are zero.
absl::Status CheckUnknownFields(const void* data, size_t known, size_t size, absl::string_view name);

// Returns a copy of a struct of the caller; fields that the caller's version lacks are zero. Errors of the checks
// above. `first_size` is the size of its first version. T has no padding: the next field would be read from it.
template <typename T>
absl::StatusOr<T> ReadStruct(const T* in, size_t first_size, absl::string_view name) {
  static_assert(std::has_unique_object_representations_v<T>);
  if (absl::Status status = CheckStructSize(in->struct_size, first_size, name); !status.ok()) return status;
  if (absl::Status status = CheckUnknownFields(in, sizeof(T), in->struct_size, name); !status.ok()) return status;
  T copy = {};
  std::memcpy(&copy, in, std::min(in->struct_size, sizeof(T)));
  copy.struct_size = sizeof(T);
  return copy;
}

// Copies the fields that the caller's version has, except struct_size.
// InvalidArgument: `out` is null, or CheckStructSize() fails.
template <typename T>
absl::Status WriteStruct(T value, size_t first_size, absl::string_view name, T* out) {
  if (absl::Status status = CheckNotNull(out, name); !status.ok()) return status;
  if (absl::Status status = CheckStructSize(out->struct_size, first_size, name); !status.ok()) return status;
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, std::min(out->struct_size, sizeof(T)));
  return absl::OkStatus();
}

}  // namespace cotan::capi

#endif  // COTAN_CAPI_GUARD_H_
