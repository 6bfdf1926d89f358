// SPDX-License-Identifier: Apache-2.0

// Checkpoints: safetensors files with every persistent state of a session under its name: parameters,
// buffers, optimizer slots (step counts included), hyperparameters, gradient accumulators, and the RNG state
// as "rng", i64[2]. Tensors are row-major. The metadata have the version of the checkpoint format
// ("cotan_checkpoint") and a CRC-32C of the data ("cotan_crc32c"). A training loop may add tensors and metadata of its
// own (runtime/training/training_checkpoint.h), which a session ignores.
#ifndef COTAN_RUNTIME_SESSION_CHECKPOINT_H_
#define COTAN_RUNTIME_SESSION_CHECKPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "runtime/session/safetensors.h"
#include "runtime/session/state_store.h"

namespace cotan {

inline constexpr int kCheckpointVersion = 1;

// Tensors that are not states, and their metadata, have names with this prefix.
inline constexpr absl::string_view kCheckpointAdditionPrefix = "cotan.";

// Writes all persistent states and `additions`. The file is replaced atomically (WriteFileAtomically): if the process
// dies, `path` is either the previous file or the complete new one.
// ResourceExhausted: the disk or the memory is full.
// PermissionDenied, NotFound, Unavailable: the file cannot be written.
// Unimplemented: a state is c128, a dtype that the format lacks.
// InvalidArgument: an addition is named without kCheckpointAdditionPrefix, like a state, or like another addition.
absl::Status SaveCheckpoint(const StateStore& states, const std::string& path, FileSystem& files = SystemFiles(),
                            const SafetensorsFile& additions = {});

// Reads all persistent states; changes none on error. Training that continues from a loaded checkpoint is
// bitwise equal to uninterrupted training. Files without the metadata above are accepted; additions are ignored.
// NotFound, PermissionDenied: the file cannot be opened.
// DataLoss: the file is truncated or damaged.
// InvalidArgument: the file is not a safetensors file, or its states are not those of the program; the
// message lists states that are missing, unexpected or of another type.
// Unimplemented: a newer version wrote the file.
absl::Status LoadCheckpoint(const std::string& path, StateStore& states);

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_CHECKPOINT_H_
