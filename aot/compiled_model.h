// SPDX-License-Identifier: Apache-2.0

// The result of the compile functions (compile.h).
#ifndef COTAN_AOT_COMPILED_MODEL_H_
#define COTAN_AOT_COMPILED_MODEL_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "aot/cache/compile_cache.h"
#include "aot/memory/fit_memory.h"

namespace cotan::aot {

// Statistics of one compiled method.
struct MethodSummary {
  std::string name;     // "train_step"
  int traced_ops = 0;   // nodes of the traced (joint) graph
  int runtime_ops = 0;  // ops of the method in the artifact
  // Reason why this forward has no backward, although an output requires grad; empty: it has one, or needs none. Its
  // calls are those of inference; a backward through them fails with this text.
  std::string backward_refusal = {};
  // The memory of the method after rematerialization; set if CompileOptions.max_memory is, if cheap ops are repeated,
  // or if a smaller budget needed more memory than a larger one.
  std::optional<MethodMemory> memory = {};
};

// A compiled artifact in memory. Movable, immutable, thread-safe.
class CompiledModel {
 public:
  CompiledModel(std::string bytes, std::vector<MethodSummary> methods, CacheOutcome cache = {},
                std::vector<std::string> inlined_blocks = {})
      : bytes_(std::move(bytes)),
        methods_(std::move(methods)),
        cache_(std::move(cache)),
        inlined_blocks_(std::move(inlined_blocks)) {}

  // Writes the artifact to `path` atomically: the file is complete or unchanged. Errors of the file
  // system: ResourceExhausted, PermissionDenied, NotFound, Unavailable.
  absl::Status Save(const std::string& path) const;
  // Returns the content of the artifact file. Equal models and options give equal bytes.
  const std::string& bytes() const { return bytes_; }
  // Returns one summary for each method, in the order of compilation.
  const std::vector<MethodSummary>& methods() const { return methods_; }
  // Returns whether the artifact came from the cache, and why not if it did not. With dynamic
  // dimensions the model is compiled at several sizes: the outcome of the first miss, if there is
  // one.
  const CacheOutcome& cache() const { return cache_; }
  // Returns the declared blocks (blocks/block.h) that became part of their callers, with the reasons:
  // "block 'layers.3': it has effects".
  const std::vector<std::string>& inlined_blocks() const { return inlined_blocks_; }

 private:
  std::string bytes_;
  std::vector<MethodSummary> methods_;
  CacheOutcome cache_;
  std::vector<std::string> inlined_blocks_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_COMPILED_MODEL_H_
