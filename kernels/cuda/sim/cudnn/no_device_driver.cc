// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cudnn/no_device_driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::cuda::sim {

absl::Status LoadNoDeviceDriver() {
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) return absl::OkStatus();
  const char* runfiles = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  if (runfiles == nullptr || workspace == nullptr) return absl::NotFoundError("this is not a test of Bazel");
  // Its SONAME is libcuda.so.1, so that dlopen() finds it by that name from now on.
  const std::string file = absl::StrCat(runfiles, "/", workspace, "/kernels/cuda/sim/cudnn/libcuda_no_device.so");
  if (dlopen(file.c_str(), RTLD_NOW) != nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(file, ": ", dlerror()));
}

}  // namespace cotan::cuda::sim
