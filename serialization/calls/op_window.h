// SPDX-License-Identifier: Apache-2.0

// Consecutive ops of a method as a function of the values that they take from outside. Private to :outline_calls.
#ifndef COTAN_SERIALIZATION_CALLS_OP_WINDOW_H_
#define COTAN_SERIALIZATION_CALLS_OP_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Numbers ops such that two have the same number if they compute the same, apart from the identity of their operands
// and results, random slices, and sources.
class SymbolTable {
 public:
  int SymbolOf(const serialization::Op& op, const serialization::Method& method);

 private:
  absl::flat_hash_map<std::string, int> symbols_;
};

// Consecutive ops. Two of equal form are calls of one block.
struct OpWindow {
  std::string form;                       // ops, the connections between them, and which results leave the window
  std::vector<uint32_t> inputs, outputs;  // values of the method
  std::vector<uint32_t> inner;            // values that only ops of the window use
  std::string slice;                      // of the first random instruction; "": there is none
  std::string path;                       // module path that the sources have in common
  std::vector<std::string> sources;       // by op, below `path`
};

// The uses of the values of a method, which outlives the object and does not change.
class ValueUses {
 public:
  explicit ValueUses(const serialization::Method& method);

  // Returns the window of `length` ops from `start`; `symbols` has those of the method's ops. None if a slice is not
  // the first one plus a size expression.
  std::optional<OpWindow> WindowOf(size_t start, size_t length, absl::Span<const int> symbols) const;

  // Returns the block of a window.
  serialization::Method BlockOf(size_t start, size_t length, const OpWindow& window) const;

 private:
  const serialization::Method& method_;
  std::vector<int> last_use_;  // by value: last op that uses it; number of ops: it is used after the last one
};

// Replaces the index of each value of a method by `names[index]`.
void RenameValues(absl::Span<const uint32_t> names, serialization::Method& method);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_CALLS_OP_WINDOW_H_
