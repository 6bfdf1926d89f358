// SPDX-License-Identifier: Apache-2.0

// Prints the results of cases, line by line.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_REPORT_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_REPORT_H_

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "testing/conformance/harness/difference.h"

namespace cotan::conformance {

// Prints one line for each case of each mode, and counts:
//
//   pass metadata two_outputs_mixed_requires_grad
//   FAIL eager resize_inplace_larger: input 0 after: ... (and 2 more)
//   refused dynamic arange_and_view: the compiler's message (why it refuses)
//   not compared grad complex_beside_real: the golden file does not have this case
//   facts not compared, 12: why
//   facts adapted, 3: why
//   1 refused as listed, 1 not compared, 12 facts not compared, 3 facts adapted
//   193 passed, 1 failed
class Report {
 public:
  // With `prints_all`, every further difference is printed on its own line.
  explicit Report(std::FILE* out, bool prints_all = false) : out_(out), prints_all_(prints_all) {}

  // Reads the refusals to expect. '#' starts a comment; every other line is
  //   MODE CASE CODE | a part of the message | the reason
  // The case has to be refused with that code and a message with that part; if it is compiled in several
  // ways, all that are refused. Any other outcome, success included, is a failure. NotFound: no such file.
  // InvalidArgument: a malformed line.
  absl::Status ReadKnownRefusals(const std::string& path);

  // Reads the accepted differences between Cotan's partition and the reference's. Each line is
  //   MODE CASE | a difference | the reason
  // The case has to have exactly the differences of its lines. Without such a file, facts that the
  // partition decides count as not compared. NotFound: no such file. InvalidArgument: a malformed
  // line.
  absl::Status ReadPartitionDifferences(const std::string& path);

  void Add(absl::string_view mode, absl::string_view name, const Differences& differences);

  // Prints the counts. Returns the exit code of the program: 0 if something was compared and
  // nothing failed.
  int Finish();

 private:
  struct Refusal {
    std::string code;
    std::string message;
    std::string reason;
  };

  // Returns the differences that fail the case; empty: it passes.
  std::vector<std::string> Failures(const std::string& key, const Differences& differences) const;
  void AddPartition(const std::string& key, const Differences& differences, std::vector<std::string>& failures) const;
  void CountFacts(const Differences& differences);
  void PrintFailures(const std::string& key, const std::vector<std::string>& failures);
  void Print(absl::string_view verdict, const std::string& key, const std::string& text);
  int PrintCounts(absl::string_view what, const std::map<std::string, int>& counts);

  std::FILE* out_;
  bool prints_all_;
  bool knows_partition_ = false;
  absl::btree_map<std::string, Refusal> refusals_;                 // by "mode case"
  absl::btree_map<std::string, std::set<std::string>> partition_;  // by "mode case"
  std::map<std::string, int> not_compared_;                        // facts by reason
  std::map<std::string, int> adapted_;
  int passed_ = 0;
  int failed_ = 0;
  int refused_ = 0;
  int cases_not_compared_ = 0;
};

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_REPORT_H_
