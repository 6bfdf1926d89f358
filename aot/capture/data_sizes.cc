// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/data_sizes.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

DataSizeTable*& CurrentTable() {
  thread_local DataSizeTable* table = nullptr;
  return table;
}

std::optional<SizeRange>& ScopedRange() {
  thread_local std::optional<SizeRange> range;
  return range;
}

absl::Status CheckRange(absl::string_view what, const SizeRange& range) {
  if (range.min >= 0 && range.max >= 1 && range.min <= range.max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tracing.data_dependent_sizes.", what, " is [", range.min, ", ",
                                                 range.max, "]; a range is within [0, ...] and holds 1 or more"));
}

}  // namespace

std::optional<SizeRange> DataDependentSizes::RangeOf(const std::string& name) const {
  const std::optional<SizeRange>& scoped = ScopedRange();
  for (const auto& [pattern, own] : by_name) {
    if (fnmatch(pattern.c_str(), name.c_str(), 0) != 0) continue;
    if (!scoped.has_value()) return own;
    return SizeRange{.min = std::max(own.min, scoped->min), .max = std::min(own.max, scoped->max)};
  }
  return scoped.has_value() ? scoped : range;
}

DataRangeScope::DataRangeScope(std::optional<SizeRange> range) : previous_(std::exchange(ScopedRange(), range)) {}
DataRangeScope::~DataRangeScope() { ScopedRange() = previous_; }

absl::Status CheckDataDependentSizes(const DataDependentSizes& declared) {
  if (declared.range.has_value()) COTAN_RETURN_IF_ERROR(CheckRange("range", *declared.range));
  for (const auto& [pattern, range] : declared.by_name) {
    COTAN_RETURN_IF_ERROR(CheckRange(absl::StrCat("by_name['", pattern, "']"), range));
  }
  return absl::OkStatus();
}

int64_t DataSizeTable::SizeOf(const std::string& name, const SizeRange& range, int64_t counted) {
  const auto found =
      std::find_if(sizes_.begin(), sizes_.end(), [&name](const DataSize& size) { return size.name == name; });
  if (counts_.has_value() && found != sizes_.end()) return (*counts_)[static_cast<size_t>(found - sizes_.begin())];
  if (counts_.has_value()) {
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat("'", name, "', a size that depends on data, exists at some sizes only")));
    return counted;
  }
  if (counted < range.min || counted > range.max) {
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat("'", name, "' has ", counted, " elements with the example inputs, and its declared range is [",
                     range.min, ", ", range.max, "]: widen it (CompileOptions.tracing.data_dependent_sizes)")));
  }
  if (found == sizes_.end()) sizes_.push_back({name, range, counted});
  return counted;
}

DataSizeTable::Recording& DataSizeTable::Of(std::shared_ptr<const void> epoch) {
  for (const std::unique_ptr<Recording>& recording : recordings_) {
    if (recording->epoch == epoch) return *recording;
  }
  recordings_.push_back(std::make_unique<Recording>());
  recordings_.back()->epoch = std::move(epoch);
  return *recordings_.back();
}

DataSizeScope::DataSizeScope(DataSizeTable* table) { CurrentTable() = table; }
DataSizeScope::~DataSizeScope() { CurrentTable() = nullptr; }

DataSizeTable* CurrentDataSizes() { return CurrentTable(); }

}  // namespace cotan::aot
