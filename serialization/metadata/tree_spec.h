// How nested arguments or results are flattened into a list: the typed form of
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

// A value type.
struct TreeSpec {
  // Explained at serialization::TreeSpec; equal numbers.
  enum class Kind : uint8_t { kLeaf = 0, kTuple = 1, kList = 2, kDict = 3, kNone = 4 };

  Kind kind = Kind::kLeaf;
  std::vector<TreeSpec> children;  // of a tuple, list or dict
  std::vector<std::string> keys;   // of a dict: unique, as many as children

  // A tuple of `num_leaves` leaves: what flat arguments have.
  static TreeSpec FlatTuple(int num_leaves);

  int num_leaves() const;

  // InvalidArgument, naming the field below `field`: children of a leaf; keys
  // that do not fit the children, occur twice or belong to no dict; nesting
  // deeper than 64. Unimplemented: a kind of a newer version.
  static absl::StatusOr<TreeSpec> FromProto(const serialization::TreeSpec& proto, absl::string_view field);
  serialization::TreeSpec ToProto() const;

  // "(*, {a: *, b: [*, none]})": a star for each leaf.
  std::string ToString() const;

  friend bool operator==(const TreeSpec&, const TreeSpec&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_TREE_SPEC_H_
