// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul/tiled_matmul.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/rounding.h"
#include "kernels/cuda/expr/epilogue_writer.h"

namespace cotan::cuda {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
// Rows, columns and steps that a tile has behind the ends of a product, at most.
constexpr int64_t kMaxTile = 512;
// Processors of an H100. A constant, so that plans do not depend on the device.
constexpr int64_t kProcessors = 132;

// The tiling of kernels/cuda/source/matmul.cuh.
struct Tile {
  int64_t rows, columns;                // of a block
  int64_t thread_rows, thread_columns;  // of a thread
  int64_t warp_rows, warp_columns;      // warps that share a tile
  int64_t slices;                       // warps that divide the steps of a tile that no warps share, at most
  // Time of an element relative to other tiles, if all processors are busy: smaller tiles load more for each product.
  // Measured on an H200.
  double cost;
  int64_t steps = 16;

  int64_t Threads() const { return 32 * warp_rows * warp_columns * slices; }
  // Blocks of a processor, at least: their threads have up to 128 registers, those of small blocks 255.
  int64_t ResidentBlocks() const { return (Threads() <= 128 ? 256 : 512) / Threads(); }
};

// Large tiles first.
constexpr Tile kTiles[] = {
    {64, 64, 4, 4, 4, 2, 1, 0.75}, {32, 32, 8, 4, 1, 1, 8, 1},  {16, 32, 4, 4, 1, 1, 8, 1.4},
    {16, 16, 4, 2, 1, 1, 16, 1.9}, {8, 8, 2, 1, 1, 1, 16, 4.0},
};

int64_t NumTiles(const MatmulProblem& problem, const Tile& tile) {
  return CeilDiv(problem.m, tile.rows) * CeilDiv(problem.n, tile.columns) * problem.BatchSize();
}

// Returns whether neighbouring columns are nearer in memory than neighbouring rows.
bool ColumnsAreInner(const MatmulProblem& problem, MatmulRole role) {
  if (problem.Columns(role) <= 1) return false;
  return problem.Rows(role) <= 1 || problem[role].column_stride <= problem[role].row_stride;
}

// Returns the tile for a problem: of those with which the busiest processor is expected to finish first, the largest.
// It does not depend on what becomes of the sums.
Tile ChooseTile(const MatmulProblem& problem) {
  const bool is_wide = ByteSize(problem.dtype) == 8;
  const auto cost = [&](const Tile& tile) {
    // Sums of 8 bytes do not fit the registers.
    if (is_wide && tile.thread_rows * tile.thread_columns > 16) return std::numeric_limits<double>::infinity();
    return static_cast<double>(CeilDiv(NumTiles(problem, tile), kProcessors) * tile.rows * tile.columns) * tile.cost;
  };
  Tile tile = *std::min_element(std::begin(kTiles), std::end(kTiles),
                                [&](const Tile& x, const Tile& y) { return cost(x) < cost(y); });
  if (tile.slices == 1) return tile;
  // The shared memory of a block limits the slices.
  if (is_wide) tile.slices /= 2;
  // Slices take as many steps each. Fewer slices of more steps wait for memory as often, and add fewer sums at the end.
  if (problem.k <= 32) tile.steps = 8;
  while (tile.slices > 1 && tile.slices / 2 * tile.steps >= problem.k) tile.slices /= 2;
  if (tile.rows == 32 && tile.slices == 8 && tile.slices * tile.steps >= problem.k) {
    tile.slices = 4;
    tile.steps = 32;
  } else if (tile.slices == 8 && tile.slices * tile.steps < problem.k && ColumnsAreInner(problem, kMatmulA) &&
             !ColumnsAreInner(problem, kMatmulB)) {
    // Threads need the most registers if the steps of both operands are neighbours in memory.
    tile.steps = 8;
  }
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

// Returns whether rows or columns of an operand, whichever are nearer in memory, are quads of neighbours, aligned in
// each matrix of the batch whose first element is.
bool HasQuads(const MatmulProblem& problem, MatmulRole role) {
  const MatmulMatrix& matrix = problem[role];
  const bool by_columns = ColumnsAreInner(problem, role);
  const int64_t inner = by_columns ? problem.Columns(role) : problem.Rows(role);
  const int64_t outer = by_columns ? problem.Rows(role) : problem.Columns(role);
  const int64_t inner_stride = by_columns ? matrix.column_stride : matrix.row_stride;
  const int64_t outer_stride = by_columns ? matrix.row_stride : matrix.column_stride;
  if (inner_stride != 1 || inner % 4 != 0 || (outer > 1 && outer_stride % 4 != 0)) return false;
  return std::all_of(problem.batch.begin(), problem.batch.end(),
                     [&](const MatmulBatch& dimension) { return dimension.strides[role] % 4 == 0; });
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
  flag("AHasQuads", HasQuads(problem, kMatmulA));
  flag("BHasQuads", HasQuads(problem, kMatmulB));
  return absl::StrCat(text, LocateText(problem), "};\n");
}

std::string TilingText(const Tile& tile) {
  std::string text = "struct Tiles {\n";
  const auto constant = [&](absl::string_view name, int64_t value) {
    absl::StrAppend(&text, "  static constexpr int k", name, " = ", value, ";\n");
  };
  constant("TileRows", tile.rows);
  constant("TileColumns", tile.columns);
  constant("ThreadRows", tile.thread_rows);
  constant("ThreadColumns", tile.thread_columns);
  constant("WarpRows", tile.warp_rows);
  constant("WarpColumns", tile.warp_columns);
  constant("Slices", tile.slices);
  constant("TileSteps", tile.steps);
  return absl::StrCat(text, "};\n");
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

KernelLaunch MakeLaunch(const MatmulProblem& problem, bool is_guarded, absl::string_view entry, KernelText text) {
  const Tile tile = ChooseTile(problem);
  const int64_t num_tiles = NumTiles(problem, tile);
  if (is_guarded) text.Add("const cotan::ErrorRecord* record", ErrorRecordArgument());
  KernelLaunch launch;
  launch.grid = {static_cast<unsigned>(std::min(num_tiles, kMaxInt)), 1, 1};
  launch.block = {static_cast<unsigned>(tile.Threads()), 1, 1};
  launch.source.entry = std::string(entry);
  launch.source.text =
      absl::StrCat(text.includes, ShapeText(problem, FitsInt(problem, num_tiles)), TilingText(tile), text.definitions,
                   "extern \"C\" __global__ void __launch_bounds__(", tile.Threads(), ", ", tile.ResidentBlocks(), ") ",
                   entry, "(", absl::StrJoin(text.parameters, ", "), ") {\n  cotan::WaitForEarlierWork();\n",
                   is_guarded ? "  COTAN_RETURN_ON_ERROR(record);\n" : "",
                   "  cotan::matmul::TiledProduct<Shape, Tiles>(a, b, ", text.result, ");\n}\n");
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
  const MatmulMatrix& d = problem[kMatmulD];
  // Threads write neighbouring columns.
  if (problem.m > 1 && problem.n > 1 && d.column_stride > d.row_stride) {
    return PlanTiledProduct(TransposeMatmul(problem), is_guarded);
  }
  KernelText text;
  text.includes = "#include \"cotan/matmul.cuh\"\n";
  text.result = absl::StrCat("cotan::matmul::StoreSums<Shape>{", problem.has_c ? "c" : "nullptr", ", d}");
  text.Add("const Shape::Element* a", problem[kMatmulA].argument);
  text.Add("const Shape::Element* b", problem[kMatmulB].argument);
  if (problem.has_c) text.Add("const Shape::Element* c", problem[kMatmulC].argument);
  text.Add("Shape::Element* d", problem[kMatmulD].argument);
  return MakeLaunch(problem, is_guarded, "matmul_tiles", std::move(text));
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
  return MakeLaunch(problem, epilogue.guarded_outputs, "matmul_epilogue", std::move(text));
}

}  // namespace cotan::cuda
