// SPDX-License-Identifier: Apache-2.0

// NVRTC, the vendor's compiler of CUDA C++ as a library, opened with dlopen: it needs no GPU and no driver.
#ifndef COTAN_KERNELS_CUDA_NVRTC_NVRTC_TABLE_H_
#define COTAN_KERNELS_CUDA_NVRTC_NVRTC_TABLE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// The vendor's opaque type.
struct _nvrtcProgram;

namespace cotan::cuda::nvrtc {

// The functions in use, as X(symbol, parameters), each returning an nvrtcResult.
#define COTAN_NVRTC_FUNCTIONS(X)                                                                        \
  X(nvrtcVersion, (int* major, int* minor))                                                             \
  X(nvrtcCreateProgram, (_nvrtcProgram * *program, const char* text, const char* name, int num_headers, \
                         const char* const* headers, const char* const* include_names))                 \
  X(nvrtcDestroyProgram, (_nvrtcProgram * *program))                                                    \
  X(nvrtcCompileProgram, (_nvrtcProgram * program, int num_options, const char* const* options))        \
  X(nvrtcGetProgramLogSize, (_nvrtcProgram * program, size_t * bytes))                                  \
  X(nvrtcGetProgramLog, (_nvrtcProgram * program, char* log))                                           \
  X(nvrtcGetPTXSize, (_nvrtcProgram * program, size_t * bytes))                                         \
  X(nvrtcGetPTX, (_nvrtcProgram * program, char* ptx))                                                  \
  X(nvrtcGetCUBINSize, (_nvrtcProgram * program, size_t * bytes))                                       \
  X(nvrtcGetCUBIN, (_nvrtcProgram * program, char* cubin))

// The loaded library. Thread-safe; never unloaded.
struct NvrtcTable {
#define COTAN_NVRTC_FUNCTION(name, parameters) int(*name) parameters = nullptr;
  COTAN_NVRTC_FUNCTIONS(COTAN_NVRTC_FUNCTION)
#undef COTAN_NVRTC_FUNCTION
  const char* (*nvrtcGetErrorString)(int result) = nullptr;

  // Returns the library, which the first call loads.
  // Unavailable: the library is not installed, or lacks a function.
  static absl::StatusOr<const NvrtcTable*> Get();
};

// The forms of a compiled kernel.
enum class ImageKind {
  kPtx,    // text; the driver translates it for any later GPU
  kCubin,  // machine code of one architecture
};

struct CompileTarget {
  ImageKind kind = ImageKind::kPtx;
  int compute_capability = 90;  // ten times the major plus the minor version: 80, 90, 100, 120
  friend bool operator==(const CompileTarget&, const CompileTarget&) = default;
};

// Compiles `text`, CUDA C++ without includes, with the options that KernelSource states. Deterministic.
// Unavailable: NVRTC is not installed.
// Internal: the text has errors; the message has the compiler's log.
absl::StatusOr<std::string> Compile(absl::string_view text, const CompileTarget& target);

}  // namespace cotan::cuda::nvrtc

#endif  // COTAN_KERNELS_CUDA_NVRTC_NVRTC_TABLE_H_
