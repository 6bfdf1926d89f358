// Remembers how two descriptions of one thing differ.
#ifndef COTAN_TESTING_CONFORMANCE_DIFFERENCE_H_
#define COTAN_TESTING_CONFORMANCE_DIFFERENCE_H_

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace cotan::conformance {

// Texts of compared values.
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

// The differences found between an actual thing and what is expected.
class Differences {
 public:
  // Texts in front of the names of fields that are compared from now on.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  template <typename T, typename U>
  void Expect(absl::string_view field, const T& actual, const U& expected) {
    if (actual == expected) return;
    Add(absl::StrCat(field, ": ", Describe(actual), " instead of ", Describe(expected)));
  }
  void Add(absl::string_view difference) { all_.push_back(absl::StrCat(prefix_, difference)); }

  bool none() const { return all_.empty(); }
  // In the order in which they were found.
  const std::vector<std::string>& all() const { return all_; }
  // "" if there is none.
  std::string first() const { return all_.empty() ? "" : all_[0]; }

 private:
  std::string prefix_;
  std::vector<std::string> all_;
};

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_DIFFERENCE_H_
