// SPDX-License-Identifier: Apache-2.0

// Makes tensors of raw bytes of an archive.
#ifndef COTAN_AOT_FRONTEND_PT2_STRIDED_STORAGE_H_
#define COTAN_AOT_FRONTEND_PT2_STRIDED_STORAGE_H_

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/layout.h"

namespace cotan::aot::pt2 {

// Returns a tensor [n] with a copy of little-endian bytes.
// InvalidArgument: the number of bytes is not a multiple of the element size.
absl::StatusOr<at::Tensor> StorageFromBytes(absl::string_view bytes, DType dtype);

// Returns a view of `storage`, a tensor [n], with `layout` (in elements).
// InvalidArgument: the layout is invalid, exceeds the storage, or has more than 64 dimensions.
absl::StatusOr<at::Tensor> ViewOfStorage(const at::Tensor& storage, const StridedLayout& layout);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_STRIDED_STORAGE_H_
