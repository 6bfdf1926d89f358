// SPDX-License-Identifier: Apache-2.0

// The arguments of a tool: words and --name=value options.
#ifndef COTAN_RUNTIME_TOOLS_COMMAND_LINE_H_
#define COTAN_RUNTIME_TOOLS_COMMAND_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cotan::tools {

class CommandLine {
 public:
  // Parses arguments: "--name=value" and "--name" (value "") are options, all others are words.
  // InvalidArgument: an option is not among `known`, or is given twice; the message lists the known ones.
  static absl::StatusOr<CommandLine> Parse(absl::Span<const char* const> arguments,
                                           absl::Span<const absl::string_view> known);

  const std::vector<std::string>& words() const { return words_; }
  bool Has(absl::string_view option) const { return options_.contains(option); }
  // Returns the value of an option, or `fallback` if it is not given.
  std::string Text(absl::string_view option, absl::string_view fallback) const;
  // Returns the value of an option as a number, or `fallback` if it is not given.
  // InvalidArgument: the value is not an integer of at least `least`.
  absl::StatusOr<int> Number(absl::string_view option, int fallback, int least) const;
  // Returns the value of an option as a real number, or nothing if it is not given.
  // InvalidArgument: the value is not a number in [least, most].
  absl::StatusOr<std::optional<double>> Real(absl::string_view option, double least, double most) const;

 private:
  std::vector<std::string> words_;
  absl::flat_hash_map<std::string, std::string> options_;
};

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_COMMAND_LINE_H_
