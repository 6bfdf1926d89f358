// SPDX-License-Identifier: Apache-2.0

// Producers and uses of the values of a method.
#ifndef COTAN_AOT_MEMORY_METHOD_FACTS_H_
#define COTAN_AOT_MEMORY_METHOD_FACTS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// All vectors have one element per value of the method. A view shares the memory of its root, the
// value that the chain of views starts from; uses are recorded for roots.
struct MethodFacts {
  // `method` has passed VerifyArtifact().
  explicit MethodFacts(const serialization::Method& method);

  // Returns the value that the chain of views starts from; not the result of a view.
  uint32_t RootOf(uint32_t value) const { return root[value]; }
  // Returns the last op that reads the value or a view of it; its producer if none does.
  int LastUse(uint32_t root_value) const;
  // Returns the first op after op `after` that reads the value or a view of it; -1 if none does.
  int NextUse(uint32_t root_value, int after) const;

  static constexpr int kNever = std::numeric_limits<int>::max();

  std::vector<int> producer;           // index of an op; -1: an input or a state
  std::vector<uint32_t> root;          // the value itself if no view makes it
  std::vector<std::vector<int>> uses;  // of roots: ops other than views, ascending
  std::vector<bool> is_kept;           // of roots: a result, or the new content of something
  // For inputs and states: the op that computes their new content; kNever if the content does not
  // change.
  std::vector<int> updated_by;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_METHOD_FACTS_H_
