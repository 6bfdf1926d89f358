// Raw bytes of an archive as tensors.
#ifndef COTAN_AOT_FRONTEND_PT2_STRIDED_STORAGE_H_
#define COTAN_AOT_FRONTEND_PT2_STRIDED_STORAGE_H_

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/layout.h"

namespace cotan::aot::pt2 {

// A tensor [n] with a copy of little-endian bytes.
// InvalidArgument: their number is no multiple of the element's size.
absl::StatusOr<at::Tensor> StorageFromBytes(absl::string_view bytes, DType dtype);

// `storage`, a tensor [n], seen through `layout`.
// InvalidArgument: the layout is not valid, or leaves the storage.
absl::StatusOr<at::Tensor> ViewOfStorage(const at::Tensor& storage, const StridedLayout& layout);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_STRIDED_STORAGE_H_
