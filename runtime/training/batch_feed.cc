// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/batch_feed.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/schema/continuation.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::training {
namespace {

using serialization::Method;

std::string Quoted(absl::string_view name) { return absl::StrCat("'", name, "'"); }

absl::Status CheckCounts(const Program& program, const Method& method, const Dataset& data) {
  const int num_arguments = NumArguments(program.artifact(), method);
  if (static_cast<size_t>(num_arguments) == data.columns().size()) return absl::OkStatus();
  std::vector<std::string> inputs, columns;
  for (int i = 0; i < num_arguments; ++i) inputs.push_back(Quoted(program.InputName(method, i)));
  for (const Column& column : data.columns()) columns.push_back(Quoted(column.name));
  return absl::InvalidArgumentError(absl::StrCat("method '", method.name(), "' has ", inputs.size(), " inputs (",
                                                 absl::StrJoin(inputs, ", "), "), but the data has ", columns.size(),
                                                 " columns for it (", absl::StrJoin(columns, ", "), ")"));
}

absl::Status CheckNormalization(const Normalization& normalization) {
  const double mean = normalization.mean, deviation = normalization.deviation;
  if (std::isfinite(mean) && std::isfinite(deviation) && deviation != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("normalization: mean = ", mean, ", deviation = ", deviation,
                                                 "; expected finite numbers and a deviation other than 0"));
}

}  // namespace

absl::StatusOr<BatchFeed> BatchFeed::Create(const Program& program, absl::string_view method, Dataset data,
                                            const Normalization& normalization, int normalized) {
  COTAN_ASSIGN_OR_RETURN(const int index, program.FindMethod(method));
  const Method& proto = program.method(index);
  COTAN_RETURN_IF_ERROR(CheckCounts(program, proto, data));
  COTAN_RETURN_IF_ERROR(CheckNormalization(normalization));
  BatchFeed feed(&program, std::move(data));
  for (int i = 0; i < NumArguments(program.artifact(), proto); ++i) {
    COTAN_RETURN_IF_ERROR(feed.AddInput(proto, i, i < normalized ? normalization : Normalization()));
  }
  COTAN_RETURN_IF_ERROR(feed.FindBatch());
  feed.FindOtherSymbols();
  const int64_t batch = std::min(feed.largest_batch_, std::max(feed.smallest_batch_, feed.data_.size()));
  for (size_t i = 0; i < feed.inputs_.size(); ++i) {
    COTAN_RETURN_IF_ERROR(feed.SizesOf(feed.inputs_[i], feed.data_.columns()[i], batch).status());
  }
  feed.arguments_.resize(feed.inputs_.size());
  return feed;
}

absl::Status BatchFeed::AddInput(const Method& method, int index, const Normalization& normalization) {
  const Column& column = data_.columns()[static_cast<size_t>(index)];
  const serialization::TensorType& type = method.values(static_cast<int>(method.inputs(index))).type();
  Input input;
  input.name = program_->InputName(method, index);
  input.dtype = ToDType(type.dtype());
  if (IsFloatingPoint(input.dtype)) input.normalization = normalization;
  for (const std::string& text : type.sizes()) {
    COTAN_ASSIGN_OR_RETURN(SymInt size, ParseSize(text, program_->artifact().symbols_size()));
    input.sizes.push_back(std::move(size));
  }
  if (input.sizes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("input '", input.name, "' of method '", method.name(), "' is ",
                                                   TensorTypeText(type), ", which has no dimension of examples"));
  }
  const DType from = column.values.dtype();
  const bool is_copied = from == input.dtype && input.normalization == Normalization() && from != DType::kBool;
  if (!is_copied) {
    input.conversion = FindConversion(from, input.dtype);
    if (input.conversion.convert == nullptr) {
      return absl::UnimplementedError(absl::StrCat("column '", column.name, "' is ", DTypeName(from),
                                                   " and is not converted to ", DTypeName(input.dtype), " of input '",
                                                   input.name, "'; store it as ", DTypeName(input.dtype)));
    }
    const int64_t inexact = input.conversion.first_inexact(static_cast<const char*>(column.values.address()),
                                                           static_cast<size_t>(column.values.num_elements()));
    if (inexact >= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "column '", column.name, "', example ", inexact / std::max<int64_t>(column.example_elements(), 1),
          ": a value is not a number of ", DTypeName(input.dtype), ", the dtype of input '", input.name, "'"));
    }
  }
  inputs_.push_back(std::move(input));
  return absl::OkStatus();
}

