// SPDX-License-Identifier: Apache-2.0

// The safetensors file format (https://github.com/huggingface/safetensors): a JSON header followed by named
// tensors.
//
//   u64 little-endian: size of the header in bytes
//   header: {"__metadata__": {"key": "value", ...},
//            "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//           padded with spaces
//   data: row-major, little-endian; offsets count from its start, the tensors
//         fill it without gap or overlap
#ifndef COTAN_RUNTIME_SESSION_SAFETENSORS_H_
#define COTAN_RUNTIME_SESSION_SAFETENSORS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"

namespace cotan {

// One tensor. The bytes are borrowed.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kUndefined;
  DimVector sizes;
  absl::string_view bytes;
};

struct SafetensorsFile {
  std::vector<SafetensorsEntry> tensors;  // in the order of their data
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Parses the bytes of a file; the entries point into `bytes`. Untrusted input is safe.
// DataLoss: the file is truncated.
// InvalidArgument: the bytes are not a safetensors file or are inconsistent; the message gives the position.
// Unimplemented: a tensor has a dtype that Cotan lacks; the message names the tensor.
absl::StatusOr<SafetensorsFile> ParseSafetensors(absl::string_view bytes);

// Returns the size and header of a file whose data are the bytes of `file.tensors` in order.
// InvalidArgument: the bytes of an entry do not fit its dtype and sizes, or a name is not UTF-8.
// Unimplemented: an entry is c128, a dtype that the format lacks.
absl::StatusOr<std::string> SafetensorsHeader(const SafetensorsFile& file);

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_SAFETENSORS_H_
