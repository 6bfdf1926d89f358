// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/nvrtc/nvrtc_table.h"

#include <dlfcn.h>

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda::nvrtc {
namespace {

absl::StatusOr<NvrtcTable> Load() {
  void* library = nullptr;
  for (const char* file : {"libnvrtc.so.13", "libnvrtc.so"}) {
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("kernels cannot be compiled: ", dlerror(),
                                               ". Install NVRTC of CUDA 13, or compile the model with --cuda_arch."));
  }
  NvrtcTable table;
#define COTAN_NVRTC_FUNCTION(name, parameters)                                                      \
  table.name = reinterpret_cast<int(*) parameters>(dlsym(library, #name));                          \
  if (table.name == nullptr) {                                                                      \
    return absl::UnavailableError("libnvrtc has no function " #name ". Install NVRTC of CUDA 13."); \
  }
  COTAN_NVRTC_FUNCTIONS(COTAN_NVRTC_FUNCTION)
#undef COTAN_NVRTC_FUNCTION
  table.nvrtcGetErrorString = reinterpret_cast<const char* (*)(int)>(dlsym(library, "nvrtcGetErrorString"));
  if (table.nvrtcGetErrorString == nullptr) return absl::UnavailableError("libnvrtc has no nvrtcGetErrorString");
  return table;
}

// A program of NVRTC.
class Unit {
 public:
  explicit Unit(const NvrtcTable& nvrtc) : nvrtc_(nvrtc) {}
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  ~Unit() { nvrtc_.nvrtcDestroyProgram(&program_); }

  absl::Status Compile(const std::string& text, const CompileTarget& target) {
    COTAN_RETURN_IF_ERROR(Check(nvrtc_.nvrtcCreateProgram(&program_, text.c_str(), "kernel.cu", 0, nullptr, nullptr),
                                "nvrtcCreateProgram"));
    const std::string arch = absl::StrCat("--gpu-architecture=", target.kind == ImageKind::kPtx ? "compute_" : "sm_",
                                          target.compute_capability);
    const std::array<const char*, 3> options = {arch.c_str(), "--std=c++17", "--fmad=false"};
    const int result = nvrtc_.nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data());
    if (result == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("nvrtcCompileProgram: ", nvrtc_.nvrtcGetErrorString(result), "\n", Log()));
  }

  absl::StatusOr<std::string> Image(ImageKind kind) {
    size_t bytes = 0;
    const bool ptx = kind == ImageKind::kPtx;
    COTAN_RETURN_IF_ERROR(
        Check(ptx ? nvrtc_.nvrtcGetPTXSize(program_, &bytes) : nvrtc_.nvrtcGetCUBINSize(program_, &bytes), "size"));
    std::string image(bytes, '\0');
    COTAN_RETURN_IF_ERROR(Check(
        ptx ? nvrtc_.nvrtcGetPTX(program_, image.data()) : nvrtc_.nvrtcGetCUBIN(program_, image.data()), "image"));
    if (ptx && !image.empty() && image.back() == '\0') image.pop_back();
    return image;
  }

 private:
  absl::Status Check(int result, absl::string_view call) const {
    if (result == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("NVRTC, ", call, ": ", nvrtc_.nvrtcGetErrorString(result)));
  }

  std::string Log() const {
    size_t bytes = 0;
    if (nvrtc_.nvrtcGetProgramLogSize(program_, &bytes) != 0) return "";
    std::string log(bytes, '\0');
    return nvrtc_.nvrtcGetProgramLog(program_, log.data()) == 0 ? log : "";
  }

  const NvrtcTable& nvrtc_;
  _nvrtcProgram* program_ = nullptr;
};

}  // namespace

absl::StatusOr<const NvrtcTable*> NvrtcTable::Get() {
  static const absl::StatusOr<NvrtcTable>& table = *new absl::StatusOr<NvrtcTable>(Load());
  if (!table.ok()) return table.status();
  return &*table;
}

absl::StatusOr<std::string> Compile(absl::string_view text, const CompileTarget& target) {
  COTAN_ASSIGN_OR_RETURN(const NvrtcTable* nvrtc, NvrtcTable::Get());
  Unit unit(*nvrtc);
  COTAN_RETURN_IF_ERROR(unit.Compile(std::string(text), target));
  return unit.Image(target.kind);
}

}  // namespace cotan::cuda::nvrtc
