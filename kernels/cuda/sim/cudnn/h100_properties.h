// SPDX-License-Identifier: Apache-2.0

// The properties of an NVIDIA H100 SXM as cuDNN takes them for plans without a device.
#ifndef COTAN_KERNELS_CUDA_SIM_CUDNN_H100_PROPERTIES_H_
#define COTAN_KERNELS_CUDA_SIM_CUDNN_H100_PROPERTIES_H_

namespace cotan::cuda::sim {

// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION of that device in cuDNN 9.19, but for the index on the bus.
inline constexpr char kH100Properties[] = R"({
  "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
  "isTccDriver": 0, "supportCoopLaunch": 1, "multiProcessorCount": 132, "smClockRateKHz": 1980000,
  "memClockRateKHz": 2619000, "totalGlobalMem": 85017493504, "l2CacheSize": 52428800, "warpSize": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "regsPerBlock": 65536,
  "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxBlockSize": [1024, 1024, 64], "maxGridSize": [2147483647, 65535, 65535]
})";

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUDNN_H100_PROPERTIES_H_
