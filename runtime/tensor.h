// SPDX-License-Identifier: Apache-2.0

// Public header: tensors that own or borrow memory (cotan::Tensor).
#ifndef COTAN_RUNTIME_TENSOR_H_
#define COTAN_RUNTIME_TENSOR_H_

#include "runtime/tensor/tensor.h"  // IWYU pragma: export

#endif  // COTAN_RUNTIME_TENSOR_H_
