// The safetensors file format: named tensors behind a JSON header, which any
// Python tool opens.
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

// One tensor; its bytes belong to someone else.
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

// Reads a file; the entries point into `bytes`. Any input is safe.
// DataLoss: it is cut off. InvalidArgument: it is no safetensors file or
// contradicts itself; the message says where. Unimplemented: a dtype that Cotan
// does not have; the message names the tensor.
absl::StatusOr<SafetensorsFile> ParseSafetensors(absl::string_view bytes);

// The start of a file whose data are the bytes of `file.tensors` in order.
// InvalidArgument: an entry whose bytes do not fit its dtype and sizes, or a
// name that is not UTF-8. Unimplemented: c128, which the format does not have.
absl::StatusOr<std::string> SafetensorsHeader(const SafetensorsFile& file);

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_SAFETENSORS_H_
