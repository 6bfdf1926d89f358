// Tensors that torch.save wrote: how torch before 2.9 stores the weights of an
// archive.
#ifndef COTAN_AOT_FRONTEND_PT2_PICKLED_TENSORS_H_
#define COTAN_AOT_FRONTEND_PT2_PICKLED_TENSORS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/frontend/pt2/weights.h"

namespace cotan::aot::pt2 {

// Reads a dict of plain tensors by name. A pickle is a program that calls what
// it likes; of all calls only those that make a dict, a tensor in a storage and
// a parameter of a tensor are known here, as data, and nothing is called.
//
// `bytes`: the file, a zip archive of its own; `name` is for messages.
// InvalidArgument: damaged, or not such a dict. Unimplemented: anything else in
// the pickle; the message names it.
absl::StatusOr<StoredTensors> ReadPickledTensors(absl::string_view bytes, const std::string& name);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_PICKLED_TENSORS_H_
