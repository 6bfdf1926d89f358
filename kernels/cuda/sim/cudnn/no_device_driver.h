// SPDX-License-Identifier: Apache-2.0

// The driver of a machine without a GPU, for cuDNN's runtime-compiled engines.
#ifndef COTAN_KERNELS_CUDA_SIM_CUDNN_NO_DEVICE_DRIVER_H_
#define COTAN_KERNELS_CUDA_SIM_CUDNN_NO_DEVICE_DRIVER_H_

#include "absl/status/status.h"

namespace cotan::cuda::sim {

// Lets cuDNN make plans of operation graphs that it compiles at run time, such as attention, without a GPU: unless the
// machine has a libcuda.so.1, loads one that says that there is no device. For the whole process, before the first
// plan. NotFound: the library is not among the data of the test.
absl::Status LoadNoDeviceDriver();

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUDNN_NO_DEVICE_DRIVER_H_
