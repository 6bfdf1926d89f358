// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "runtime/training/shuffle.h"

namespace cotan::training {
namespace {

absl::string_view BytesOf(const Column& column) {
  return {static_cast<const char*>(column.values.address()),
          static_cast<size_t>(column.values.sizes()[0]) * column.example_bytes()};
}

absl::Status CheckColumn(const Column& column, int64_t size) {
  const Tensor& values = column.values;
  if (!values.defined() || values.sizes().empty() || !values.is_contiguous() || !values.is_plain() ||
      values.device().type() != DeviceType::kCpu) {
    return absl::InvalidArgumentError(absl::StrCat("column '", column.name, "' is ", values.ToString(),
                                                   "; expected a row-major tensor on the host, [examples, ...]"));
  }
  if (values.sizes()[0] == size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("column '", column.name, "' has ", values.sizes()[0], " examples, but the first column has ", size));
}

}  // namespace

int64_t Column::example_elements() const { return NumElements(values.sizes().subspan(1)); }

size_t Column::example_bytes() const { return static_cast<size_t>(example_elements()) * ByteSize(values.dtype()); }

absl::StatusOr<Dataset> Dataset::Create(std::vector<Column> columns) {
  if (columns.empty()) return absl::InvalidArgumentError("a dataset needs at least one column");
  const Tensor& first = columns[0].values;
  const int64_t size = first.defined() && !first.sizes().empty() ? first.sizes()[0] : 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    COTAN_RETURN_IF_ERROR(CheckColumn(columns[i], size));
    for (size_t j = 0; j < i; ++j) {
      if (columns[j].name == columns[i].name) {
        return absl::InvalidArgumentError(absl::StrCat("two columns are named '", columns[i].name, "'"));
      }
    }
  }
  if (size == 0) return absl::InvalidArgumentError(absl::StrCat("column '", columns[0].name, "' has no examples"));
  return Dataset(std::move(columns), size);
}

absl::StatusOr<Dataset> Dataset::Select(absl::Span<const std::string> names) const {
  std::vector<Column> selected;
  for (const std::string& name : names) {
    const auto found = std::find_if(columns_.begin(), columns_.end(), [&](const Column& c) { return c.name == name; });
    if (found == columns_.end()) {
      const auto append_name = [](std::string* out, const Column& column) { absl::StrAppend(out, column.name); };
      return absl::NotFoundError(
          absl::StrCat("no column '", name, "'; there are: ", absl::StrJoin(columns_, ", ", append_name)));
    }
    selected.push_back(*found);
  }
  return Create(std::move(selected));
}

absl::StatusOr<Dataset> Dataset::Rows(absl::Span<const int64_t> rows) const {
  if (rows.empty()) return absl::InvalidArgumentError("no examples are selected");
  std::vector<Column> selected;
  for (const Column& column : columns_) {
    DimVector sizes(column.values.sizes().begin(), column.values.sizes().end());
    sizes[0] = static_cast<int64_t>(rows.size());
    COTAN_ASSIGN_OR_RETURN(Tensor values, Tensor::Empty(column.values.dtype(), sizes));
    const size_t bytes = column.example_bytes();
    const char* const from = static_cast<const char*>(column.values.address());
    char* to = static_cast<char*>(values.address());
    for (size_t i = 0; bytes != 0 && i < rows.size(); ++i, to += bytes) {
      std::memcpy(to, from + static_cast<size_t>(rows[i]) * bytes, bytes);
    }
    selected.push_back({column.name, std::move(values)});
  }
  return Create(std::move(selected));
}

uint32_t Dataset::Checksum() const {
  uint32_t crc = 0;
  for (const Column& column : columns_) crc = Crc32c(BytesOf(column), crc);
  return crc;
}

absl::StatusOr<DatasetSplit> HoldOut(const Dataset& data, double fraction, uint64_t seed) {
  if (!(fraction > 0 && fraction < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("the held-out fraction is ", fraction, "; expected one in (0, 1)"));
  }
  const auto count = static_cast<int64_t>(std::ceil(fraction * static_cast<double>(data.size())));
  if (count >= data.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a held-out fraction of ", fraction, " leaves none of ", data.size(), " examples to train on"));
  }
  std::vector<int64_t> order = ShuffledOrder(data.size(), seed + 1, 0);
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());
  const absl::Span<const int64_t> rows = order;
  COTAN_ASSIGN_OR_RETURN(Dataset held_out, data.Rows(rows.first(static_cast<size_t>(count))));
  COTAN_ASSIGN_OR_RETURN(Dataset train, data.Rows(rows.subspan(static_cast<size_t>(count))));
  return DatasetSplit{std::move(train), std::move(held_out)};
}

}  // namespace cotan::training
