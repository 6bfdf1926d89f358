// SPDX-License-Identifier: Apache-2.0

// Public header: methods called with Variables, with autograd (cotan::Function).
#ifndef COTAN_RUNTIME_FUNCTION_H_
#define COTAN_RUNTIME_FUNCTION_H_

#include "runtime/function/function.h"  // IWYU pragma: export

#endif  // COTAN_RUNTIME_FUNCTION_H_
