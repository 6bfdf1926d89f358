// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul/tiled_matmul.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/expr/epilogue_writer.h"

namespace cotan::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxTile = 128;
// With an epilogue, whose text is repeated for each element of a thread.
constexpr int64_t kMaxEpilogueTile = 64;
// Tiles that keep a GPU busy. A constant, so that plans do not depend on the device.
constexpr int64_t kManyTiles = 132;
// Steps from which the slices of a block share them if there are few tiles.
constexpr int64_t kManySteps = 128;
constexpr int64_t kSlices = 4;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Tile {
  int64_t rows, columns;
  int64_t slices = 1;
};

int64_t NumTiles(const MatmulProblem& problem, const Tile& tile) {
  return CeilDiv(problem.m, tile.rows) * CeilDiv(problem.n, tile.columns) * problem.BatchSize();
}

// Returns the largest tile that leaves many tiles, and few empty rows and columns. The order in which a sum is added
// does not depend on `max_side`.
Tile ChooseTile(const MatmulProblem& problem, int64_t max_side) {
  const auto fit = [](int64_t extent, int64_t most) {
    int64_t side = most;
    while (side > 16 && side / 2 >= extent) side /= 2;
    return side;
  };
  const int64_t most = ByteSize(problem.dtype) == 8 ? std::min<int64_t>(max_side, 64) : max_side;
  for (int64_t side = most; side > 32; side /= 2) {
    const Tile tile = {fit(problem.m, side), fit(problem.n, side)};
    if (NumTiles(problem, tile) >= kManyTiles) return tile;
  }
  const Tile tile = {fit(problem.m, 32), fit(problem.n, 32)};
  // A block that is alone on its processor waits for memory once for each tile of steps.
  if (problem.k >= kManySteps && NumTiles(problem, tile) < kManyTiles) return {16, 16, kSlices};
  return tile;
}

absl::string_view ElementName(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "cotan::uint8";
    case DType::kInt8:
      return "cotan::int8";
    case DType::kInt16:
      return "cotan::int16";
    case DType::kInt32:
      return "cotan::int32";
    case DType::kInt64:
      return "cotan::int64";
    case DType::kFloat16:
      return "cotan::float16";
    case DType::kBFloat16:
      return "cotan::bfloat16";
    case DType::kFloat64:
      return "double";
    default:
      return "float";
  }
}

// Whether indices and offsets, also those of the parts of tiles behind the ends, fit 31 bits.
bool FitsInt(const MatmulProblem& problem, int64_t num_tiles) {
  int64_t largest = std::max({problem.m, problem.n, problem.k});
  int64_t line = 1;
  for (const MatmulRole role : {kMatmulA, kMatmulB, kMatmulC, kMatmulD}) {
    if (role == kMatmulC && !problem.has_c) continue;
    largest = std::max(largest, problem.Extent(role));
    line = std::max({line, problem[role].row_stride, problem[role].column_stride});
  }
  // The last round of a grid adds the number of its blocks to the number of a tile.
  return num_tiles <= kMaxInt / 2 && largest <= kMaxInt - kMaxTile && line <= (kMaxInt - largest) / (2 * kMaxTile);
}

// Returns whether neighbouring columns are nearer in memory than neighbouring rows.
bool ColumnsAreInner(const MatmulProblem& problem, MatmulRole role) {
  if (problem.Columns(role) <= 1) return false;
  return problem.Rows(role) <= 1 || problem[role].column_stride <= problem[role].row_stride;
}

std::string LocateText(const MatmulProblem& problem) {
  constexpr absl::string_view kNames[] = {"a", "b", "c", "d"};
  std::string text = "  __device__ static void Locate(Index i, Index& a, Index& b, Index& c, Index& d) {\n";
  for (size_t j = problem.batch.size(); j-- > 0;) {
    const MatmulBatch& dimension = problem.batch[j];
    for (size_t role = 0; role < kNumMatmulRoles; ++role) {
      if (dimension.strides[role] == 0) continue;
      const std::string index = j == 0 ? "i" : absl::StrCat("i % ", dimension.size);
      absl::StrAppend(&text, "    ", kNames[role], " += Index(", index, ") * ", dimension.strides[role], ";\n");
    }
    if (j > 0) absl::StrAppend(&text, "    i /= ", dimension.size, ";\n");
  }
  return absl::StrCat(text, "  }\n");
}

