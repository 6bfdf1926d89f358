// SPDX-License-Identifier: Apache-2.0

// The types of NCCL that the engine for groups of GPUs uses, so that it is built without NCCL. Names, values and
// layouts are those of <nccl.h> 2; nccl_types_test.cc compares them where the header is installed.
#ifndef COTAN_KERNELS_CUDA_NCCL_NCCL_TYPES_H_
#define COTAN_KERNELS_CUDA_NCCL_NCCL_TYPES_H_

#include <climits>
#include <cstddef>

// The tags of the vendor's opaque handles.
struct ncclComm;
struct CUstream_st;

namespace cotan::cuda::nccl {

using ncclComm_t = ::ncclComm*;
using cudaStream_t = ::CUstream_st*;

// Names a group that is about to be made. Sent as bytes.
struct ncclUniqueId {
  char internal[128];
};

// How a communicator behaves. The vendor's structure has more members, behind these; `size` and `version` say that they
// have their default values.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;  // 2.14
  int blocking = INT_MIN;    // INT_MIN: the default, 1
};

enum ncclResult_t : unsigned {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t : unsigned { ncclInt32 = 2, ncclFloat32 = 7, ncclFloat64 = 8 };

}  // namespace cotan::cuda::nccl

#endif  // COTAN_KERNELS_CUDA_NCCL_NCCL_TYPES_H_
