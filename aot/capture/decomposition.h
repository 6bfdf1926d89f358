// SPDX-License-Identifier: Apache-2.0

// Decompositions that the compiler's caller gives, as `decompositions` of PyTorch's aot_function.
#ifndef COTAN_AOT_CAPTURE_DECOMPOSITION_H_
#define COTAN_AOT_CAPTURE_DECOMPOSITION_H_

#include <ATen/core/ivalue.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cotan::aot {

// A function that computes an op in terms of others. Takes all arguments of the op in the order of its
// schema and returns its results. It is called below autograd, for ops of the forward and of the backward;
// the op's derivative stays LibTorch's. It may call any op that a traced function may, and write to tensors
// that it made, but not to its arguments. The results must have the op's sizes and dtypes; they are copied
// to the op's strides.
using Decomposition = std::function<std::vector<c10::IValue>(const std::vector<c10::IValue>& arguments)>;

// Decompositions by op name, such as "aten.addcmul.default".
using DecompositionTable = std::map<std::string, Decomposition>;

// InvalidArgument: lists all entries that are empty, do not name an op, or name an op that is never
// recorded: ops that write to an argument (functionalization replaces them), views, ops that are
// CompositeImplicitAutograd in LibTorch, and ops with a rewrite above autograd
// (aot/decompositions/rewrites.h).
absl::Status CheckDecompositions(const DecompositionTable& table);

// Runs the entries of one table in one trace. Not thread-safe.
class Decomposer {
 public:
  // `table` may be null; it must outlive the object.
  explicit Decomposer(const DecompositionTable* table) : table_(table) {}

  // Returns the decomposition of the op; null if it has none, or if that is running now, so that a
  // decomposition may call its own op.
  const Decomposition* Find(const std::string& op) const;

  // Calls `decomposition` with proxies. Its results are proxies, or real tensors that it captured.
  // InvalidArgument: it wrote to an argument.
  absl::StatusOr<std::vector<c10::IValue>> Run(const std::string& op, const Decomposition& decomposition,
                                               std::vector<c10::IValue> arguments);

 private:
  const DecompositionTable* table_;
  absl::flat_hash_set<std::string> running_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_DECOMPOSITION_H_
