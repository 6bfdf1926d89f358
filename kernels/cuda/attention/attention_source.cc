// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/attention/attention_source.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cotan::cuda::attention {
namespace {

constexpr int64_t kLargestInt = std::numeric_limits<int32_t>::max();

absl::string_view ElementTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return "cotan::float16";
    case DType::kBFloat16:
      return "cotan::bfloat16";
    case DType::kFloat32:
      return "float";
    default:
      return "double";
  }
}

// Returns the strides of an operand that broadcasts to four dimensions; logsumexp has no columns.
DimVector FourStrides(const NamedOperand& operand) {
  DimVector strides(4, 0);
  if (operand.spec == nullptr) return strides;
  const StridedLayout& layout = operand.spec->layout;
  const size_t missing = operand.name == "Bias" ? 4 - layout.sizes.size() : 0;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] != 1) strides[d + missing] = layout.strides[d];
  }
  return strides;
}

bool AreVectors(const StridedLayout& layout, absl::Span<const int64_t> strides, int64_t vector) {
  return layout.rank() == 4 && strides[3] == 1 && layout.sizes[3] % vector == 0 && strides[0] % vector == 0 &&
         strides[1] % vector == 0 && strides[2] % vector == 0;
}

int VectorOf(const NamedOperand& operand, absl::Span<const int64_t> strides) {
  if (operand.spec == nullptr || operand.name == "Bias") return 1;
  if (operand.store_vector > 0) {
    return AreVectors(operand.spec->layout, strides, operand.store_vector) ? operand.store_vector : 1;
  }
  for (const int bytes : {16, 8, 4}) {
    const int vector = bytes / static_cast<int>(ByteSize(operand.spec->dtype));
    if (vector > 1 && AreVectors(operand.spec->layout, strides, vector)) return vector;
  }
  return 1;
}

// Returns whether elements of a head are numbered by int, also those of a tile beyond its end.
bool FitsInt(const Geometry& geometry, const std::vector<NamedOperand>& operands) {
  const int64_t limit = kLargestInt - 1024;
  if (std::max({geometry.queries, geometry.keys, geometry.size, geometry.value_size}) > limit) return false;
  for (const NamedOperand& operand : operands) {
    if (operand.spec == nullptr) continue;
    const StridedLayout& layout = operand.spec->layout;
    const DimVector strides = FourStrides(operand);
    const size_t missing = 4 - static_cast<size_t>(operand.name == "LogSumExp" ? 4 : layout.rank());
    int64_t last = 0;
    for (size_t d = 2; d < 4; ++d) {
      if (d < missing || d - missing >= layout.sizes.size()) continue;
      const int64_t steps = std::max<int64_t>(layout.sizes[d - missing], 1) - 1;
      if (steps > 0 && strides[d] > limit / steps) return false;
      last += steps * strides[d];
    }
    if (last > limit) return false;
  }
  return true;
}

// Returns a function of the type that returns a number.
std::string NumberText(absl::string_view name, double number) {
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return absl::StrCat("  static __device__ Compute ", name,
                      "() {\n    return static_cast<Compute>(__longlong_as_double(static_cast<long long>(0x",
                      absl::Hex(bits), "ULL)));\n  }\n");
}

std::string OperandText(const Geometry& geometry, const NamedOperand& operand) {
  const DimVector strides = FourStrides(operand);
  const absl::string_view element = operand.name == "LogSumExp" ? geometry.ComputeType() : geometry.ElementType();
  return absl::StrCat("  using ", operand.name, " = cotan::attention::Operand<", element, ", ",
                      absl::StrJoin(strides, ", "), ", ", VectorOf(operand, strides), ">;\n");
}

}  // namespace

absl::StatusOr<Geometry> Geometry::Create(const serialization::Attention& op, const TensorSpec& q, const TensorSpec& k,
                                          const TensorSpec& v) {
  if (q.dtype != DType::kFloat16 && q.dtype != DType::kBFloat16 && q.dtype != DType::kFloat32 &&
      q.dtype != DType::kFloat64) {
    return absl::UnimplementedError(
        absl::StrCat("attention: dtype ", DTypeName(q.dtype), " is not supported; expected f16, bf16, f32 or f64"));
  }
  const DimVector& sizes = q.layout.sizes;
  const Geometry geometry{sizes[0],       sizes[1],   sizes[2], k.layout.sizes[2], sizes[3], v.layout.sizes[3],
                          op.is_causal(), op.scale(), q.dtype};
  if (std::max(geometry.size, geometry.value_size) > int64_t{1} << 30) {
    return absl::UnimplementedError(absl::StrCat("attention: q has ", geometry.size, " and v ", geometry.value_size,
                                                 " columns; at most 2^30 are supported"));
  }
  return geometry;
}

absl::string_view Geometry::ElementType() const { return ElementTypeOf(dtype); }

int TileStride(int columns, int compute_bytes) {
  const int vector = 16 / compute_bytes;
  return vector * ((columns + vector - 1) / vector | 1);
}

