// SPDX-License-Identifier: Apache-2.0

// Rematerializes a value of a method before a later reader instead of keeping it.
#ifndef COTAN_AOT_MEMORY_REPEAT_OPS_H_
#define COTAN_AOT_MEMORY_REPEAT_OPS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/memory/method_facts.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Ops to repeat before op `before`, for all readers of the values `targets` from there on. Values are
// roots (MethodFacts), not results of views.
struct Rematerialization {
  std::vector<uint32_t> targets;
  int before = 0;
  std::vector<int> ops;  // to repeat, ascending; the last one computes `targets`
  // Parts that are repeated instead of whole ops (RepeatedPart), by op.
  absl::flat_hash_map<int, serialization::Op> parts;
  // Operands of these ops that are replaced by another value of equal content.
  absl::flat_hash_map<uint32_t, uint32_t> substitutes;
};

// Returns the part that is repeated of op `op`, or the whole op.
const serialization::Op& RepeatedOpOf(const Rematerialization& repetition, const serialization::Method& method, int op);

// Returns true if an op can run again with equal results and no visible effect. False for effects,
// and for index checks, which would fail late.
bool IsRepeatable(const serialization::Op& op);

// An op that RematerializeOps() added.
struct RepeatedOp {
  int position = 0;  // index of the new op
  int original = 0;  // index of the op it repeats, before RematerializeOps(); may be a view
};

// Inserts the repeated ops into the method and returns them in order. Their results are new values;
// `copies` gets an entry {old, new} for each that is not the result of a view.
std::vector<RepeatedOp> RematerializeOps(const Rematerialization& repetition, const MethodFacts& facts,
                                         serialization::Method& method,
                                         absl::flat_hash_map<uint32_t, uint32_t>& copies);

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_REPEAT_OPS_H_
