// Who makes and who reads the values of a method.
#ifndef COTAN_AOT_MEMORY_METHOD_FACTS_H_
#define COTAN_AOT_MEMORY_METHOD_FACTS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// All vectors have one element per value of the method. Values seen through views
// are the same memory: facts about uses are told of the value behind them.
struct MethodFacts {
  // `method` has passed VerifyArtifact().
  explicit MethodFacts(const serialization::Method& method);

  // Behind all views: no view's result.
  uint32_t RootOf(uint32_t value) const { return root[value]; }
  // The last op that reads the value or a view of it; its producer if none does.
  int LastUse(uint32_t root_value) const;
  // The first such op after op `after`; -1 if none does.
  int NextUse(uint32_t root_value, int after) const;

  static constexpr int kNever = std::numeric_limits<int>::max();

  std::vector<int> producer;           // index of an op; -1: an input or a state
  std::vector<uint32_t> root;          // the value itself if no view makes it
  std::vector<std::vector<int>> uses;  // of roots: ops other than views, ascending
  std::vector<bool> is_kept;           // of roots: a result, or the new content of something
  // Of inputs and states: the op that makes their new content; kNever if they
  // keep theirs.
  std::vector<int> updated_by;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_METHOD_FACTS_H_