Tile ChooseTile(const Geometry& geometry, int64_t rows, int64_t columns, bool has_bias,
                const std::function<int64_t(const Tile&)>& shared_bytes) {
  constexpr int64_t kBlocksToFill = 128;
  // Rows of few f32: a thread has twice as many columns, so that products read shared memory less often. More, or a
  // bias, would not fit into registers.
  const int64_t row_size = std::max(geometry.size, geometry.value_size);
  const bool is_narrow = geometry.ComputeBytes() == 4 && row_size <= 64 && !has_bias;
  const auto fit = [](int64_t size) { return size <= 16 ? 16 : size <= 32 ? 32 : 64; };
  Tile tile{fit(rows), fit(columns)};
  while (shared_bytes(tile) > kSharedLimit && tile.columns + tile.rows > 32) {
    (tile.columns > 32 || tile.rows == 16 ? tile.columns : tile.rows) /= 2;
  }
  const int64_t chunks = Columns(row_size, geometry.ComputeBytes(), tile.lanes).chunks;
  if (tile.rows == 64 && (rows + 63) / 64 * geometry.Heads() * chunks < kBlocksToFill) tile.rows = 32;
  if (tile.rows == 64 && tile.columns == 64 && is_narrow) tile.lanes = 8;
  // 128 registers for each thread of large blocks, 168 of smaller ones, whose threads have more columns.
  const int threads = static_cast<int>(tile.Threads());
  tile.blocks_per_processor = threads >= 256 ? 2 : 384 / threads;
  return tile;
}

Columns::Columns(int64_t total, int compute_bytes, int lanes) : total(total), lanes(lanes) {
  const bool is_double = compute_bytes == 8;
  if (total <= (is_double ? 64 : 128)) {
    chunk = static_cast<int>(std::max<int64_t>(total, 1));
  } else {
    chunk = is_double ? 32 : 64;
    chunks = static_cast<int>((total + chunk - 1) / chunk);
  }
  const auto covered = [&](int v) { return (chunk + lanes * v - 1) / (lanes * v) * lanes * v; };
  for (const int v : {2, 4}) {
    if (chunk > lanes && v * compute_bytes <= 16 && (v == 2 || covered(v) <= covered(vector))) vector = v;
  }
  groups = covered(vector) / (lanes * vector);
  stride = TileStride(covered(vector), compute_bytes);
}

std::string Columns::Text() const {
  return absl::StrCat("cotan::attention::Columns<", total, ", ", chunks, ", ", chunk, ", ", lanes, ", ", vector, ", ",
                      groups, ", ", stride, ">");
}

unsigned Blocks::Grid() const { return static_cast<unsigned>(std::min(count, kLargestInt)); }

std::string TypeText(const Geometry& geometry, const std::vector<NamedOperand>& operands, const Tile& tile,
                     Blocks blocks, absl::string_view constants) {
  std::string text = absl::StrCat("struct X {\n  using Compute = ", geometry.ComputeType(),
                                  ";\n  using Index = ", FitsInt(geometry, operands) ? "int" : "long long",
                                  ";\n  using Block = ", blocks.count <= kLargestInt ? "unsigned" : "long long",
                                  ";\n  static constexpr long long kAllHeads = ", geometry.Heads(),
                                  ";\n  static constexpr long long kHeads = ", geometry.heads,
                                  ";\n  static constexpr long long kQueries = ", geometry.queries,
                                  ";\n  static constexpr long long kKeys = ", geometry.keys,
                                  ";\n  static constexpr bool kIsCausal = ", geometry.is_causal ? "true" : "false",
                                  ";\n  static constexpr int kLanes = ", tile.lanes,
                                  ";\n  static constexpr int kThreadRows = ", tile.thread_rows,
                                  ";\n  static constexpr long long kBlocks = ", blocks.count,
                                  ";\n  static constexpr long long kGrid = ", blocks.Grid(), ";\n");
  for (const NamedOperand& operand : operands) {
    absl::StrAppend(&text, OperandText(geometry, operand));
    if (operand.name == "Bias" || operand.name == "LogSumExp") {
      absl::StrAppend(&text, "  static constexpr bool kHas", operand.name, " = ",
                      operand.spec != nullptr ? "true" : "false", ";\n");
    }
  }
  const int bytes = geometry.ComputeBytes();
  absl::StrAppend(&text, "  using Size = ", Columns(geometry.size, bytes, tile.lanes).Text(),
                  ";\n  using ValueSize = ", Columns(geometry.value_size, bytes, tile.lanes).Text(), ";\n", constants,
                  NumberText("Scale", geometry.scale), NumberText("ScaleInLn2", geometry.scale / std::log(2.0)),
                  "};\n");
  return text;
}

KernelSource MakeSource(absl::string_view header, absl::string_view type_text, absl::string_view entry,
                        absl::string_view function, const Tile& tile, const std::vector<std::string>& parameters,
                        absl::string_view passed, bool guarded) {
  std::vector<std::string> all = parameters;
  if (guarded) all.push_back("const cotan::ErrorRecord* record");
  return {absl::StrCat("#include \"cotan/", header, "\"\nnamespace {\n", type_text,
                       "}  // namespace\nextern \"C\" __global__ void __launch_bounds__(", tile.Threads(), ", ",
                       tile.blocks_per_processor, ") ", entry, "(", absl::StrJoin(all, ", "),
                       ") {\n  cotan::WaitForEarlierWork();\n", guarded ? "  COTAN_RETURN_ON_ERROR(record);\n" : "",
                       "  cotan::attention::", function, "<X>(", passed, ");\n}\n"),
          std::string(entry)};
}

}  // namespace cotan::cuda::attention
