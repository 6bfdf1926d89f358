// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/sync_batch_norm.h"

#include <array>
#include <cstddef>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cotan::aot {
namespace {

// An op and the argument that says whether it is in train mode.
constexpr std::array<std::pair<absl::string_view, size_t>, 5> kBatchNorms = {{
    {"_native_batch_norm_legit.default", 5},
    {"_native_batch_norm_legit.no_stats", 3},
    {"_native_batch_norm_legit_functional.default", 5},
    {"native_batch_norm.default", 5},
    {"native_batch_norm_backward.default", 7},
}};

}  // namespace

void SynchronizeBatchNorm(Graph& graph) {
  for (Node& node : graph.nodes()) {
    for (const auto& [op, training] : kBatchNorms) {
      if (node.op != absl::StrCat("aten.", op) || !std::get<bool>(node.arguments[training])) continue;
      node.op = absl::StrCat("cotan.sync_", op);
      break;
    }
  }
}

}  // namespace cotan::aot
