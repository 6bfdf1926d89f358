// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/external_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cotan::tools {
namespace {

bool IsPlainName(absl::string_view name) {
  return !name.empty() && name[0] != '-' && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
}

}  // namespace

std::string ExternalProgram(absl::string_view name) {
  const std::string program = absl::StrCat("cotan-", name);
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return program;
  std::string path = (self.parent_path() / program).string();
  return access(path.c_str(), X_OK) == 0 ? path : program;
}

absl::Status RunExternalCommand(absl::Span<const char* const> arguments) {
  const std::string name = arguments.empty() ? "" : arguments[0];
  if (!IsPlainName(name)) return absl::NotFoundError(absl::StrCat("'", name, "' is not a command; see cotan --help"));
  const std::string program = absl::StrCat("cotan-", name);
  std::vector<std::string> words(arguments.begin(), arguments.end());
  words[0] = program;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(ExternalProgram(name).c_str(), pointers.data());
  if (errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat("unknown command '", name, "': there is no program ", program,
                                            " beside cotan or in PATH; see cotan --help"));
  }
  return absl::UnavailableError(absl::StrCat("cannot run '", program, "': ", std::strerror(errno)));
}

}  // namespace cotan::tools