absl::Status BatchFeed::FindBatch() {
  const SymInt& batch = inputs_[0].sizes[0];
  for (const serialization::SymbolProto& symbol : program_->artifact().symbols()) symbols_.push_back(symbol.min());
  if (batch.kind() == SymInt::Kind::kConstant) {
    smallest_batch_ = largest_batch_ = batch.constant();
    return absl::OkStatus();
  }
  if (batch.kind() != SymInt::Kind::kSymbol) {
    return absl::UnimplementedError(absl::StrCat("input '", inputs_[0].name, "' begins with the size ",
                                                 batch.ToString(), "; expected a number or one dynamic dimension"));
  }
  batch_symbol_ = batch.symbol();
  smallest_batch_ = program_->artifact().symbols(batch_symbol_).min();
  largest_batch_ = program_->artifact().symbols(batch_symbol_).max();
  return absl::OkStatus();
}

// Takes symbols from columns with as many dimensions as their input.
void BatchFeed::FindOtherSymbols() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const absl::Span<const int64_t> sizes = data_.columns()[i].values.sizes();
    if (sizes.size() != inputs_[i].sizes.size()) continue;
    for (size_t d = 1; d < sizes.size(); ++d) {
      const SymInt& size = inputs_[i].sizes[d];
      if (size.kind() == SymInt::Kind::kSymbol) symbols_[static_cast<size_t>(size.symbol())] = sizes[d];
    }
  }
}

absl::StatusOr<DimVector> BatchFeed::SizesOf(const Input& input, const Column& column, int64_t batch) {
  if (batch_symbol_ >= 0) symbols_[static_cast<size_t>(batch_symbol_)] = batch;
  DimVector sizes;
  for (const SymInt& size : input.sizes) {
    COTAN_ASSIGN_OR_RETURN(const int64_t value, size.Evaluate(symbols_));
    sizes.push_back(value);
  }
  if (BoundedElements(sizes) == batch * column.example_elements()) return sizes;
  return absl::InvalidArgumentError(absl::StrCat("column '", column.name, "' has ", column.example_elements(),
                                                 " elements in an example (", column.values.ToString(),
                                                 "), which do not fill input '", input.name, "' of sizes [",
                                                 absl::StrJoin(sizes, ","), "] for a batch of ", batch));
}

absl::StatusOr<absl::Span<const Tensor>> BatchFeed::Load(absl::Span<const int64_t> rows) {
  const auto batch = static_cast<int64_t>(rows.size());
  if (batch < smallest_batch_ || batch > largest_batch_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", batch, " examples; the program takes ", smallest_batch_, " to ", largest_batch_));
  }
  for (size_t i = 0; i < inputs_.size(); ++i) COTAN_RETURN_IF_ERROR(LoadInput(i, rows));
  return absl::Span<const Tensor>(arguments_);
}

absl::Status BatchFeed::LoadInput(size_t index, absl::Span<const int64_t> rows) {
  Input& input = inputs_[index];
  const Column& column = data_.columns()[index];
  COTAN_ASSIGN_OR_RETURN(DimVector sizes, SizesOf(input, column, static_cast<int64_t>(rows.size())));
  const auto elements = static_cast<size_t>(column.example_elements());
  const size_t to_bytes = elements * ByteSize(input.dtype), from_bytes = column.example_bytes();
  if (input.storage == nullptr || input.storage->bytes() < rows.size() * to_bytes) {
    COTAN_ASSIGN_OR_RETURN(input.storage, Storage::Allocate(HostDevice(), rows.size() * to_bytes));
  }
  const char* const from = static_cast<const char*>(column.values.address());
  char* to = static_cast<char*>(input.storage->data());
  for (size_t i = 0; elements != 0 && i < rows.size(); ++i, to += to_bytes) {
    const char* const row = from + static_cast<size_t>(rows[i]) * from_bytes;
    if (input.conversion.convert == nullptr) {
      std::memcpy(to, row, to_bytes);
    } else {
      input.conversion.convert(row, to, elements, input.normalization.mean, input.normalization.deviation);
    }
  }
  StridedLayout layout;
  layout.strides = ContiguousStrides(sizes);
  layout.sizes = std::move(sizes);
  COTAN_ASSIGN_OR_RETURN(arguments_[index], Tensor::InStorage(input.storage, input.dtype, std::move(layout)));
  return absl::OkStatus();
}

}  // namespace cotan::training
