// SPDX-License-Identifier: Apache-2.0

// Macros that return an absl::Status to the caller.
#ifndef COTAN_BASE_STATUS_MACROS_H_
#define COTAN_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Evaluates `expr` (an absl::Status) and returns it from the calling function
// unless it is OK.
#define COTAN_RETURN_IF_ERROR(expr)                                                  \
  do {                                                                               \
    if (absl::Status cotan_status = (expr); !cotan_status.ok()) return cotan_status; \
  } while (false)

// Evaluates `rexpr` (an absl::StatusOr<T>), returns its status unless it is
// OK, and otherwise moves the value into `lhs`, which may declare a variable.
#define COTAN_ASSIGN_OR_RETURN(lhs, rexpr) \
  COTAN_ASSIGN_OR_RETURN_IMPL(COTAN_STATUS_CONCAT(cotan_statusor_, __LINE__), lhs, rexpr)

#define COTAN_ASSIGN_OR_RETURN_IMPL(statusor, lhs, rexpr)  \
  auto statusor = (rexpr);                                 \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)

#define COTAN_STATUS_CONCAT(a, b) COTAN_STATUS_CONCAT_IMPL(a, b)
#define COTAN_STATUS_CONCAT_IMPL(a, b) a##b

#endif  // COTAN_BASE_STATUS_MACROS_H_
