// SPDX-License-Identifier: Apache-2.0

// Sizes that depend on data: their declaration, and the sizes that a trace has in their place. No LibTorch.
#ifndef COTAN_AOT_CAPTURE_DATA_SIZES_H_
#define COTAN_AOT_CAPTURE_DATA_SIZES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/layout.h"

namespace cotan::aot {

// Range of a size, inclusive.
struct SizeRange {
  int64_t min = 0;
  int64_t max = 0;
  friend bool operator==(const SizeRange&, const SizeRange&) = default;
};

// Declares how many elements an op may return whose result has as many as the data decides: nonzero, masked_select,
// x[mask], unique, repeat_interleave. A call whose data has more, or fewer than the minimum, fails with
// InvalidArgument.
struct DataDependentSizes {
  // The range of every op without an entry in `by_name` or a range in the .pt2 archive; unset: such ops are refused.
  std::optional<SizeRange> range = {};
  // By the name of the size, a pattern with * and ? (fnmatch); the first that matches applies. The name is that of the
  // op that the model calls after that of the module that computes its operand, if that is known: "nonzero",
  // "head.index". The second of a name is "nonzero.1".
  std::vector<std::pair<std::string, SizeRange>> by_name = {};

  bool is_set() const { return range.has_value() || !by_name.empty(); }
  // Returns the range of a size: that of its name, within that of this thread's DataRangeScope; without a pattern that
  // matches, that of the scope, else `range`.
  std::optional<SizeRange> RangeOf(const std::string& name) const;
};

// Declares the range of the sizes of ops that are called on this thread while the object exists; none: no range.
class DataRangeScope {
 public:
  explicit DataRangeScope(std::optional<SizeRange> range);
  ~DataRangeScope();
  DataRangeScope(const DataRangeScope&) = delete;
  DataRangeScope& operator=(const DataRangeScope&) = delete;

 private:
  std::optional<SizeRange> previous_;
};

// InvalidArgument: a range is empty, begins below 0, or has a maximum below 1.
absl::Status CheckDataDependentSizes(const DataDependentSizes& declared);

// A size of a traced model that depends on data.
struct DataSize {
  std::string name;
  SizeRange range;
  int64_t example = 0;  // with the example inputs
};

// The sizes of all methods of a model. The methods are traced at the sizes of the examples first, which finds the
// names, then at given sizes. Not thread-safe.
class DataSizeTable {
 public:
  // `declared` outlives the table.
  explicit DataSizeTable(const DataDependentSizes& declared) : declared_(declared) {}
  // Makes traces have `counts`, one for each of `sizes`, which were found before.
  DataSizeTable(const DataDependentSizes& declared, std::vector<DataSize> sizes, DimVector counts)
      : declared_(declared), sizes_(std::move(sizes)), counts_(std::move(counts)) {}

  const DataDependentSizes& declared() const { return declared_; }
  // Returns the sizes in the order in which they were found.
  const std::vector<DataSize>& sizes() const { return sizes_; }

  // Returns the size of `name` in the present trace: the given one, or `counted`, which the data has. Tracing goes on
  // in spite of an error, which status() then has.
  int64_t SizeOf(const std::string& name, const SizeRange& range, int64_t counted);

  // The counts of the ops of one recording. Recordings are distinguished by their TraceEpoch, which the table
  // keeps.
  struct Recording {
    std::shared_ptr<const void> epoch;
    std::vector<std::pair<int32_t, int64_t>> counts;  // graph value of a count, and the size of the trace
    std::vector<std::string> names;                   // of these sizes, without their numbers
  };
  Recording& Of(std::shared_ptr<const void> epoch);

  // Returns the first error of SizeOf(). InvalidArgument: the examples have a size outside of its range, or a name was
  // not found with them.
  const absl::Status& status() const { return status_; }

 private:
  const DataDependentSizes& declared_;
  std::vector<DataSize> sizes_;
  std::optional<DimVector> counts_;  // by size; unset: the sizes are being found
  absl::Status status_;
  std::vector<std::unique_ptr<Recording>> recordings_;
};

// Makes traces on this thread have the sizes of `table` while the object exists. Scopes do not nest.
class DataSizeScope {
 public:
  explicit DataSizeScope(DataSizeTable* table);
  ~DataSizeScope();
  DataSizeScope(const DataSizeScope&) = delete;
  DataSizeScope& operator=(const DataSizeScope&) = delete;
};

// Returns the table of this thread's DataSizeScope; null: sizes that depend on data are refused.
DataSizeTable* CurrentDataSizes();

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_DATA_SIZES_H_
