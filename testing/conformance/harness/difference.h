// SPDX-License-Identifier: Apache-2.0

// Collects the differences between an actual and an expected result.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_DIFFERENCE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_DIFFERENCE_H_

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace cotan::conformance {

// Return the text of a compared value.
inline std::string Describe(bool value) { return value ? "true" : "false"; }
template <typename T>
requires std::is_arithmetic_v<T> std::string Describe(T value) { return absl::StrCat(value); }
inline std::string Describe(absl::string_view value) { return std::string(value); }
inline std::string Describe(const std::string& value) { return value; }
inline std::string Describe(const char* value) { return value; }
template <typename T>
std::string Describe(const std::vector<T>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ",", [](std::string* out, const T& v) { out->append(Describe(v)); }),
                      "]");
}

// Differences between an actual and an expected result, and counts of facts that were not compared.
class Differences {
 public:
  // Sets the prefix of the names of the fields that are compared next.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  template <typename T, typename U>
  void Expect(absl::string_view field, const T& actual, const U& expected) {
    if (actual == expected) return;
    Add(absl::StrCat(field, ": ", Describe(actual), " instead of ", Describe(expected)));
  }
  void Add(absl::string_view difference) { all_.push_back(absl::StrCat(prefix_, difference)); }
  // Adds that the compiler or the runtime refuses the case, or one way of compiling it.
  void AddRefusal(const absl::Status& status) {
    Add(status.ToString());
    refusals_.push_back(status);
  }

  // As Expect(), for facts that Cotan's partition decides: not a difference, unless the report has
  // a list of accepted ones.
  template <typename T, typename U>
  void ExpectOfPartition(absl::string_view field, const T& actual, const U& expected) {
    ++num_partition_facts_;
    if (actual == expected) return;
    of_partition_.push_back(absl::StrCat(prefix_, field, ": ", Describe(actual), " instead of ", Describe(expected)));
  }

  // Notes that the case was not compared.
  void NothingCompared(absl::string_view reason) { nothing_compared_ = std::string(reason); }
  // Counts a fact that was not compared.
  void NotCompared(absl::string_view reason) { ++not_compared_[std::string(reason)]; }
  // Counts a recorded fact that was replaced by that of a later PyTorch version, or by Cotan's own.
  void Adapted(absl::string_view reason) { ++adapted_[std::string(reason)]; }

  bool none() const { return all_.empty(); }
  // In the order in which they were found.
  const std::vector<std::string>& all() const { return all_; }
  // "" if there is none.
  std::string first() const { return all_.empty() ? "" : all_[0]; }

  // Returns the refusals if there are no other differences; else none.
  std::vector<absl::Status> only_refusals() const {
    return all_.size() == refusals_.size() ? refusals_ : std::vector<absl::Status>();
  }
  const std::vector<std::string>& of_partition() const { return of_partition_; }
  int num_partition_facts() const { return num_partition_facts_; }
  // Reason why the case was not compared.
  const std::optional<std::string>& nothing_compared() const { return nothing_compared_; }
  // Counts of facts, by reason.
  const std::map<std::string, int>& not_compared() const { return not_compared_; }
  const std::map<std::string, int>& adapted() const { return adapted_; }

 private:
  std::string prefix_;
  std::vector<std::string> all_;
  std::vector<absl::Status> refusals_;
  std::vector<std::string> of_partition_;
  int num_partition_facts_ = 0;
  std::optional<std::string> nothing_compared_;
  std::map<std::string, int> not_compared_;
  std::map<std::string, int> adapted_;
};

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_DIFFERENCE_H_
