// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul/strided_copy.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cotan::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 16;
constexpr int64_t kWideBytes = 16;
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

// The dimensions by descending stride of the target, merged where both sides are even.
std::vector<CopyDimension> Merged(std::vector<CopyDimension> dimensions) {
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [](const CopyDimension& x, const CopyDimension& y) { return x.to_stride > y.to_stride; });
  std::vector<CopyDimension> merged;
  for (const CopyDimension& next : dimensions) {
    if (next.size == 1) continue;
    if (!merged.empty() && merged.back().from_stride == next.from_stride * next.size &&
        merged.back().to_stride == next.to_stride * next.size) {
      merged.back() = {merged.back().size * next.size, next.from_stride, next.to_stride};
    } else {
      merged.push_back(next);
    }
  }
  return merged;
}

// Returns whether rows of `lanes` elements can be moved as one.
bool AllowsWide(const std::vector<CopyDimension>& dimensions, bool reads, int64_t lanes) {
  if (dimensions.empty() || dimensions.back().to_stride != 1 || dimensions.back().size % lanes != 0) return false;
  if (reads && dimensions.back().from_stride != 1) return false;
  return std::all_of(dimensions.begin(), dimensions.end() - 1, [&](const CopyDimension& dimension) {
    return dimension.to_stride % lanes == 0 && (!reads || dimension.from_stride % lanes == 0);
  });
}

int64_t Count(const std::vector<CopyDimension>& dimensions) {
  int64_t count = 1;
  for (const CopyDimension& dimension : dimensions) count *= dimension.size;
  return count;
}

// Whether all indices and offsets, also those behind the end in a grid's last round, fit 31 bits.
bool FitsInt(const std::vector<CopyDimension>& dimensions) {
  int64_t from = 0;
  int64_t to = 0;
  for (const CopyDimension& dimension : dimensions) {
    from += (dimension.size - 1) * dimension.from_stride;
    to += (dimension.size - 1) * dimension.to_stride;
  }
  return std::max({from, to, Count(dimensions)}) <= kMaxInt - kThreads * kMaxBlocks;
}

// Returns the geometry `name` for matmul_copy.cuh.
std::string GeometryText(absl::string_view name, absl::string_view element,
                         const std::vector<CopyDimension>& dimensions, bool fits_int) {
  std::string text = absl::StrCat("struct ", name, " {\n  using Element = ", element,
                                  ";\n  using Index = ", fits_int ? "int" : "long long",
                                  ";\n  static constexpr Index kCount = ", Count(dimensions), ";\n",
                                  "  __device__ static void Locate(Index i, Index& from, Index& to) {\n");
  for (size_t d = dimensions.size(); d-- > 0;) {
    const CopyDimension& dimension = dimensions[d];
    const std::string index = d == 0 ? "i" : absl::StrCat("i % ", dimension.size);
    absl::StrAppend(&text, "    from += Index(", index, ") * ", dimension.from_stride, ";\n    to += Index(", index,
                    ") * ", dimension.to_stride, ";\n");
    if (d > 0) absl::StrAppend(&text, "    i /= ", dimension.size, ";\n");
  }
  return absl::StrCat(text, "  }\n};\n");
}

}  // namespace

KernelLaunch PlanStridedCopy(const StridedCopy& copy) {
  const std::vector<CopyDimension> narrow = Merged(copy.dimensions);
  const auto element_bytes = static_cast<int64_t>(copy.element_bytes);
  const int64_t lanes = kWideBytes / element_bytes;
  const bool is_wide = AllowsWide(narrow, copy.from.has_value(), lanes);
  const bool fits_int = FitsInt(narrow);
  std::string text =
      absl::StrCat("#include \"cotan/matmul_copy.cuh\"\n",
                   GeometryText("Narrow", absl::StrCat("cotan::uint", element_bytes * 8), narrow, fits_int));
  int64_t count = Count(narrow);
  if (is_wide) {
    std::vector<CopyDimension> wide = narrow;
    for (CopyDimension& dimension : wide) {
      dimension.from_stride /= lanes;
      dimension.to_stride /= lanes;
    }
    wide.back() = {narrow.back().size / lanes, copy.from ? 1 : 0, 1};
    absl::StrAppend(&text, GeometryText("Wide", "uint4", wide, fits_int));
    count /= lanes;
  }
  KernelLaunch launch;
  launch.source.entry = copy.from ? "matmul_copy" : "matmul_zero";
  std::string parameters;
  if (copy.from) {
    parameters = "const void* from, ";
    launch.arguments.push_back(*copy.from);
  }
  absl::StrAppend(&parameters, "void* to");
  launch.arguments.push_back(copy.to);
  if (copy.is_guarded) {
    absl::StrAppend(&parameters, ", const cotan::ErrorRecord* record");
    launch.arguments.push_back(ErrorRecordArgument());
  }
  launch.source.text = absl::StrCat(text, "extern \"C\" __global__ void __launch_bounds__(", kThreads, ") ",
                                    launch.source.entry, "(", parameters, ") {\n  cotan::WaitForEarlierWork();\n",
                                    copy.is_guarded ? "  COTAN_RETURN_ON_ERROR(record);\n" : "",
                                    "  cotan::matmul::", is_wide ? "CopyWide<Wide, Narrow>" : "Copy<Narrow>", "(",
                                    copy.from ? "from" : "nullptr", ", to);\n}\n");
  const int64_t blocks = std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks);
  launch.grid = {static_cast<unsigned>(blocks), 1, 1};
  launch.block = {static_cast<unsigned>(kThreads), 1, 1};
  return launch;
}

}  // namespace cotan::cuda
