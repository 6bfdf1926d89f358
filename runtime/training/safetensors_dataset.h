// SPDX-License-Identifier: Apache-2.0

// Reads datasets from safetensors files, for instance of NumPy arrays, and writes them.
#ifndef COTAN_RUNTIME_TRAINING_SAFETENSORS_DATASET_H_
#define COTAN_RUNTIME_TRAINING_SAFETENSORS_DATASET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/training/dataset.h"

namespace cotan::training {

// Reads all tensors of the file as columns with their names, in the order of the data in the file.
// NotFound, PermissionDenied, Unavailable: the file cannot be read.
// DataLoss: the file is truncated.
// InvalidArgument: it is not a safetensors file, or is inconsistent, or its tensors are not columns of a dataset
// (Dataset::Create()). The message has the path, the position in the header or the name of the tensor.
// Unimplemented: a tensor has a dtype that Cotan lacks.
// ResourceExhausted: the host has not enough memory.
absl::StatusOr<Dataset> ReadSafetensors(const std::string& path);

// Reads the bytes of a file in the same way; `name` stands for the path in messages.
absl::StatusOr<Dataset> ParseSafetensorsDataset(absl::string_view bytes, absl::string_view name);

// Writes the columns as tensors, in their order. The file is replaced atomically.
// Unimplemented: a column is c128. Errors of WriteFileAtomically() (base/file.h).
absl::Status WriteSafetensors(const Dataset& data, const std::string& path);

// Appends the same bytes to an open file, such as standard output; `name` stands for the path in messages.
// Unimplemented: a column is c128. Errors of FileSystem::Write() (base/file.h).
absl::Status WriteSafetensors(const Dataset& data, int file, const std::string& name);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_SAFETENSORS_DATASET_H_
