// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/archive_mutator.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "testing/fuzz/json_mutator.h"
#include "testing/fuzz/wire_mutator.h"
#include "testing/fuzz/zip_file.h"

namespace cotan::testing {
namespace {

size_t Below(size_t bound, std::mt19937_64& random) { return random() % bound; }

// Repeats a piece of a pickle at another place, or changes its bytes.
std::string MutatePickle(const std::string& pickle, std::mt19937_64& random) {
  if (pickle.empty() || Below(2, random) == 0) return MutateBytes(pickle, random);
  const std::string piece = pickle.substr(Below(pickle.size(), random), 1 + Below(40, random));
  const size_t place = Below(pickle.size(), random);
  const size_t replaced = Below(2, random) * piece.size();
  return absl::StrCat(pickle.substr(0, place), piece, pickle.substr(std::min(pickle.size(), place + replaced)));
}

std::string MutateContent(const ZipEntry& entry, std::mt19937_64& random) {
  if (absl::EndsWith(entry.name, ".json")) return MutateJson(entry.content, random);
  if (absl::EndsWith(entry.name, ".pt")) return MutateArchive(entry.content, random);
  if (absl::EndsWith(entry.name, ".pkl")) return MutatePickle(entry.content, random);
  if (Below(2, random) == 0) return entry.content.substr(0, Below(entry.content.size() + 1, random));
  return MutateBytes(entry.content, random);
}

bool HasStructure(const ZipEntry& entry) {
  return absl::EndsWith(entry.name, ".json") || absl::EndsWith(entry.name, ".pt") || absl::EndsWith(entry.name, ".pkl");
}

void MutateEntries(std::vector<ZipEntry>& entries, std::mt19937_64& random) {
  size_t i = Below(entries.size(), random);
  for (int attempt = 0; attempt < 4 && !HasStructure(entries[i]); ++attempt) i = Below(entries.size(), random);
  ZipEntry& other = entries[Below(entries.size(), random)];
  switch (Below(24, random)) {
    case 0:
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    case 1:
      entries.push_back(ZipEntry(entries[i]));
      return;
    case 2:
      entries.push_back({absl::StrCat(entries[i].name, "2"), entries[i].content});
      return;
    case 3:
      std::swap(entries[i].content, other.content);
      return;
    case 4:
      entries[i].name = MutateBytes(entries[i].name, random);
      return;
    default:
      entries[i].content = MutateContent(entries[i], random);
  }
}

}  // namespace

std::string MutateArchive(absl::string_view archive, std::mt19937_64& random) {
  std::optional<std::vector<ZipEntry>> entries = ReadZip(archive);
  if (!entries.has_value() || entries->empty() || Below(16, random) == 0) return MutateBytes(archive, random);
  MutateEntries(*entries, random);
  return WriteZip(*entries);
}

}  // namespace cotan::testing
