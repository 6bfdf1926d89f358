// SPDX-License-Identifier: Apache-2.0

// Reads what a .pt2 archive holds, of all versions of the format. Private to this package.
#ifndef COTAN_AOT_FRONTEND_PT2_ARCHIVE_CONTENT_H_
#define COTAN_AOT_FRONTEND_PT2_ARCHIVE_CONTENT_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/frontend/pt2/exported_program.h"
#include "aot/frontend/pt2/weights.h"

namespace cotan::aot::pt2 {

struct ArchiveContent {
  ExportedProgram program;
  StoredTensors weights;
  StoredTensors constants;
  std::vector<at::Tensor> arguments;  // tensors among those of the export; empty if they are not readable
};

// Reads an archive of torch 2.6 or later. Nothing in it is executed. Errors are those of Model::Load() that are about
// files.
absl::StatusOr<ArchiveContent> ReadArchiveContent(const std::string& path);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_ARCHIVE_CONTENT_H_
