// SPDX-License-Identifier: Apache-2.0

// Reads IDX files, the format of MNIST.
#ifndef COTAN_RUNTIME_TRAINING_IDX_DATASET_H_
#define COTAN_RUNTIME_TRAINING_IDX_DATASET_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/training/dataset.h"

namespace cotan::training {

// Reads a tensor of u8, i8, i16, i32, f32 or f64.
// NotFound, PermissionDenied, Unavailable: the file cannot be read.
// InvalidArgument: the file is compressed, is not an IDX file, or is longer or shorter than its header says. The
// message has the path, the offset, and how to fix it.
// ResourceExhausted: the host has not enough memory.
absl::StatusOr<Tensor> ReadIdx(const std::string& path);

// Reads the bytes of a file in the same way; `name` stands for the path in messages.
absl::StatusOr<Tensor> ParseIdx(absl::string_view bytes, absl::string_view name);

// Reads a column from each (name, path). Errors of ReadIdx() and Dataset::Create().
absl::StatusOr<Dataset> ReadIdxDataset(absl::Span<const std::pair<std::string, std::string>> columns);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_IDX_DATASET_H_
