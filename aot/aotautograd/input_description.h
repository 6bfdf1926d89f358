// SPDX-License-Identifier: Apache-2.0

// Describes an input tensor without LibTorch: identity, storage, layout and autograd base.
#ifndef COTAN_AOT_AOTAUTOGRAD_INPUT_DESCRIPTION_H_
#define COTAN_AOT_AOTAUTOGRAD_INPUT_DESCRIPTION_H_

#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "base/layout.h"

namespace cotan::aot {

// An input tensor of the caller before the call. Offsets and strides are in elements of `dtype`.
struct InputDescription {
  // Identity of the tensor object, and of its storage; equal for the same one, never 0.
  uintptr_t identity = 0;
  uintptr_t storage = 0;
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  int64_t storage_elements = 0;  // of `dtype`
  bool requires_grad = false;

  // The tensor that autograd has as base of this view (Tensor._base()); unset: not a view.
  struct Base {
    uintptr_t identity = 0;
    DType dtype = DType::kUndefined;
    StridedLayout layout;
    bool requires_grad = false;
    bool is_leaf = true;
  };
  std::optional<Base> base;
  bool is_leaf = true;
  // A view made under no_grad of a tensor that requires grad: it requires grad as well, but its
  // base gets no gradient from it.
  bool made_under_no_grad = false;
  // True if the function mutates its metadata, even if it is restored at exit.
  bool has_metadata_mutation = false;
  // True if the function writes elements of it that its final view does not contain (as_strided_).
  bool has_hidden_writes = false;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_INPUT_DESCRIPTION_H_
