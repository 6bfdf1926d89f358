// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/report.h"

#include <fstream>
#include <functional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace cotan::conformance {
namespace {

using Fields = std::vector<std::string>;

// Calls `add` with the three fields of each line except comments, the first of which has
// `num_words` words.
absl::Status ForEachLine(const std::string& path, size_t num_words, const std::function<void(const Fields&)>& add) {
  std::ifstream stream(path);
  if (!stream.is_open()) return absl::NotFoundError(absl::StrCat("cannot read '", path, "'"));
  std::string line;
  while (std::getline(stream, line)) {
    if (line.empty() || line[0] == '#') continue;
    const Fields fields = absl::StrSplit(line, " | ");
    const bool is_complete =
        fields.size() == 3 && absl::c_none_of(fields, [](const std::string& f) { return f.empty(); });
    if (!is_complete || Fields(absl::StrSplit(fields[0], ' ')).size() != num_words) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": '", line, "' is not ", num_words, " words | a text | a reason"));
    }
    add(fields);
  }
  return absl::OkStatus();
}

std::string OneLine(const std::string& text) { return absl::StrReplaceAll(text, {{"\n", " | "}}); }

}  // namespace

absl::Status Report::ReadKnownRefusals(const std::string& path) {
  return ForEachLine(path, /*num_words=*/3, [&](const Fields& fields) {
    const Fields words = absl::StrSplit(fields[0], ' ');
    refusals_[absl::StrCat(words[0], " ", words[1])] = {words[2], fields[1], fields[2]};
  });
}

absl::Status Report::ReadPartitionDifferences(const std::string& path) {
  knows_partition_ = true;
  return ForEachLine(path, /*num_words=*/2, [&](const Fields& fields) { partition_[fields[0]].insert(fields[1]); });
}

void Report::Add(absl::string_view mode, absl::string_view name, const Differences& differences) {
  const std::string key = absl::StrCat(mode, " ", name);
  const std::vector<std::string> failures = Failures(key, differences);
  CountFacts(differences);
  const auto refusal = refusals_.find(key);
  if (!failures.empty()) {
    ++failed_;
    PrintFailures(key, failures);
  } else if (refusal != refusals_.end()) {
    ++refused_;
    Print("refused", key, absl::StrCat(differences.first(), " (", refusal->second.reason, ")"));
  } else if (differences.nothing_compared().has_value()) {
    ++cases_not_compared_;
    Print("not compared", key, *differences.nothing_compared());
  } else {
    ++passed_;
    Print("pass", key, "");
  }
  std::fflush(out_);
}

std::vector<std::string> Report::Failures(const std::string& key, const Differences& differences) const {
  const auto refusal = refusals_.find(key);
  std::vector<std::string> failures = differences.all();
  if (refusal != refusals_.end()) {
    const Refusal& listed = refusal->second;
    const std::vector<absl::Status> refusals = differences.only_refusals();
    const auto is_listed = [&](const absl::Status& status) {
      return absl::StatusCodeToString(status.code()) == listed.code &&
             absl::StrContains(status.message(), listed.message);
    };
    if (!refusals.empty() && absl::c_all_of(refusals, is_listed)) return {};
    failures.push_back(absl::StrCat("is listed to be refused as ", listed.code, " with '", listed.message, "'"));
    return failures;
  }
  AddPartition(key, differences, failures);
  return failures;
}

void Report::AddPartition(const std::string& key, const Differences& differences,
                          std::vector<std::string>& failures) const {
  if (!knows_partition_) return;
  const auto listed = partition_.find(key);
  std::set<std::string> missing = listed == partition_.end() ? std::set<std::string>() : listed->second;
  for (const std::string& difference : differences.of_partition()) {
    if (missing.erase(difference) == 0) failures.push_back(absl::StrCat(difference, " (is not a listed difference)"));
  }
  for (const std::string& difference : missing) {
    failures.push_back(absl::StrCat("has no difference '", difference, "' any more: take it from the list"));
  }
}

void Report::CountFacts(const Differences& differences) {
  for (const auto& [reason, count] : differences.not_compared()) not_compared_[reason] += count;
  for (const auto& [reason, count] : differences.adapted()) adapted_[reason] += count;
  if (!knows_partition_ && differences.num_partition_facts() > 0) {
    not_compared_["what the partition saves: there is no --partition_differences"] += differences.num_partition_facts();
  }
}

void Report::PrintFailures(const std::string& key, const std::vector<std::string>& failures) {
  const std::string more = failures.size() > 1 ? absl::StrCat(" (and ", failures.size() - 1, " more)") : "";
  Print("FAIL", key, failures[0] + more);
  for (size_t i = 1; i < failures.size() && prints_all_; ++i) std::fprintf(out_, "  %s\n", failures[i].c_str());
}

void Report::Print(absl::string_view verdict, const std::string& key, const std::string& text) {
  std::fprintf(out_, "%s\n", absl::StrCat(verdict, " ", key, text.empty() ? "" : ": ", OneLine(text)).c_str());
}

int Report::PrintCounts(absl::string_view what, const std::map<std::string, int>& counts) {
  int total = 0;
  for (const auto& [reason, count] : counts) {
    std::fprintf(out_, "%s\n", absl::StrCat(what, ", ", count, ": ", reason).c_str());
    total += count;
  }
  return total;
}

int Report::Finish() {
  const int not_compared = PrintCounts("facts not compared", not_compared_);
  const int adapted = PrintCounts("facts adapted", adapted_);
  std::fprintf(out_, "%d refused as listed, %d not compared, %d facts not compared, %d facts adapted\n", refused_,
               cases_not_compared_, not_compared, adapted);
  const bool compared = passed_ + failed_ + refused_ > 0;
  if (!compared) std::fprintf(out_, "no case was compared\n");
  std::fprintf(out_, "%d passed, %d failed\n", passed_, failed_);
  return compared && failed_ == 0 ? 0 : 1;
}

}  // namespace cotan::conformance
