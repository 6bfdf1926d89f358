// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/compiler/kernel_library.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/source/device_library.h"

namespace cotan::cuda {

KernelLibrary::KernelLibrary(const driver::DriverTable& driver, Options options)
    : driver_(driver), options_(std::move(options)), cache_(options_.cache_folder) {}

KernelLibrary::~KernelLibrary() {
  for (driver::CUmodule module : modules_) static_cast<void>(driver_.cuModuleUnload(module));
}

void KernelLibrary::AddImage(absl::string_view text, absl::string_view library_digest,
                             const nvrtc::CompileTarget& target, absl::string_view bytes) {
  if (library_digest != DeviceLibraryDigest() || !Executes(options_.compute_capability, target)) return;
  std::vector<KernelImage>& images = images_[text];
  if (std::any_of(images.begin(), images.end(), [&](const KernelImage& image) { return image.target == target; })) {
    return;
  }
  images.push_back({target, std::string(bytes)});
  // Machine code before PTX, later versions before earlier ones.
  std::stable_sort(images.begin(), images.end(), [](const KernelImage& a, const KernelImage& b) {
    if (a.target.kind != b.target.kind) return a.target.kind == nvrtc::ImageKind::kCubin;
    return a.target.compute_capability > b.target.compute_capability;
  });
}

absl::StatusOr<LoadedKernel> KernelLibrary::Load(const KernelSource& source) {
  if (const auto found = kernels_.find(source.text); found != kernels_.end()) return found->second;
  LoadedKernel kernel;
  COTAN_ASSIGN_OR_RETURN(kernel.module, LoadModule(source, kernel.compute_capability));
  modules_.push_back(kernel.module);
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_,
                                    cuModuleGetFunction(&kernel.function, kernel.module, source.entry.c_str()));
  kernels_[source.text] = kernel;
  return kernel;
}

absl::StatusOr<driver::CUmodule> KernelLibrary::LoadModule(const KernelSource& source, int& compute_capability) {
  if (const auto found = images_.find(source.text); found != images_.end()) {
    for (const KernelImage& image : found->second) {
      // An image that this driver does not take (PTX of a later toolkit) leaves the next one.
      if (absl::StatusOr<driver::CUmodule> module = LoadImage(image.bytes); module.ok()) {
        ++statistics_.from_images;
        compute_capability = image.target.compute_capability;
        return module;
      }
    }
  }
  compute_capability = options_.compute_capability;
  const nvrtc::CompileTarget target = {options_.compiles_to_ptx ? nvrtc::ImageKind::kPtx : nvrtc::ImageKind::kCubin,
                                       options_.compute_capability};
  COTAN_ASSIGN_OR_RETURN(const std::string text, ExpandIncludes(source.text));
  if (const std::optional<std::string> image = cache_.Find(text, target)) {
    // One that this driver does not take, of a machine with another toolkit, is compiled again.
    if (absl::StatusOr<driver::CUmodule> module = LoadImage(*image); module.ok()) {
      ++statistics_.from_cache;
      return module;
    }
  }
  COTAN_ASSIGN_OR_RETURN(const std::string image, Compile(source.entry, text, target));
  return LoadImage(image);
}

absl::StatusOr<std::string> KernelLibrary::Compile(absl::string_view entry, absl::string_view text,
                                                   const nvrtc::CompileTarget& target) {
  absl::StatusOr<std::string> image = nvrtc::Compile(text, target);
  if (absl::IsUnavailable(image.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "kernel '", entry, "' is not compiled for sm_", target.compute_capability, ": ", image.status().message(),
        " Compile the model with --cuda_arch=sm_", target.compute_capability, "."));
  }
  COTAN_RETURN_IF_ERROR(image.status());
  ++statistics_.compiled;
  // Without the cache the next process compiles again.
  cache_.Store(text, target, *image).IgnoreError();
  return image;
}

absl::StatusOr<driver::CUmodule> KernelLibrary::LoadImage(absl::string_view image) {
  // The driver reads PTX as a string, which ends with a zero.
  const std::string bytes(image);
  driver::CUmodule module = nullptr;
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuModuleLoadData(&module, bytes.c_str()));
  return module;
}

}  // namespace cotan::cuda
