// Training's state on disk: a safetensors file with every persistent state of a
// session under its name: parameters, buffers, optimizer slots (step counts
// among them), hyperparameters, gradient accumulators, and the random generator
// as "rng", i64[2]. Tensors are row-major. The metadata hold the version of
// these rules ("cotan_checkpoint") and a CRC-32C of the data ("cotan_crc32c").
#ifndef COTAN_RUNTIME_SESSION_CHECKPOINT_H_
#define COTAN_RUNTIME_SESSION_CHECKPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "base/file.h"
#include "runtime/session/state_store.h"

namespace cotan {

inline constexpr int kCheckpointVersion = 1;

// Writes all persistent states. At every moment `path` is the old file or the
// whole new one, whatever happens to the process (WriteFileAtomically).
// ResourceExhausted: disk or memory full. PermissionDenied, NotFound,
// Unavailable: the file cannot be written. Unimplemented: a c128 state.
absl::Status SaveCheckpoint(const StateStore& states, const std::string& path, FileSystem& files = SystemFiles());

// Reads all persistent states, or changes none. A run that goes on from a
// loaded checkpoint equals bit for bit one that was never interrupted. Files
// without the metadata above are taken too.
// NotFound, PermissionDenied: of the file. DataLoss: it is cut off or damaged.
// InvalidArgument: no safetensors file, or one of another model: the message
// lists states that are missing, unexpected or of another type. Unimplemented:
// a newer version wrote it.
absl::Status LoadCheckpoint(const std::string& path, StateStore& states);

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_CHECKPOINT_H_
