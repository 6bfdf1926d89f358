// Makes the methods of an artifact fit into a limit of memory, by computing
// values again instead of keeping them.
#ifndef COTAN_AOT_MEMORY_FIT_MEMORY_H_
#define COTAN_AOT_MEMORY_FIT_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/memory/memory_plan.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// What became of a method.
struct MethodMemory {
  std::string name;
  // Of the arena and of what is kept between a forward and its backward, in bytes:
  // as it was, and as it is.
  int64_t before = 0;
  int64_t after = 0;
  int repeated_ops = 0;
  int num_ops = 0;  // all of them, views too
};

// What the methods need as they are; `repeated_ops` is 0. Errors as
// FitIntoMemory(), but for the limit.
absl::StatusOr<std::vector<MethodMemory>> MeasureMemory(const serialization::Artifact& artifact,
                                                        const MemoryTarget& target);

// One element per method, in order. A limit of dynamic dimensions holds at the
// largest sizes of their ranges. Methods that fit stay as they are.
// ResourceExhausted: a method cannot be made so small; the message names all such
// methods and the smallest limit that each has been brought to.
// InvalidArgument: a dynamic dimension without a maximum; a limit that is not
// positive; no kernels. NotFound, Unimplemented: the kernels lack an op.
absl::StatusOr<std::vector<MethodMemory>> FitIntoMemory(int64_t limit, const MemoryTarget& target,
                                                        serialization::Artifact& artifact);

// The same for the bytes of a .cotan file. Besides: errors of
// ArtifactFile::Parse() and ArtifactWriter::Serialize().
absl::StatusOr<std::vector<MethodMemory>> FitFileIntoMemory(int64_t limit, const MemoryTarget& target,
                                                            std::string& file);

// "3.1 MiB", "512 B".
std::string BytesText(int64_t bytes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_FIT_MEMORY_H_
