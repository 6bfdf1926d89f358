// SPDX-License-Identifier: Apache-2.0

// Reads and writes zip archives of uncompressed files, for fuzzing: names and contents may be anything.
#ifndef COTAN_TESTING_FUZZ_ZIP_FILE_H_
#define COTAN_TESTING_FUZZ_ZIP_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cotan::testing {

struct ZipEntry {
  std::string name;
  std::string content;
};

// Returns the files of an archive in the order of its directory; none if these bytes are not an archive of uncompressed
// files.
std::optional<std::vector<ZipEntry>> ReadZip(absl::string_view archive);

// Returns an archive of these files, with right sizes and checksums.
std::string WriteZip(const std::vector<ZipEntry>& entries);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_ZIP_FILE_H_
