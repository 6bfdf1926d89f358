// SPDX-License-Identifier: Apache-2.0

#include "aot/compiled_model.h"

#include "absl/strings/string_view.h"
#include "base/file.h"

namespace cotan::aot {

absl::Status CompiledModel::Save(const std::string& path) const {
  const absl::string_view piece = bytes_;
  return WriteFileAtomically(path, {&piece, 1});
}

}  // namespace cotan::aot
