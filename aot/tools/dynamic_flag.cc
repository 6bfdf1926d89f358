// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/dynamic_flag.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace cotan::aot {
namespace {

absl::Status NotUnderstood(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the dynamic dimension '", text, "' is not understood: ", why,
                                                 "; give INPUT:DIMENSION=NAME[MIN:MAX], as 'input.0:0=batch[1:64]'"));
}

bool IsName(absl::string_view text) {
  if (text.empty() || !absl::ascii_isalpha(static_cast<unsigned char>(text[0]))) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

// Parses "1:64", "2:", ":64", "8"; the last is a fixed size.
bool ParseRange(absl::string_view text, DynamicDim& dim) {
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos) {
    if (!absl::SimpleAtoi(text, &dim.min)) return false;
    dim.max = dim.min;
    return true;
  }
  const absl::string_view min = text.substr(0, colon);
  const absl::string_view max = text.substr(colon + 1);
  return (min.empty() || absl::SimpleAtoi(min, &dim.min)) && (max.empty() || absl::SimpleAtoi(max, &dim.max));
}

struct Unit {
  absl::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"KiB", 1024.0},
                           {"MiB", 1024.0 * 1024},
                           {"GiB", 1024.0 * 1024 * 1024},
                           {"TiB", 1099511627776.0},
                           {"kB", 1e3},
                           {"MB", 1e6},
                           {"GB", 1e9}};

}  // namespace

absl::StatusOr<DynamicDim> ParseDynamicDim(absl::string_view text, int num_inputs) {
  DynamicDim dim;
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const size_t equals = rest.find('=');
  if (equals == absl::string_view::npos) return NotUnderstood(text, "it has no '='");
  absl::string_view place = rest.substr(0, equals);
  rest.remove_prefix(equals + 1);

  const bool target = absl::ConsumePrefix(&place, "target.");
  if (!target && !absl::ConsumePrefix(&place, "input.")) {
    return NotUnderstood(text, "it begins neither with 'input.' nor with 'target.'");
  }
  const size_t colon = place.find(':');
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(place.substr(0, colon), &dim.argument) ||
      dim.argument < 0 || !absl::SimpleAtoi(place.substr(colon + 1), &dim.dim)) {
    return NotUnderstood(text, "the dimension is not INDEX:DIMENSION");
  }
  if (!target && dim.argument >= num_inputs) {
    return NotUnderstood(text, absl::StrCat("the model has ", num_inputs, " inputs"));
  }
  if (target) dim.argument += num_inputs;

  if (const size_t bracket = rest.find('['); bracket != absl::string_view::npos) {
    absl::string_view range = rest.substr(bracket + 1);
    if (!absl::ConsumeSuffix(&range, "]") || !ParseRange(range, dim)) {
      return NotUnderstood(text, "the range is not [MIN:MAX]");
    }
    if (dim.min < 1 || dim.max < dim.min) {
      return NotUnderstood(text, absl::StrCat("no size is at least ", dim.min, " and at most ", dim.max));
    }
    rest = rest.substr(0, bracket);
  }
  if (!IsName(rest)) return NotUnderstood(text, "a name is a letter, then letters, digits and '_'");
  dim.symbol = std::string(rest);
  return dim;
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  absl::string_view number = absl::StripAsciiWhitespace(text);
  double unit = 1;
  for (const Unit& candidate : kUnits) {
    if (!absl::ConsumeSuffix(&number, candidate.name)) continue;
    unit = candidate.bytes;
    break;
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !std::isfinite(value) || value * unit < 1 || value * unit > 1e18) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a memory size; give one as '64MiB'"));
  }
  return static_cast<int64_t>(value * unit);
}

}  // namespace cotan::aot
