// SPDX-License-Identifier: Apache-2.0

// Cuts of joint graphs given as text, for tests.
#ifndef COTAN_AOT_PARTITIONER_TEST_CUTS_H_
#define COTAN_AOT_PARTITIONER_TEST_CUTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "aot/lowering/lower.h"
#include "aot/partitioner/joint_facts.h"
#include "aot/partitioner/partition.h"

namespace cotan::aot {

inline Graph LoweredFrom(absl::string_view text) {
  const absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<Graph> lowered = LowerToPrims(*graph);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  return *std::move(lowered);
}

// Cuts a graph of ATen ops and verifies both programs.
inline Partitioned Cut(absl::string_view text, const PartitionOptions& options = {}) {
  absl::StatusOr<Partitioned> result = Partition(LoweredFrom(text), options);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(VerifyGraph(result->forward).ok()) << VerifyGraph(result->forward);
  EXPECT_TRUE(VerifyGraph(result->backward).ok()) << VerifyGraph(result->backward);
  return *std::move(result);
}

inline std::vector<std::string> SavedTypes(const Graph& forward) {
  std::vector<std::string> types;
  for (const GraphOutput& output : forward.outputs()) {
    if (output.kind == OutputKind::kSaved) types.push_back(PrintType(forward.value(output.value).type));
  }
  return types;
}

inline int64_t SavedBytes(const Graph& forward) {
  int64_t bytes = 0;
  for (const GraphOutput& output : forward.outputs()) {
    if (output.kind == OutputKind::kSaved) bytes += EstimatedBytes(forward.value(output.value).type);
  }
  return bytes;
}

inline std::vector<std::string> InputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphInput& input : graph.inputs())
    names.push_back(absl::StrCat(InputKindName(input.kind), " ", input.name));
  return names;
}

inline int CountOps(const Graph& graph, absl::string_view op) {
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [op](const Node& node) { return node.op == op; }));
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_TEST_CUTS_H_
