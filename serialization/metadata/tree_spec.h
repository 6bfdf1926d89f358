// SPDX-License-Identifier: Apache-2.0

// Structure of nested arguments or results (torch.utils._pytree.TreeSpec): the typed form of
// serialization::TreeSpec.
#ifndef COTAN_SERIALIZATION_METADATA_TREE_SPEC_H_
#define COTAN_SERIALIZATION_METADATA_TREE_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// A node of the structure with its children.
struct TreeSpec {
  // Kind of node; documented at serialization::TreeSpec, with equal numbers.
  enum class Kind : uint8_t { kLeaf = 0, kTuple = 1, kList = 2, kDict = 3, kNone = 4 };

  Kind kind = Kind::kLeaf;
  std::vector<TreeSpec> children;  // of a tuple, list or dict
  std::vector<std::string> keys;   // of a dict: unique, as many as children

  // Returns a tuple of `num_leaves` leaves, the structure of flat arguments.
  static TreeSpec FlatTuple(int num_leaves);

  int num_leaves() const;

  // Converts and checks. InvalidArgument, with the member's path below `field`: children of a leaf;
  // duplicate keys, keys outside a dict, or another number of keys than children; nesting deeper than 64.
  // Unimplemented: a kind of a newer version.
  static absl::StatusOr<TreeSpec> FromProto(const serialization::TreeSpec& proto, absl::string_view field);
  serialization::TreeSpec ToProto() const;

  // Returns "(*, {a: *, b: [*, none]})", with a star for each leaf.
  std::string ToString() const;

  friend bool operator==(const TreeSpec&, const TreeSpec&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_TREE_SPEC_H_
