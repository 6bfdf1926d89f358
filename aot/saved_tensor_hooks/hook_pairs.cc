// SPDX-License-Identifier: Apache-2.0

#include "aot/saved_tensor_hooks/hook_pairs.h"

#include <ATen/ATen.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace cotan::aot {
namespace {

// Smallest scale: that of a value of zeros.
constexpr double kMinScale = 1e-30;

SavedTensorHooks Named(SavedTensorHooks hooks, std::string name) {
  hooks.min_elements = kMinPackedElements;
  hooks.cache_key = std::move(name);
  return hooks;
}

// Returns hooks that convert to `format`.
SavedTensorHooks CastHooks(at::ScalarType format) {
  using Values = std::pair<at::Tensor, at::ScalarType>;
  return MakeSavedTensorHooks(
      [format](const at::Tensor& x) {
        const bool is_smaller = static_cast<int64_t>(at::elementSize(format)) < x.element_size();
        return Values(is_smaller ? x.to(format) : x, x.scalar_type());
      },
      [](const Values& packed) { return packed.first.to(packed.second); });
}

// Returns hooks that divide by a scale, so that the largest magnitude becomes `largest`, and convert to `format`.
SavedTensorHooks ScaledHooks(at::ScalarType format, double largest) {
  using Values = std::tuple<at::Tensor, at::Tensor, at::ScalarType>;
  return MakeSavedTensorHooks(
      [format, largest](const at::Tensor& x) {
        const at::Tensor wide = x.to(at::kFloat);
        const at::Tensor scale = at::clamp_min(wide.abs().amax() / largest, kMinScale);
        at::Tensor scaled = wide / scale;
        if (!at::isFloatingType(format)) scaled = at::clamp(at::round(scaled), -largest, largest);
        return Values(scaled.to(format), scale, x.scalar_type());
      },
      [](const Values& packed) {
        const auto& [values, scale, dtype] = packed;
        return (values.to(at::kFloat) * scale).to(dtype);
      });
}

struct NamedPair {
  absl::string_view name;
  SavedTensorHooks (*make)();
};

constexpr NamedPair kPairs[] = {
    {"bf16", BFloat16Hooks},
    {"fp8_e4m3", [] { return Float8Hooks(Float8Format::kE4m3fn, /*scaled=*/false); }},
    {"fp8_e4m3_scaled", [] { return Float8Hooks(Float8Format::kE4m3fn, /*scaled=*/true); }},
    {"fp8_e5m2", [] { return Float8Hooks(Float8Format::kE5m2, /*scaled=*/false); }},
    {"fp8_e5m2_scaled", [] { return Float8Hooks(Float8Format::kE5m2, /*scaled=*/true); }},
    {"int8", Int8Hooks},
    {"host", HostOffloadHooks},
};

constexpr HookFilter kFilters[] = {HookFilter::kDonated, HookFilter::kNoStatic, HookFilter::kAll};

}  // namespace

SavedTensorHooks BFloat16Hooks() { return Named(CastHooks(at::kBFloat16), "bf16"); }

SavedTensorHooks Float8Hooks(Float8Format format, bool scaled) {
  const bool is_e4m3 = format == Float8Format::kE4m3fn;
  const at::ScalarType type = is_e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
  const std::string name = is_e4m3 ? "fp8_e4m3" : "fp8_e5m2";
  if (!scaled) return Named(CastHooks(type), name);
  return Named(ScaledHooks(type, is_e4m3 ? 448.0 : 57344.0), absl::StrCat(name, "_scaled"));
}

SavedTensorHooks Int8Hooks() { return Named(ScaledHooks(at::kChar, 127.0), "int8"); }

SavedTensorHooks HostOffloadHooks() {
  const auto same = [](const at::Tensor& x) { return x; };
  SavedTensorHooks hooks = Named(MakeSavedTensorHooks(same, same), "host");
  hooks.on_host = true;
  return hooks;
}

absl::StatusOr<SavedTensorHooks> ParseSavedTensorHooks(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ':');
  for (const NamedPair& pair : kPairs) {
    if (pair.name != words[0] || words.size() > 2) continue;
    SavedTensorHooks hooks = pair.make();
    if (words.size() == 1) return hooks;
    for (const HookFilter filter : kFilters) {
      if (HookFilterName(filter) != words[1]) continue;
      hooks.filter = filter;
      return hooks;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "there are no saved-tensor hooks '", text, "'; there are ",
      absl::StrJoin(kPairs, ", ", [](std::string* out, const NamedPair& pair) { absl::StrAppend(out, pair.name); }),
      ", each with ':donated' (the default), ':no_static' or ':all' after it"));
}

}  // namespace cotan::aot
