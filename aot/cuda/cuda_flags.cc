// SPDX-License-Identifier: Apache-2.0

#include "aot/cuda/cuda_flags.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

constexpr int kOldest = 80;

absl::Status NotUnderstood(absl::string_view flag, absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(flag, "=", text, ": ", why));
}

absl::StatusOr<DimVector> ParseOne(absl::string_view text, const serialization::Artifact& artifact) {
  constexpr int64_t kUnset = -1;
  DimVector sizes(static_cast<size_t>(artifact.symbols_size()), kUnset);
  for (absl::string_view part : absl::StrSplit(text, ':')) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    int64_t value = 0;
    if (!absl::SimpleAtoi(pair.second, &value)) return NotUnderstood("--cuda_sizes", text, "write batch=8:length=64");
    bool found = false;
    for (int i = 0; i < artifact.symbols_size(); ++i) {
      const serialization::SymbolProto& symbol = artifact.symbols(i);
      if (symbol.name() != pair.first) continue;
      if (value < symbol.min() || value > symbol.max()) {
        return NotUnderstood("--cuda_sizes", text,
                             absl::StrCat("'", symbol.name(), "' is in [", symbol.min(), ", ", symbol.max(), "]"));
      }
      sizes[static_cast<size_t>(i)] = value;
      found = true;
    }
    if (!found) {
      return NotUnderstood("--cuda_sizes", text, absl::StrCat("there is no dynamic dimension '", pair.first, "'"));
    }
  }
  for (int i = 0; i < artifact.symbols_size(); ++i) {
    if (sizes[static_cast<size_t>(i)] == kUnset) {
      return NotUnderstood("--cuda_sizes", text, absl::StrCat("'", artifact.symbols(i).name(), "' has no value"));
    }
  }
  return sizes;
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCudaArchitectures(absl::Span<const std::string> architectures) {
  std::vector<int> capabilities;
  for (const std::string& text : architectures) {
    absl::string_view number = text;
    int capability = 0;
    if (!absl::ConsumePrefix(&number, "sm_") || !absl::SimpleAtoi(number, &capability) || capability < kOldest) {
      return NotUnderstood("--cuda_arch", text, "write sm_90; sm_80 and later are supported");
    }
    capabilities.push_back(capability);
  }
  std::sort(capabilities.begin(), capabilities.end());
  capabilities.erase(std::unique(capabilities.begin(), capabilities.end()), capabilities.end());
  return capabilities;
}

absl::StatusOr<std::vector<DimVector>> ParseCudaSizes(absl::Span<const std::string> texts,
                                                      const serialization::Artifact& artifact) {
  std::vector<DimVector> sizes;
  for (const std::string& text : texts) {
    COTAN_ASSIGN_OR_RETURN(sizes.emplace_back(), ParseOne(text, artifact));
  }
  if (!sizes.empty()) return sizes;
  DimVector& largest = sizes.emplace_back();
  for (const serialization::SymbolProto& symbol : artifact.symbols()) largest.push_back(symbol.max());
  return sizes;
}

}  // namespace cotan::aot
