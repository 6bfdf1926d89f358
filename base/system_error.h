// SPDX-License-Identifier: Apache-2.0

// Errors of system calls on files as statuses.
#ifndef COTAN_BASE_SYSTEM_ERROR_H_
#define COTAN_BASE_SYSTEM_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cotan {

// Returns the error "cannot <what> '<path>': <reason of `error`>", where `error` is a value of errno. AlreadyExists.
// NotFound: no such file or folder. PermissionDenied, also for a read-only file system or a folder in place of a file.
// ResourceExhausted: a full disk, a quota, or the largest file. Unavailable: any other error.
absl::Status SystemError(absl::string_view what, absl::string_view path, int error);

}  // namespace cotan

#endif  // COTAN_BASE_SYSTEM_ERROR_H_
