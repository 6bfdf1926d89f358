// SPDX-License-Identifier: Apache-2.0

// A pass rewrites a graph; a pipeline runs passes in order and verifies the graph before the first
// and after each.
//
//   PassPipeline cleanup("cleanup");
//   cleanup.Add("dead_code", EliminateDeadCode).Add("cse", EliminateCommonSubexpressions);
//   COTAN_RETURN_IF_ERROR(cleanup.Run(graph));
#ifndef COTAN_AOT_IR_PASS_H_
#define COTAN_AOT_IR_PASS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Rewrites `graph` and returns true if it changed. On an error the graph may be partly rewritten.
// Deterministic: equal graphs become equal graphs.
using PassFunction = std::function<absl::StatusOr<bool>(Graph& graph)>;

// Called with the graph after each pass that changed it. `stage` is "PIPELINE.NUMBER.PASS", for
// example "cleanup.02.cse".
using DumpFunction = std::function<void(absl::string_view stage, const Graph& graph)>;

// A named list of passes. Not thread-safe.
class PassPipeline {
 public:
  explicit PassPipeline(std::string name) : name_(std::move(name)) {}

  PassPipeline& Add(std::string pass_name, PassFunction function);
  void set_dump(DumpFunction dump) { dump_ = std::move(dump); }

  // Runs every pass once, in order, and returns true if one changed the graph.
  // Internal: the graph is invalid before the first pass or after a pass, which the message names.
  // Errors of passes are returned unchanged.
  absl::StatusOr<bool> Run(Graph& graph) const;

 private:
  struct Pass {
    std::string name;
    PassFunction function;
  };
  std::string name_;
  std::vector<Pass> passes_;
  DumpFunction dump_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_PASS_H_
