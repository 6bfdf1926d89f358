// Computes a value of a method again, late, instead of keeping it.
#ifndef COTAN_AOT_MEMORY_REPEAT_OPS_H_
#define COTAN_AOT_MEMORY_REPEAT_OPS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/memory/method_facts.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// What to repeat in front of op `before`, for all readers of the value `target`
// from there on. Values are behind views.
struct Rematerialization {
  uint32_t target = 0;
  int before = 0;
  std::vector<int> ops;  // to be repeated, ascending; the last one makes `target`
  // Operands of these ops for which another value of equal content is read.
  absl::flat_hash_map<uint32_t, uint32_t> substitutes;
};

// Whether an op gives the same when it runs again, and nobody sees that it does:
// no effect, and no check of indices, which would fail late.
bool IsRepeatable(const serialization::Op& op);

// An op that RematerializeOps() added.
struct RepeatedOp {
  int position = 0;  // index of the new op
  int original = 0;  // index of what it repeats, before RematerializeOps(); views too
};

// Changes the method. The new ops have new values; those behind views are appended
// to `copies`, as {old, new}. Returns the new ops in order.
std::vector<RepeatedOp> RematerializeOps(const Rematerialization& repetition, const MethodFacts& facts,
                                         serialization::Method& method,
                                         absl::flat_hash_map<uint32_t, uint32_t>& copies);

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_REPEAT_OPS_H_
