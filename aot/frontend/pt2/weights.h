// SPDX-License-Identifier: Apache-2.0

// Loads the tensors of a .pt2 archive: parameters, buffers, constants.
#ifndef COTAN_AOT_FRONTEND_PT2_WEIGHTS_H_
#define COTAN_AOT_FRONTEND_PT2_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/frontend/pt2/archive.h"

namespace cotan::aot::pt2 {

// A tensor of the archive. Tied tensors have the same storage and geometry.
struct StoredTensor {
  at::Tensor tensor;
  bool requires_grad = false;
};

// Tensors by qualified name.
using StoredTensors = absl::flat_hash_map<std::string, StoredTensor>;

// Returns the tensors in `folder` ("data/weights/") that its table `config` lists.
// NotFound: a listed file is missing. InvalidArgument: a file is smaller than its tensor; a path
// leads out of the folder; the content is damaged. Unimplemented: a tensor of a Python class, which
// only unpickling could make.
absl::StatusOr<StoredTensors> LoadStoredTensors(const Archive& archive, absl::string_view folder,
                                                absl::string_view config);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_WEIGHTS_H_
