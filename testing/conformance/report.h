// Results of cases, told line by line.
#ifndef COTAN_TESTING_CONFORMANCE_REPORT_H_
#define COTAN_TESTING_CONFORMANCE_REPORT_H_

#include <cstdio>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "testing/conformance/difference.h"

namespace cotan::conformance {

// Prints one line for each case of each mode, and counts:
//
//   pass metadata two_outputs_mixed_requires_grad
//   FAIL eager resize_inplace_larger: input 0 after: ... (and 2 more)
//   193 passed, 1 failed
class Report {
 public:
  // With `prints_all`, further differences follow in lines of their own.
  explicit Report(std::FILE* out, bool prints_all = false) : out_(out), prints_all_(prints_all) {}

  // Failures that are known, one in a line: mode, case, and a reason. '#'
  // starts a comment. Such a failure does no harm; the case passing does.
  // NotFound: no such file. InvalidArgument: a line without reason.
  absl::Status ReadKnownFailures(const std::string& path);

  void Add(absl::string_view mode, absl::string_view name, const Differences& differences);

  // Prints the counts; the exit code of the program: 0 if all cases passed, or
  // failed as was known.
  int Finish();

 private:
  void Print(const std::string& key, const std::string& reason, const std::vector<std::string>& differences);

  std::FILE* out_;
  bool prints_all_;
  absl::btree_map<std::string, std::string> known_;  // "mode case" -> reason
  int passed_ = 0;
  int failed_ = 0;
  int failed_as_known_ = 0;
  int passed_though_known_ = 0;
};

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_REPORT_H_
