// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/random_slices.h"

#include <algorithm>
#include <optional>

#include "base/philox.h"

namespace cotan::aot {
namespace {

std::vector<int64_t> BlocksOf(const Draw& draw) {
  std::vector<int64_t> blocks;
  for (const int64_t count : draw.count)
    blocks.push_back(static_cast<int64_t>(PhiloxBlocks(static_cast<uint64_t>(count))));
  return blocks;
}

}  // namespace

std::vector<SymInt> SlicesOf(std::vector<Draw> draws, const SizeFitter& fitter) {
  std::sort(draws.begin(), draws.end(), [](const Draw& a, const Draw& b) { return a.slice < b.slice; });
  std::vector<SymInt> slices;
  SymInt next = 0;
  std::vector<int64_t> place(fitter.num_points(), 0);
  bool are_whole = true;
  for (const Draw& draw : draws) {
    if (draw.slice < place) continue;  // the backward repeats an earlier draw
    if (draw.slice != place) break;
    // Counts that are multiples of a block at odd sizes are so at all sizes.
    const bool is_whole =
        std::all_of(draw.count.begin(), draw.count.end(), [](int64_t count) { return count % 4 == 0; });
    const std::vector<int64_t> blocks = BlocksOf(draw);
    const std::optional<SymInt> size = fitter.FitLine(is_whole ? blocks : draw.count);
    if (!size.has_value()) break;
    for (size_t k = 0; k < place.size(); ++k) place[k] += blocks[k];
    are_whole = are_whole && is_whole;
    const std::optional<SymInt> line = are_whole ? fitter.FitLine(place) : std::nullopt;
    const SymInt own = is_whole ? *size : SymInt::Binary(SymInt::Kind::kFloorDiv, *size + SymInt(3), 4);
    next = line.has_value() ? *line : next + own;
    slices.push_back(next);
  }
  return slices;
}

}  // namespace cotan::aot
