// SPDX-License-Identifier: Apache-2.0

// A libcuda.so.1 of a machine without a GPU. cuDNN's runtime-compiled engines, to which attention belongs, refuse to
// make plans where this library or one of these functions is missing (seen with cuDNN 9.19). It truthfully counts no
// device. Parameters that are not used are omitted: the C calling convention of the platform allows that.

namespace {

constexpr int kSuccess = 0;
constexpr int kNotInitialized = 3;
constexpr int kNotSupported = 801;
constexpr int kDriverVersion = 13000;

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = kDriverVersion;
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return kNotInitialized;
}
int cuGetErrorName(int /*error*/, const char** text) {
  *text = "CUDA_ERROR_NO_DEVICE";
  return kSuccess;
}
int cuGetErrorString(int /*error*/, const char** text) {
  *text = "there is no GPU";
  return kSuccess;
}
int cuCtxGetCurrent() { return kNotSupported; }
int cuCtxGetLimit() { return kNotSupported; }
int cuCtxPopCurrent() { return kNotSupported; }
int cuCtxPushCurrent() { return kNotSupported; }
int cuDeviceGet() { return kNotSupported; }
int cuKernelGetAttribute() { return kNotSupported; }
int cuKernelSetAttribute() { return kNotSupported; }
int cuLaunchCooperativeKernel() { return kNotSupported; }
int cuLaunchKernel() { return kNotSupported; }
int cuLaunchKernelEx() { return kNotSupported; }
int cuLibraryGetKernel() { return kNotSupported; }
int cuLibraryLoadData() { return kNotSupported; }
int cuLibraryLoadFromFile() { return kNotSupported; }
int cuLibraryUnload() { return kNotSupported; }
int cuLinkAddData() { return kNotSupported; }
int cuLinkComplete() { return kNotSupported; }
int cuLinkCreate() { return kNotSupported; }
int cuLinkDestroy() { return kNotSupported; }
int cuOccupancyMaxPotentialClusterSize() { return kNotSupported; }
int cuStreamGetCtx() { return kNotSupported; }

}  // extern "C"
