// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/testing/test_device.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/cuda/open_cuda_device.h"

namespace cotan::cuda::testing {
namespace {

absl::string_view DeviceName() {
  const char* const name = std::getenv("COTAN_TEST_DEVICE");
  return name == nullptr ? "cuda_sim" : name;
}

}  // namespace

bool TestDevice::IsGpu() { return DeviceName() == "cuda"; }

absl::StatusOr<std::unique_ptr<TestDevice>> TestDevice::Create(const SimDevice::Options& options) {
  std::unique_ptr<TestDevice> result(new TestDevice);
  if (IsGpu()) {
    COTAN_ASSIGN_OR_RETURN(result->gpu_, OpenCudaDevice({.tf32 = options.tf32,
                                                         .programmatic_launch = options.kernels_begin_early,
                                                         .parallel_branches = options.records_branches,
                                                         .kernel_cache = options.kernel_cache}));
    COTAN_ASSIGN_OR_RETURN(result->device_, AsCudaDevice(result->gpu_.get()));
    return result;
  }
  if (DeviceName() != "cuda_sim") {
    return absl::InvalidArgumentError(
        absl::StrCat("COTAN_TEST_DEVICE=", DeviceName(), ": known are cuda and cuda_sim"));
  }
  COTAN_ASSIGN_OR_RETURN(result->simulated_, SimDevice::Create(options));
  result->device_ = &result->simulated_->device();
  return result;
}

}  // namespace cotan::cuda::testing
