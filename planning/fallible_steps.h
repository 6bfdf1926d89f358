// SPDX-License-Identifier: Apache-2.0

// Steps that can fail when they run. States are not written before the last of them.
#ifndef COTAN_PLANNING_FALLIBLE_STEPS_H_
#define COTAN_PLANNING_FALLIBLE_STEPS_H_

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Decides for the steps of a method one after another.
class FallibleSteps {
 public:
  // Both outlive it.
  FallibleSteps(const serialization::Method& method, absl::Span<const int64_t> symbols);

  // Returns whether the step, whose op is one of the method, can fail: an effect, a collective, or the values of an
  // index, unless an earlier step has checked the same index for a dimension of the same size, a max_pool or an LU of
  // this method computes the index, or an expression whose values are known to be in range (index_range.h). Must be
  // called for the steps in order.
  bool MayFail(const ScheduledStep& step);

 private:
  bool CollectiveMayFail(const serialization::Collective& op);
  bool IsKnownInRange(uint32_t index, int64_t size);
  void FindMakers();
  void NoteChecked(const serialization::CheckedIndex& op, int buffer);

  const serialization::Method& method_;
  const absl::Span<const int64_t> symbols_;
  absl::flat_hash_set<uint32_t> computed_indices_;                  // values that max_pool or LU computes
  absl::flat_hash_map<uint32_t, const serialization::Op*> makers_;  // of expressions and views; filled when needed
  absl::flat_hash_map<int, int64_t> checked_;                       // buffers of numbers in [0, size)
  absl::flat_hash_set<std::pair<uint32_t, int64_t>> passed_;        // index value, size
  bool exchanges_ = false;                                          // collectives were started since the last WAIT
};

}  // namespace cotan

#endif  // COTAN_PLANNING_FALLIBLE_STEPS_H_
