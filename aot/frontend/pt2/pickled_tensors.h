// SPDX-License-Identifier: Apache-2.0

// Reads tensors written by torch.save: the weights of archives of torch before 2.9, and the arguments of the export.
#ifndef COTAN_AOT_FRONTEND_PT2_PICKLED_TENSORS_H_
#define COTAN_AOT_FRONTEND_PT2_PICKLED_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/frontend/pt2/weights.h"

namespace cotan::aot::pt2 {

// Returns the tensors of a dict of plain tensors by name. A pickle is a program that may call any
// function; this reader recognizes only the calls that make a dict, a tensor in a storage, or a
// parameter, and executes nothing.
//
// `bytes` is the file, a zip archive; `name` is its name in messages.
// InvalidArgument: the file is damaged or not such a dict. Unimplemented: another call or
// instruction in the pickle; the message has its name.
absl::StatusOr<StoredTensors> ReadPickledTensors(absl::string_view bytes, const std::string& name);

// Returns the tensors in nested tuples, and dicts of tensors, in their order; other values are omitted. Arguments and
// errors as above, except that other values are accepted.
absl::StatusOr<std::vector<at::Tensor>> ReadPickledLeaves(absl::string_view bytes, const std::string& name);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_PICKLED_TENSORS_H_
