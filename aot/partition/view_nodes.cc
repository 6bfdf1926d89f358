#include "aot/partition/view_nodes.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace cotan::aot {

bool IsViewNode(const Node& node) {
  static const auto* const kViews = new absl::flat_hash_set<absl::string_view>(
      {"prim.view", "prim.permute", "prim.expand", "prim.slice", "prim.select", "prim.as_strided", "prim.diagonal",
       "prim.unfold", "prim.view_as_real", "prim.view_as_complex"});
  return kViews->contains(node.op);
}

}  // namespace cotan::aot
