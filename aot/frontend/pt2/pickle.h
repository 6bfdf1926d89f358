// SPDX-License-Identifier: Apache-2.0

// Reads pickles that torch.save writes for plain tensors. A pickle is a program that may call any function; this reader
// recognizes only the calls that make a dict, a tensor in a storage, or a parameter, and executes nothing. Private to
// this package.
#ifndef COTAN_AOT_FRONTEND_PT2_PICKLE_H_
#define COTAN_AOT_FRONTEND_PT2_PICKLE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/frontend/pt2/archive.h"
#include "aot/frontend/pt2/weights.h"

namespace cotan::aot::pt2::pickle {

struct Value;
using Values = std::vector<Value>;

struct None {};
struct Mark {};
// Copies share the text, because a pickle may repeat one of its memo any number of times.
struct Text {
  std::shared_ptr<const std::string> text;
};
struct Global {
  Text name;  // "torch._utils _rebuild_tensor_v2"
};
struct Storage {
  at::Tensor elements;  // [n]
};
// Values that are not tensors are kept as unset items. Copies of a dict share it, because a pickle
// changes a dict after it was stored in the memo.
using Items = std::vector<std::pair<Text, std::optional<StoredTensor>>>;
struct Dict {
  std::shared_ptr<Items> items;
};
struct Tuple {
  std::shared_ptr<const Values> items;
  int depth = 0;  // of tuples in it
};

struct Value {
  std::variant<None, Mark, bool, int64_t, double, Text, Global, Storage, StoredTensor, Dict, Tuple> v;
};

// Returns the value that `pickle` makes; storages are the files "data/KEY" of `files`. Tuples are nested at most eight
// deep.
// InvalidArgument: the pickle is damaged. Unimplemented: another call or instruction; the message has its name. Errors
// of Archive::Read().
absl::StatusOr<Value> Read(const Archive& files, absl::string_view pickle);

}  // namespace cotan::aot::pt2::pickle

#endif  // COTAN_AOT_FRONTEND_PT2_PICKLE_H_
