// Ops that are written in terms of others because the compiler's caller asks for
// it: what PyTorch's aot_function calls its decompositions.
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

// What is computed in the place of an op. Gets the op's arguments in the order of
// its schema, all of them, and returns its results. Called below autograd, for
// the forward's ops as for those of the backward; an op's derivative stays
// LibTorch's. It may call any op that a traced function may, and write to what it
// made, not to its arguments. The sizes and dtypes of the results are those of
// the op; their strides become so.
using Decomposition = std::function<std::vector<c10::IValue>(const std::vector<c10::IValue>& arguments)>;

// By op: "aten.addcmul.default".
using DecompositionTable = std::map<std::string, Decomposition>;

// InvalidArgument, with all of them: entries that are empty or name no op, and ops
// that are never recorded, so that nothing could take their place: those that
// write to an argument (functionalization makes others of them), views, those
// that LibTorch itself writes in terms of others, and those that Cotan does
// (rewrites.h).
absl::Status CheckDecompositions(const DecompositionTable& table);

// Runs the entries of one table in one trace. Not thread-safe.
class Decomposer {
 public:
  // `table` may be null and outlives the object.
  explicit Decomposer(const DecompositionTable* table) : table_(table) {}

  // Null: the op stays. That is so as well for ops of the same name that its
  // decomposition calls.
  const Decomposition* Find(const std::string& op) const;

  // Calls it with proxies. Its results are proxies too, or tensors that it holds.
  // InvalidArgument: it writes to an argument.
  absl::StatusOr<std::vector<c10::IValue>> Run(const std::string& op, const Decomposition& decomposition,
                                               std::vector<c10::IValue> arguments);

 private:
  const DecompositionTable* table_;
  absl::flat_hash_set<std::string> running_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_DECOMPOSITION_H_