// Returns the geometry for matmul.cuh.
std::string ShapeText(const MatmulProblem& problem, bool fits_int) {
  std::string text = absl::StrCat(
      "struct Shape {\n  using Element = ", ElementName(problem.dtype),
      ";\n  using Sum = cotan::matmul::SumOf<Element>::Type;\n  using Index = ", fits_int ? "int" : "long long", ";\n");
  const auto constant = [&](absl::string_view name, int64_t value) {
    absl::StrAppend(&text, "  static constexpr Index k", name, " = ", value, ";\n");
  };
  const auto flag = [&](absl::string_view name, bool value) {
    absl::StrAppend(&text, "  static constexpr bool k", name, " = ", value ? "true" : "false", ";\n");
  };
  constant("Rows", problem.m);
  constant("Columns", problem.n);
  constant("Steps", problem.k);
  constant("Batch", problem.BatchSize());
  constant("ARow", problem[kMatmulA].row_stride);
  constant("AStep", problem[kMatmulA].column_stride);
  constant("BStep", problem[kMatmulB].row_stride);
  constant("BColumn", problem[kMatmulB].column_stride);
  constant("CRow", problem[kMatmulC].row_stride);
  constant("CColumn", problem[kMatmulC].column_stride);
  constant("DRow", problem[kMatmulD].row_stride);
  constant("DColumn", problem[kMatmulD].column_stride);
  flag("Adds", problem.has_c);
  flag("AStepInner", ColumnsAreInner(problem, kMatmulA));
  flag("BColumnInner", ColumnsAreInner(problem, kMatmulB));
  flag("DColumnInner", ColumnsAreInner(problem, kMatmulD));
  return absl::StrCat(text, LocateText(problem), "};\n");
}

// A kernel that is being made.
struct KernelText {
  std::string includes;
  std::string definitions;  // after the shape
  std::string result;       // the object that receives the sums
  std::vector<std::string> parameters;
  std::vector<KernelArgument> arguments;

  void Add(std::string parameter, const KernelArgument& argument) {
    parameters.push_back(std::move(parameter));
    arguments.push_back(argument);
  }
};

KernelLaunch MakeLaunch(const MatmulProblem& problem, const Tile& tile, bool is_guarded, absl::string_view entry,
                        KernelText text) {
  const int64_t num_tiles = NumTiles(problem, tile);
  if (is_guarded) text.Add("const cotan::ErrorRecord* record", ErrorRecordArgument());
  KernelLaunch launch;
  launch.grid = {static_cast<unsigned>(std::min(num_tiles, kMaxInt)), 1, 1};
  launch.block = {static_cast<unsigned>(kThreads), 1, 1};
  launch.source.entry = std::string(entry);
  launch.source.text =
      absl::StrCat(text.includes, ShapeText(problem, FitsInt(problem, num_tiles)), text.definitions,
                   "extern \"C\" __global__ void __launch_bounds__(", kThreads, ") ", entry, "(",
                   absl::StrJoin(text.parameters, ", "), ") {\n  cotan::WaitForEarlierWork();\n",
                   is_guarded ? "  COTAN_RETURN_ON_ERROR(record);\n" : "", "  cotan::matmul::TiledProduct<Shape, ",
                   tile.rows, ", ", tile.columns, ", ", tile.slices, ">(a, b, ", text.result, ");\n}\n");
  launch.arguments = std::move(text.arguments);
  return launch;
}

// Returns the argument of the op for that of its epilogue.
KernelArgument OfMatmul(KernelArgument argument) {
  if (argument.kind == KernelArgument::Kind::kInput) ++argument.index;
  return argument;
}

}  // namespace

KernelLaunch PlanTiledProduct(const MatmulProblem& problem, bool is_guarded) {
  KernelText text;
  text.includes = "#include \"cotan/matmul.cuh\"\n";
  text.result = absl::StrCat("cotan::matmul::StoreSums<Shape>{", problem.has_c ? "c" : "nullptr", ", d}");
  text.Add("const Shape::Element* a", problem[kMatmulA].argument);
  text.Add("const Shape::Element* b", problem[kMatmulB].argument);
  if (problem.has_c) text.Add("const Shape::Element* c", problem[kMatmulC].argument);
  text.Add("Shape::Element* d", problem[kMatmulD].argument);
  return MakeLaunch(problem, ChooseTile(problem, kMaxTile), is_guarded, "matmul_tiles", std::move(text));
}

KernelLaunch PlanTiledProduct(const MatmulProblem& problem, const expr::Problem& epilogue) {
  const expr::EpilogueText written = expr::WriteEpilogue(epilogue);
  KernelText text;
  for (const std::string& header : written.headers) {
    absl::StrAppend(&text.includes, "#include \"cotan/", header, ".cuh\"\n");
  }
  text.definitions = absl::StrCat("using namespace cotan;\n", written.definition);
  text.result = written.constructor;
  text.Add("const Shape::Element* a", problem[kMatmulA].argument);
  text.Add("const Shape::Element* b", problem[kMatmulB].argument);
  for (const expr::KernelParameter& parameter : written.parameters) {
    text.Add(absl::StrCat(parameter.type, " ", parameter.name), OfMatmul(parameter.argument));
  }
  return MakeLaunch(problem, ChooseTile(problem, kMaxEpilogueTile), epilogue.guarded_outputs, "matmul_epilogue",
                    std::move(text));
}

}  // namespace cotan::cuda
