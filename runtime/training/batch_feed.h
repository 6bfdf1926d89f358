// SPDX-License-Identifier: Apache-2.0

// Batches of a dataset as arguments of a method.
#ifndef COTAN_RUNTIME_TRAINING_BATCH_FEED_H_
#define COTAN_RUNTIME_TRAINING_BATCH_FEED_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/sym_int.h"
#include "runtime/execution/program.h"
#include "runtime/tensor/tensor.h"
#include "runtime/training/dataset.h"
#include "runtime/training/element_conversion.h"

namespace cotan::training {

// Inputs with a floating-point dtype become (value - mean) / deviation.
struct Normalization {
  double mean = 0;
  double deviation = 1;
  friend bool operator==(const Normalization&, const Normalization&) = default;
};

// Copies examples to the arguments of a method and converts them to the dtypes and sizes of its inputs: elements are
// taken in row-major order, so that u8[28,28] becomes f32[1,28,28]. Movable; not thread-safe.
class BatchFeed {
 public:
  // Column i becomes input i. The first dimension of input 0 is the batch: a constant or a symbol of the program. Other
  // symbols get the sizes of the data. The first `normalized` inputs are normalized. The feed shares the tensors of
  // `data`; `program` outlives it.
  // NotFound: there is no such method.
  // InvalidArgument: the numbers of columns and inputs differ, an input has no dimension of examples, a column has
  // another number of elements than its input, an element is not exact in the input's dtype (a class of 2.5), or the
  // normalization is not finite or divides by 0. The message names input and column.
  // Unimplemented: the sizes of input 0 begin with an expression, or the dtypes cannot be converted.
  static absl::StatusOr<BatchFeed> Create(const Program& program, absl::string_view method, Dataset data,
                                          const Normalization& normalization, int normalized);

  // Return the range of the batch size. Equal if the program was compiled for one size.
  int64_t smallest_batch() const { return smallest_batch_; }
  int64_t largest_batch() const { return largest_batch_; }
  const Dataset& data() const { return data_; }

  // Returns arguments with the examples of these indexes. Valid until the next call, which writes to the same memory.
  // InvalidArgument: rows.size() is not a batch size of the program. ResourceExhausted: the host has not enough memory.
  absl::StatusOr<absl::Span<const Tensor>> Load(absl::Span<const int64_t> rows);

 private:
  struct Input {
    std::string name;
    DType dtype = DType::kUndefined;
    SymIntVector sizes;
    Normalization normalization;
    ElementConversion conversion;      // its functions are null if elements are copied
    std::shared_ptr<Storage> storage;  // of the largest batch so far
  };

  BatchFeed(const Program* program, Dataset data) : program_(program), data_(std::move(data)) {}
  absl::Status AddInput(const serialization::Method& method, int index, const Normalization& normalization);
  absl::Status FindBatch();
  void FindOtherSymbols();
  // Returns the sizes of an input for a batch, after a check of their elements.
  absl::StatusOr<DimVector> SizesOf(const Input& input, const Column& column, int64_t batch);
  absl::Status LoadInput(size_t index, absl::Span<const int64_t> rows);

  const Program* program_;
  Dataset data_;
  std::vector<Input> inputs_;
  std::vector<Tensor> arguments_;
  std::vector<int64_t> symbols_;
  int batch_symbol_ = -1;  // -1: the batch is a constant
  int64_t smallest_batch_ = 0;
  int64_t largest_batch_ = 0;
};

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_BATCH_FEED_H_
