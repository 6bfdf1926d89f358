// SPDX-License-Identifier: Apache-2.0

// Fits the methods of an artifact into a memory limit, by rematerializing values instead of keeping
// them.
#ifndef COTAN_AOT_MEMORY_FIT_MEMORY_H_
#define COTAN_AOT_MEMORY_FIT_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "aot/memory/memory_plan.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Memory of a method before and after rematerialization.
struct MethodMemory {
  std::string name;
  // Bytes of the arena and of saved values, before and after. Values on the host (Value.on_host) do not count.
  int64_t before = 0;
  int64_t after = 0;
  int repeated_ops = 0;
  int num_ops = 0;  // including views
};

// Returns the memory of each method without changing it; `repeated_ops` is 0.
// InvalidArgument: a dynamic dimension has no maximum, or `target.kernels` is null.
// NotFound, Unimplemented: the kernels lack an op.
absl::StatusOr<std::vector<MethodMemory>> MeasureMemory(const serialization::Artifact& artifact,
                                                        const MemoryTarget& target);

// Rewrites the methods that need more than `limit` bytes, and returns one element per method, in
// order. With dynamic dimensions the limit holds at the largest sizes of their ranges. If `repeat_cheap_ops`,
// Recomputation::RepeatCheapOps() comes first where less time is then added in all.
// ResourceExhausted: a method cannot be fitted; the message names all such methods and the least
// memory that was reached for each.
// InvalidArgument: a dynamic dimension has no maximum, `limit` is not positive, or `target.kernels`
// is null.
// NotFound, Unimplemented: the kernels lack an op.
absl::StatusOr<std::vector<MethodMemory>> FitIntoMemory(int64_t limit, const MemoryTarget& target,
                                                        bool repeat_cheap_ops, serialization::Artifact& artifact);

// Rewrites the bytes of a .cotan file by FitIntoMemory(). Further errors: those of
// ArtifactFile::Parse() and ArtifactWriter::Serialize().
absl::StatusOr<std::vector<MethodMemory>> FitFileIntoMemory(int64_t limit, const MemoryTarget& target,
                                                            bool repeat_cheap_ops, std::string& file);

// Repeats ops of each method where that saves much memory for little time (Recomputation::RepeatCheapOps()). Returns
// one element per method, in order. Errors of MeasureMemory().
absl::StatusOr<std::vector<MethodMemory>> RepeatCheapOps(const MemoryTarget& target, serialization::Artifact& artifact);

// Limits in bytes, by name of the method.
using MethodLimits = absl::flat_hash_map<std::string, int64_t>;

// Returns the memory of each method; that of a forward and of its backward is the larger of the two.
// Errors of MeasureMemory().
absl::StatusOr<MethodLimits> MeasurePeaks(const serialization::Artifact& artifact, const MemoryTarget& target);

// Does as FitIntoMemory() with a limit for each method; the limit of a forward is also that of its backward. Methods
// that fit are not changed.
// ResourceExhausted: a method cannot be fitted, or has no limit. Other errors are those of MeasureMemory().
absl::StatusOr<std::vector<MethodMemory>> FitIntoLimits(const MethodLimits& limits, const MemoryTarget& target,
                                                        serialization::Artifact& artifact);

// Returns a number of bytes as text: "3.1 MiB", "512 B".
std::string BytesText(int64_t bytes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_FIT_MEMORY_H_
