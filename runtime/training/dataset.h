// SPDX-License-Identifier: Apache-2.0

// Training data in memory: named tensors with one leading dimension of examples.
#ifndef COTAN_RUNTIME_TRAINING_DATASET_H_
#define COTAN_RUNTIME_TRAINING_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/tensor/tensor.h"

namespace cotan::training {

// A value of every example.
struct Column {
  std::string name;  // for messages and for finding it: "images", "age"
  Tensor values;     // row-major on the host, [examples, ...]

  // Returns the elements of one example.
  int64_t example_elements() const;
  // Returns the bytes of one example.
  size_t example_bytes() const;
};

// Columns of equally many examples. Copies share the tensors, whose elements must not change. Any number of threads may
// read it.
class Dataset {
 public:
  // InvalidArgument: there are no columns or no examples; two columns have one name; a tensor is undefined, 0-d, not
  // row-major or not on the host; or the numbers of examples differ. The message names the column.
  static absl::StatusOr<Dataset> Create(std::vector<Column> columns);

  int64_t size() const { return size_; }  // examples, at least 1
  absl::Span<const Column> columns() const { return columns_; }

  // Returns the columns of these names, in this order.
  // NotFound: there is no such column; the message lists all of them.
  absl::StatusOr<Dataset> Select(absl::Span<const std::string> names) const;
  // Returns copies of the examples with these indexes, each in [0, size()).
  // InvalidArgument: there are none. ResourceExhausted: the host has not enough memory.
  absl::StatusOr<Dataset> Rows(absl::Span<const int64_t> rows) const;

  // Returns the CRC-32C of all elements, column after column.
  uint32_t Checksum() const;

 private:
  Dataset(std::vector<Column> columns, int64_t size) : columns_(std::move(columns)), size_(size) {}

  std::vector<Column> columns_;
  int64_t size_ = 0;
};

// Two parts of a dataset without common examples.
struct DatasetSplit {
  Dataset train;
  Dataset held_out;
};

// Holds out `fraction` of the examples, rounded up: the first ones of the order that ShuffledOrder() gives for epoch 0
// of `seed` + 1. Each part keeps the order of the data.
// InvalidArgument: `fraction` is not in (0, 1), or leaves no example to train on.
absl::StatusOr<DatasetSplit> HoldOut(const Dataset& data, double fraction, uint64_t seed);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_DATASET_H_
