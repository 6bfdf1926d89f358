// SPDX-License-Identifier: Apache-2.0

// The compiled kernels of one device: loaded from images that were compiled ahead of time, or compiled by NVRTC.
#ifndef COTAN_KERNELS_CUDA_COMPILER_KERNEL_LIBRARY_H_
#define COTAN_KERNELS_CUDA_COMPILER_KERNEL_LIBRARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/compiler/kernel_cache.h"
#include "kernels/cuda/compiler/kernel_image.h"
#include "kernels/cuda/driver/driver_table.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// A function of a loaded module.
struct LoadedKernel {
  driver::CUmodule module = nullptr;
  driver::CUfunction function = nullptr;
  // Compute capability of the image; not above that of the device.
  int compute_capability = 0;
};

// Owns the modules of a context. Not thread-safe. The context is current in each call, and outlives the library.
class KernelLibrary {
 public:
  struct Options {
    int compute_capability = 90;
    // Folder of compiled kernels; "" = none.
    std::string cache_folder;
    // Compiles to PTX instead of machine code: for the simulated GPU.
    bool compiles_to_ptx = false;
  };

  KernelLibrary(const driver::DriverTable& driver, Options options);
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;
  ~KernelLibrary();

  // Adds an image of `text`, as it is in KernelSource, made for `target` with a device library of this digest. Ignores
  // one that the device does not execute, that it has, or that has another digest. Copies `bytes`.
  void AddImage(absl::string_view text, absl::string_view library_digest, const nvrtc::CompileTarget& target,
                absl::string_view bytes);

  // Returns the function of `source`, from the modules loaded before, the images, the cache, or NVRTC, in this order.
  // FailedPrecondition: no image is compiled for this device, and NVRTC cannot compile it; the message has the flag
  // that compiles it ahead of time. Internal: the compiler or the driver failed.
  absl::StatusOr<LoadedKernel> Load(const KernelSource& source);

  // Numbers of kernels that Load() took from images, from the cache, and from NVRTC.
  struct Statistics {
    int64_t from_images = 0;
    int64_t from_cache = 0;
    int64_t compiled = 0;
  };
  const Statistics& statistics() const { return statistics_; }

 private:
  // Compiles `text`, whose includes are expanded, and keeps the image in the cache.
  absl::StatusOr<std::string> Compile(absl::string_view entry, absl::string_view text,
                                      const nvrtc::CompileTarget& target);
  // Also sets the compute capability of the image.
  absl::StatusOr<driver::CUmodule> LoadModule(const KernelSource& source, int& compute_capability);
  absl::StatusOr<driver::CUmodule> LoadImage(absl::string_view image);

  const driver::DriverTable& driver_;
  const Options options_;
  const KernelCache cache_;
  absl::flat_hash_map<std::string, std::vector<KernelImage>> images_;  // by text
  absl::flat_hash_map<std::string, LoadedKernel> kernels_;             // by text
  std::vector<driver::CUmodule> modules_;
  Statistics statistics_;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COMPILER_KERNEL_LIBRARY_H_
