// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/pickled_tensors.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "aot/frontend/pt2/archive.h"
#include "aot/frontend/pt2/pickle.h"
#include "base/status_macros.h"

namespace cotan::aot::pt2 {
namespace {

absl::StatusOr<pickle::Value> ReadValue(absl::string_view bytes, const std::string& name) {
  COTAN_ASSIGN_OR_RETURN(const Archive files, Archive::FromBytes(bytes, name));
  COTAN_ASSIGN_OR_RETURN(const std::string content, files.Read("data.pkl"));
  if (files.Has("byteorder")) {
    COTAN_ASSIGN_OR_RETURN(const std::string order, files.Read("byteorder"));
    if (order != "little") return absl::InvalidArgumentError("its numbers are not stored little-endian");
  }
  return pickle::Read(files, content);
}

absl::StatusOr<StoredTensors> ReadDict(absl::string_view bytes, const std::string& name) {
  COTAN_ASSIGN_OR_RETURN(const pickle::Value result, ReadValue(bytes, name));
  const pickle::Dict* dict = std::get_if<pickle::Dict>(&result.v);
  if (dict == nullptr) return absl::InvalidArgumentError("it is not a dict of tensors");
  StoredTensors tensors;
  for (const auto& [key, tensor] : *dict->items) {
    if (!tensor.has_value()) return absl::InvalidArgumentError(absl::StrCat("'", *key.text, "' is not a tensor"));
    tensors.insert_or_assign(*key.text, *tensor);
  }
  return tensors;
}

// Collects the tensors in a value. Tuples may share their items, so that few bytes stand for many values.
class Leaves {
 public:
  absl::Status Add(const pickle::Value& value) {
    if (++num_values_ > kMaxValues) return absl::InvalidArgumentError("it has too many values");
    if (const StoredTensor* stored = std::get_if<StoredTensor>(&value.v)) tensors_.push_back(stored->tensor);
    if (const pickle::Tuple* tuple = std::get_if<pickle::Tuple>(&value.v)) {
      for (const pickle::Value& item : *tuple->items) COTAN_RETURN_IF_ERROR(Add(item));
    }
    if (const pickle::Dict* dict = std::get_if<pickle::Dict>(&value.v)) {
      for (const auto& [key, tensor] : *dict->items) {
        if (tensor.has_value()) tensors_.push_back(tensor->tensor);
      }
    }
    return absl::OkStatus();
  }

  std::vector<at::Tensor> Take() { return std::move(tensors_); }

 private:
  static constexpr int kMaxValues = 100'000;
  int num_values_ = 0;
  std::vector<at::Tensor> tensors_;
};

absl::StatusOr<std::vector<at::Tensor>> ReadLeaves(absl::string_view bytes, const std::string& name) {
  COTAN_ASSIGN_OR_RETURN(const pickle::Value value, ReadValue(bytes, name));
  Leaves leaves;
  COTAN_RETURN_IF_ERROR(leaves.Add(value));
  return leaves.Take();
}

// Returns `result`, or its error with the name of the file.
template <typename T>
absl::StatusOr<T> WithName(absl::StatusOr<T> result, const std::string& name) {
  if (result.ok()) return result;
  return absl::Status(result.status().code(), absl::StrCat("'", name, "': ", result.status().message()));
}

}  // namespace

absl::StatusOr<StoredTensors> ReadPickledTensors(absl::string_view bytes, const std::string& name) {
  return WithName(ReadDict(bytes, name), name);
}

absl::StatusOr<std::vector<at::Tensor>> ReadPickledLeaves(absl::string_view bytes, const std::string& name) {
  return WithName(ReadLeaves(bytes, name), name);
}

}  // namespace cotan::aot::pt2
