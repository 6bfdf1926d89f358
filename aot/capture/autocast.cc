// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/autocast.h"

#include <ATen/autocast_mode.h>

#include "absl/strings/str_cat.h"

namespace cotan::aot {
namespace {

constexpr at::DeviceType kDevice = at::kCPU;

}  // namespace

absl::Status CheckAutocast(DType dtype) {
  if (dtype == DType::kUndefined || dtype == DType::kBFloat16 || dtype == DType::kFloat16) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("autocast to ", DTypeName(dtype), " is not supported; use bf16 or f16"));
}

AutocastScope::AutocastScope(DType dtype)
    : previous_{at::autocast::is_autocast_enabled(kDevice), at::autocast::is_autocast_cache_enabled(),
                static_cast<int>(at::autocast::get_autocast_dtype(kDevice))} {
  at::autocast::set_autocast_enabled(kDevice, dtype != DType::kUndefined);
  at::autocast::set_autocast_cache_enabled(false);
  if (dtype == DType::kUndefined) return;
  at::autocast::set_autocast_dtype(kDevice, dtype == DType::kFloat16 ? at::kHalf : at::kBFloat16);
}

AutocastScope::~AutocastScope() {
  at::autocast::set_autocast_enabled(kDevice, previous_.enabled);
  at::autocast::set_autocast_cache_enabled(previous_.caches);
  at::autocast::set_autocast_dtype(kDevice, static_cast<at::ScalarType>(previous_.dtype));
}

}  // namespace cotan::aot
