#include "testing/conformance/report.h"

#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace cotan::conformance {

absl::Status Report::ReadKnownFailures(const std::string& path) {
  std::ifstream stream(path);
  if (!stream.is_open()) return absl::NotFoundError(absl::StrCat("cannot read '", path, "'"));
  std::string line;
  while (std::getline(stream, line)) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    if (words.size() < 3) return absl::InvalidArgumentError(absl::StrCat(path, ": no reason in '", line, "'"));
    known_[absl::StrCat(words[0], " ", words[1])] = words[2];
  }
  return absl::OkStatus();
}

void Report::Add(absl::string_view mode, absl::string_view name, const Differences& differences) {
  const std::string key = absl::StrCat(mode, " ", name);
  const auto known = known_.find(key);
  if (differences.none()) {
    ++passed_;
    const bool unexpected = known != known_.end();
    if (unexpected) ++passed_though_known_;
    std::fprintf(out_, "pass %s%s\n", key.c_str(), unexpected ? " (is a known failure: take it from the list)" : "");
  } else {
    ++failed_;
    if (known != known_.end()) ++failed_as_known_;
    Print(key, known == known_.end() ? "" : known->second, differences.all());
  }
  std::fflush(out_);
}

void Report::Print(const std::string& key, const std::string& reason, const std::vector<std::string>& differences) {
  const std::string why = reason.empty() ? "" : absl::StrCat(" (known: ", reason, ")");
  const std::string more = differences.size() > 1 ? absl::StrCat(" (and ", differences.size() - 1, " more)") : "";
  std::fprintf(out_, "FAIL %s: %s%s%s\n", key.c_str(), absl::StrReplaceAll(differences[0], {{"\n", " | "}}).c_str(),
               more.c_str(), why.c_str());
  for (size_t i = 1; i < differences.size() && prints_all_; ++i) std::fprintf(out_, "  %s\n", differences[i].c_str());
}

int Report::Finish() {
  if (passed_though_known_ > 0) {
    std::fprintf(out_, "%d known failures passed: take them from the list\n", passed_though_known_);
  }
  if (failed_as_known_ > 0) std::fprintf(out_, "%d of the failures are known\n", failed_as_known_);
  std::fprintf(out_, "%d passed, %d failed\n", passed_, failed_);
  if (passed_ + failed_ == 0) {
    std::fprintf(out_, "no case was run\n");
    return 1;
  }
  return failed_ == failed_as_known_ && passed_though_known_ == 0 ? 0 : 1;
}

}  // namespace cotan::conformance
