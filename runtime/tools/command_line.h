// The arguments of a tool: words and --name=value options.
#ifndef COTAN_RUNTIME_TOOLS_COMMAND_LINE_H_
#define COTAN_RUNTIME_TOOLS_COMMAND_LINE_H_

#include <cstdint>
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
  // "--name=value" and "--name" (value "") are options, all else is words.
  // InvalidArgument: an option that is not among `known`, or given twice; the
  // message lists those there are.
  static absl::StatusOr<CommandLine> Parse(absl::Span<const char* const> arguments,
                                           absl::Span<const absl::string_view> known);

  const std::vector<std::string>& words() const { return words_; }
  bool Has(absl::string_view option) const { return options_.contains(option); }
  // `fallback` if the option is not given.
  std::string Text(absl::string_view option, absl::string_view fallback) const;
  // InvalidArgument: not a whole number of at least `least`.
  absl::StatusOr<int> Number(absl::string_view option, int fallback, int least) const;

 private:
  std::vector<std::string> words_;
  absl::flat_hash_map<std::string, std::string> options_;
};

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_COMMAND_LINE_H_
