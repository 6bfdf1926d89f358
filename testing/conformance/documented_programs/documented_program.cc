// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/documented_programs/documented_program.h"

#include <fstream>
#include <sstream>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace cotan::conformance {
namespace {

// Reads the programs of a page line by line.
class PageReader {
 public:
  // Reads the lines from the one that starts with `first` to the one that starts with `last`.
  std::vector<DocumentedProgram> Read(absl::string_view page, absl::string_view first, absl::string_view last) {
    bool is_read = false;
    for (absl::string_view line : absl::StrSplit(page, '\n')) {
      is_read = is_read || absl::StartsWith(line, first);
      if (is_read && !last.empty() && absl::StartsWith(line, last)) break;
      if (is_read) ReadLine(line);
    }
    return std::move(programs_);
  }

 private:
  void ReadLine(absl::string_view line) {
    if (in_program_) return ReadCode(line);
    if (absl::StartsWith(line, "```cpp")) {
      in_program_ = true;
      programs_.push_back({section_, text_, "", ""});
    } else if (absl::StartsWith(line, "Cotan: ") && !programs_.empty()) {
      programs_.back().cotan = std::string(line);
    } else if (absl::StartsWith(line, "#")) {
      section_ = std::string(line);
    } else {
      // A heading is the text directly before its program.
      text_ = std::string(line);
    }
  }

  void ReadCode(absl::string_view line) {
    if (absl::StartsWith(line, "```")) {
      in_program_ = false;
      text_.clear();
    } else {
      absl::StrAppend(&programs_.back().code, WithoutSpace(line));
    }
  }

  bool in_program_ = false;
  std::string section_;
  std::string text_;
  std::vector<DocumentedProgram> programs_;
};

std::string ReadPage(const char* path) {
  std::ifstream file(path);
  std::ostringstream page;
  page << file.rdbuf();
  return page.str();
}

}  // namespace

std::string WithoutSpace(absl::string_view code) {
  std::string result;
  for (absl::string_view line : absl::StrSplit(code, '\n')) {
    for (char c : line.substr(0, line.find("//"))) {
      if (!absl::ascii_isspace(static_cast<unsigned char>(c))) result.push_back(c);
    }
  }
  return result;
}

std::vector<DocumentedProgram> ProgramsOf(absl::string_view page, absl::string_view first, absl::string_view last) {
  return PageReader().Read(page, first, last);
}

std::vector<DocumentedProgram> ProgramsOfConformancePage() {
  return ProgramsOf(ReadPage("docs/conformance.md"), "## Known differences", "## Excluded from random programs");
}

std::vector<DocumentedProgram> ProgramsOfAliasingPage() { return ProgramsOf(ReadPage("docs/aliasing.md"), "# ", ""); }

DocumentedProgram FindProgram(const std::vector<DocumentedProgram>& programs, absl::string_view code) {
  const auto found = absl::c_find_if(programs, [&](const DocumentedProgram& program) { return program.code == code; });
  return found == programs.end() ? DocumentedProgram() : *found;
}

}  // namespace cotan::conformance
