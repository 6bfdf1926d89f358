// SPDX-License-Identifier: Apache-2.0

#include "aot/dump.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_format.h"
#include "aot/ir/text.h"

namespace cotan::aot {

void GraphDump::Write(absl::string_view stage, const Graph& graph) {
  if (folder_.empty() || !status_.ok()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::string path = absl::StrFormat("%s/%s.%02d.%s.txt", folder_, method_, next_++, stage);
  std::ofstream file(path);
  file << PrintGraph(graph);
  file.close();
  if (!file) status_ = absl::UnavailableError(absl::StrFormat("cannot write the dump %s", path));
}

DumpFunction GraphDump::Function() {
  if (folder_.empty()) return nullptr;
  return [this](absl::string_view stage, const Graph& graph) { Write(stage, graph); };
}

}  // namespace cotan::aot
