// SPDX-License-Identifier: Apache-2.0

// A folder of compiled kernels, shared by processes.
#ifndef COTAN_KERNELS_CUDA_COMPILER_KERNEL_CACHE_H_
#define COTAN_KERNELS_CUDA_COMPILER_KERNEL_CACHE_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"

namespace cotan::cuda {

// One file per kernel and target. A file has the kernel's text, which is compared, so that a collision of names or a
// damaged file is a miss. Thread-safe; processes may share a folder.
class KernelCache {
 public:
  // Uses `folder`, which is created by the first Store(). "" = no cache.
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}

  // Returns $COTAN_KERNEL_CACHE, else $XDG_CACHE_HOME/cotan/kernels, else $HOME/.cache/cotan/kernels, else "".
  static std::string DefaultFolder();

  // Returns the image of `text` (expanded) for `target`, if it was stored.
  std::optional<std::string> Find(absl::string_view text, const nvrtc::CompileTarget& target) const;

  // Stores an image. Errors of WriteFileAtomically(); PermissionDenied or Unavailable if the folder cannot be made.
  absl::Status Store(absl::string_view text, const nvrtc::CompileTarget& target, absl::string_view image) const;

 private:
  std::string PathOf(absl::string_view text, const nvrtc::CompileTarget& target) const;

  std::string folder_;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COMPILER_KERNEL_CACHE_H_
