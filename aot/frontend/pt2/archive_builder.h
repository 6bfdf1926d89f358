// SPDX-License-Identifier: Apache-2.0

// Writes zip archives for tests.
#ifndef COTAN_AOT_FRONTEND_PT2_ARCHIVE_BUILDER_H_
#define COTAN_AOT_FRONTEND_PT2_ARCHIVE_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

namespace cotan::aot::pt2 {

// A file of an archive: name and content.
using ArchiveFiles = std::vector<std::pair<std::string, std::string>>;

// Writes `files`, uncompressed or deflated, to a file in the test's folder and
// returns its path. Fails the test if it cannot.
std::string WriteArchive(const std::string& name, const ArchiveFiles& files, bool compressed = false);

// Returns the files of an archive with one program, y = relu(x @ weight.T + count), that adds 1 to
// the buffer `count`. x is f32[2, 3], weight f32[4, 3].
ArchiveFiles SmallModel();
// Returns the files of a file that torch.save writes for a dict of f32 tensors, row-major, of the values 0, 1, 2, ...
// Sizes are below 256.
ArchiveFiles SavedTensors(const std::vector<std::pair<std::string, std::vector<int>>>& sizes_by_name);
// Replaces `from` by `to` in the content of `file`, which must exist.
void Replace(ArchiveFiles& files, const std::string& file, const std::string& from, const std::string& to);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_ARCHIVE_BUILDER_H_
