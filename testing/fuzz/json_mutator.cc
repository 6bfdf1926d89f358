// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/json_mutator.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "testing/fuzz/wire_mutator.h"

namespace cotan::testing {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 200;
// Values with more nodes are not copied, so that texts do not grow without bound.
constexpr size_t kMaxCopiedNodes = 500;

size_t Below(size_t bound, std::mt19937_64& random) { return random() % bound; }

// Appends the value and all values in it. Unless `all`, values of "metadata" members, which are most of an
// exported program, are skipped.
void Collect(Json& json, bool all, int depth, std::vector<Json*>& nodes) {
  nodes.push_back(&json);
  if (depth == kMaxDepth || !json.is_structured()) return;
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (!all && json.is_object() && it.key() == "metadata") continue;
    Collect(*it, all, depth + 1, nodes);
  }
}

std::string Repeated(absl::string_view text, size_t count) {
  std::string repeated;
  for (size_t i = 0; i < count; ++i) absl::StrAppend(&repeated, text);
  return repeated;
}

// Returns whether brackets nest deeper than kMaxDepth. Copies of such values would exhaust the stack.
bool IsDeep(absl::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxDepth) return true;
  }
  return false;
}

// Returns a value that readers may not expect.
Json UnusualValue(std::mt19937_64& random) {
  switch (Below(14, random)) {
    case 0:
      return nullptr;
    case 1:
      return true;
    case 2:
      return 0;
    case 3:
      return -1;
    case 4:
      return std::numeric_limits<int64_t>::max();
    case 5:
      return std::numeric_limits<int64_t>::min();
    case 6:
      return std::numeric_limits<uint64_t>::max();
    case 7:
      return int64_t{1} << (20 + Below(43, random));
    case 8:
      return 1e308;
    case 9:
      return "";
    case 10:
      return "NaN";
    case 11:
      return Json::array();
    case 12:
      return Json::object();
    default:
      // Deep nesting and long chains, in which a reader that recurses runs out of stack.
      if (Below(16, random) != 0) return "x";
      return Below(2, random) == 0 ? Repeated("[", 100000) + Repeated("]", 100000) : "s0" + Repeated(" + s0", 100000);
  }
}

// Replaces, repeats or inserts a word of a text, such as a size expression or the name of an op.
std::string MutateWords(absl::string_view text, std::mt19937_64& random) {
  constexpr absl::string_view kWords[] = {"0",       "1",      "-1", "**8",  " + s0",    "//0",  "%0",
                                          "s0",      "s99",    "(",  ")",    "_",        ".",    "Tensor",
                                          "default", "Scalar", ",",  "Max(", "CeilDiv(", "Mod(", "9223372036854775807"};
  if (text.empty() || Below(4, random) == 0) return MutateBytes(text, random);
  const auto is_word = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  size_t begin = Below(text.size(), random);
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  size_t end = begin;
  while (end < text.size() && is_word(text[end])) ++end;
  const absl::string_view word = text.substr(begin, end - begin);
  switch (Below(3, random)) {
    case 0:
      return absl::StrCat(text.substr(0, begin), kWords[Below(std::size(kWords), random)], text.substr(end));
    case 1:
      return absl::StrCat(text.substr(0, end), kWords[Below(std::size(kWords), random)], text.substr(end));
    default:
      return absl::StrCat("(", text, ")", kWords[Below(std::size(kWords), random)], word);
  }
}

// Removes, repeats or renames a member of an object or an element of an array that is not empty.
void MutateMembers(Json& json, std::mt19937_64& random) {
  const auto place = std::next(json.begin(), static_cast<std::ptrdiff_t>(Below(json.size(), random)));
  const size_t kind = Below(3, random);
  if (kind == 0) {
    json.erase(place);
    return;
  }
  Json copy = *place;
  if (json.is_array()) {
    json.push_back(std::move(copy));
    return;
  }
  const std::string name = place.key();
  if (kind == 1) json.erase(place);
  json[MutateWords(name, random)] = std::move(copy);
}

void MutateScalar(Json& json, std::mt19937_64& random) {
  if (json.is_number_integer()) {
    const auto value = json.get<uint64_t>();
    json = static_cast<int64_t>(Below(2, random) == 0 ? value + Below(5, random) - 2 : value * 2);
    return;
  }
  if (json.is_boolean()) {
    json = !json.get<bool>();
    return;
  }
  if (!json.is_string()) {
    json = UnusualValue(random);
    return;
  }
  const std::string text = json.get<std::string>();
  const bool is_json = !text.empty() && (text[0] == '[' || text[0] == '{');
  json = is_json ? MutateJson(text, random) : MutateWords(text, random);
}

void MutateValue(Json& json, const std::vector<Json*>& nodes, std::mt19937_64& random) {
  const size_t kind = Below(8, random);
  if (kind == 0) {
    json = UnusualValue(random);
  } else if (kind <= 2) {
    Json copy = *nodes[Below(nodes.size(), random)];
    std::vector<Json*> copied;
    Collect(copy, /*all=*/true, 0, copied);
    if (copied.size() <= kMaxCopiedNodes) json = std::move(copy);
  } else if (json.is_structured()) {
    if (!json.empty()) MutateMembers(json, random);
  } else {
    MutateScalar(json, random);
  }
}

}  // namespace

std::string MutateJson(absl::string_view text, std::mt19937_64& random) {
  if (IsDeep(text)) return MutateBytes(text, random);
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || Below(32, random) == 0) return MutateBytes(text, random);
  for (size_t mutations = 1 + Below(3, random); mutations > 0; --mutations) {
    std::vector<Json*> nodes;
    Collect(json, /*all=*/Below(16, random) == 0, 0, nodes);
    MutateValue(*nodes[Below(nodes.size(), random)], nodes, random);
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cotan::testing
