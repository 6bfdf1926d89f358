// SPDX-License-Identifier: Apache-2.0

// Reads golden files: facts about cases that PyTorch's AOTAutograd recorded.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_GOLDEN_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_GOLDEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace cotan::conformance {

using Json = nlohmann::json;

// A golden file in memory. Immutable.
class Golden {
 public:
  // NotFound: the file cannot be read. InvalidArgument: it is not a golden file.
  static absl::StatusOr<Golden> Load(const std::string& path);

  // Returns the facts of a case; null if the file does not have it. Valid as long as this object.
  const Json* Find(const std::string& case_name) const;
  // Returns one object for each refusal.
  const Json& errors() const { return file_["errors"]; }

 private:
  explicit Golden(Json file) : file_(std::move(file)) {}

  Json file_;
};

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_GOLDEN_H_
