// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "kernels/selective/selection.h"

namespace cotan::selective {
namespace {

using cpu::expr::ExprNeeds;

// An op with the factory of its kernels (kernels/cpu).
struct OpFactory {
  OpKind kind;
  absl::string_view enumerator;
  absl::string_view factory;
  // One factory per dtype; otherwise one for all, with halves widened.
  bool per_dtype = false;
  // The factory takes halves itself.
  bool takes_halves = false;
};

constexpr OpFactory kFactories[] = {
    {.kind = OpKind::kMatmul, .enumerator = "kMatmul", .factory = "MakeMatmul", .per_dtype = true},
    {.kind = OpKind::kConvolution,
     .enumerator = "kConvolution",
     .factory = "cpu::MakePortableConvolutionOf",
     .per_dtype = true},
    {.kind = OpKind::kConvolutionBackwardInput,
     .enumerator = "kConvolutionBackwardInput",
     .factory = "cpu::MakePortableConvolutionOf",
     .per_dtype = true},
    {.kind = OpKind::kConvolutionBackwardWeight,
     .enumerator = "kConvolutionBackwardWeight",
     .factory = "cpu::MakePortableConvolutionOf",
     .per_dtype = true},
    {.kind = OpKind::kMaxPool, .enumerator = "kMaxPool", .factory = "cpu::MakeMaxPoolOf", .per_dtype = true},
    {.kind = OpKind::kMaxPoolBackward,
     .enumerator = "kMaxPoolBackward",
     .factory = "cpu::MakeMaxPoolBackwardOf",
     .per_dtype = true},
    {.kind = OpKind::kAvgPool, .enumerator = "kAvgPool", .factory = "cpu::MakeAvgPoolOf", .per_dtype = true},
    {.kind = OpKind::kAvgPoolBackward,
     .enumerator = "kAvgPoolBackward",
     .factory = "cpu::MakeAvgPoolBackwardOf",
     .per_dtype = true},
    {.kind = OpKind::kGather, .enumerator = "kGather", .factory = "cpu::MakeGather", .takes_halves = true},
    {.kind = OpKind::kScatterAdd, .enumerator = "kScatterAdd", .factory = "cpu::MakeScatterAdd"},
    {.kind = OpKind::kConcat, .enumerator = "kConcat", .factory = "cpu::MakeConcat", .takes_halves = true},
    {.kind = OpKind::kAttention, .enumerator = "kAttention", .factory = "cpu::MakeAttention"},
    {.kind = OpKind::kAttentionBackward, .enumerator = "kAttentionBackward", .factory = "cpu::MakeAttentionBackward"},
    {.kind = OpKind::kCheckedIndex, .enumerator = "kCheckedIndex", .factory = "cpu::MakeCheckedIndex"},
    {.kind = OpKind::kScan, .enumerator = "kScan", .factory = "cpu::MakeScan"},
    {.kind = OpKind::kSort, .enumerator = "kSort", .factory = "cpu::MakeSort", .takes_halves = true},
    {.kind = OpKind::kRecurrent, .enumerator = "kRecurrent", .factory = "cpu::MakeRecurrent"},
    {.kind = OpKind::kRecurrentBackward, .enumerator = "kRecurrentBackward", .factory = "cpu::MakeRecurrentBackward"},
    {.kind = OpKind::kLinearAlgebra, .enumerator = "kLinearAlgebra", .factory = "cpu::MakeLinearAlgebra"},
};

// The enumerators of DType, in order.
constexpr std::array<absl::string_view, 15> kDTypes = {
    "kUndefined", "kBool",    "kUInt8",   "kInt8",      "kInt16",      "kInt32",        "kInt64",     "kFloat16",
    "kBFloat16",  "kFloat32", "kFloat64", "kComplex64", "kComplex128", "kFloat8E4m3fn", "kFloat8E5m2"};

std::string Enumerator(DType dtype) { return absl::StrCat("DType::", kDTypes[static_cast<size_t>(dtype)]); }

// Returns the C++ type of elements, "" if products of them have no kernel.
absl::string_view TypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
    case DType::kInt32:
      return "int32_t";
    case DType::kInt64:
      return "int64_t";
    default:
      return "";
  }
}

absl::StatusOr<std::string> FactoryText(const OpFactory& op, DType dtype) {
  const bool half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const bool is_matmul = op.kind == OpKind::kMatmul;
  if (is_matmul && half) return std::string("MakeHalfMatmul<MakeExpr>");
  std::string text(op.factory);
  if (op.per_dtype) {
    const absl::string_view type = half ? "float" : TypeName(dtype);
    if (type.empty() || (!is_matmul && !IsFloatingPoint(dtype))) {
      return absl::UnimplementedError(
          absl::StrCat(OpKindName(op.kind), " of ", DTypeName(dtype), " has no kernel for CPUs"));
    }
    absl::StrAppend(&text, "<", type, is_matmul ? ", MakeExpr>" : ">");
  }
  if (half && !op.takes_halves) return absl::StrCat("cpu::MakeWidened<", text, ">");
  return text;
}

absl::StatusOr<std::string> Row(OpKind kind, DType dtype) {
  for (const OpFactory& op : kFactories) {
    if (op.kind != kind) continue;
    COTAN_ASSIGN_OR_RETURN(const std::string factory, FactoryText(op, dtype));
    return absl::StrCat("    {Op::", op.enumerator, ", ", Enumerator(dtype), ", ", factory, "},\n");
  }
  return absl::UnimplementedError(absl::StrCat(OpKindName(kind), " has no kernel for CPUs"));
}

// Returns one array of a selection.
template <typename Set, typename Text>
std::string Array(absl::string_view type, absl::string_view name, const Set& elements, Text text) {
  std::string array = absl::StrCat("  static constexpr ", type, " ", name, "[] = {\n      {},\n");
  for (const auto& element : elements) absl::StrAppend(&array, "      ", text(element), ",\n");
  return absl::StrCat(array, "  };\n");
}

std::string FunctionText(absl::string_view constructor, const cpu::expr::FnOfDType& function) {
  return absl::StrCat(constructor, "(", serialization::ScalarFn_Name(function.first), ", ", Enumerator(function.second),
                      ")");
}

constexpr absl::string_view kLicense = "// SPDX-License-Identifier: Apache-2.0\n// Written by //kernels/selective.\n";

constexpr absl::string_view kKernelSource = R"(#include "kernels/selective/selected_source.h"

namespace cotan {
namespace {

using selective::MakeHalfMatmul;
using selective::MakeMatmul;
using serialization::Op;

constexpr absl::string_view kLibrary = "LIBRARY";

absl::StatusOr<std::unique_ptr<Kernel>> MakeExpr(const KernelRequest& request) {
  return selective::MakeSelectedExpr(request, selective::BestSelectedTileOps(), kLibrary);
}

absl::StatusOr<std::unique_ptr<Kernel>> NotLinked(const KernelRequest& request) {
  return selective::NotLinked(request, kLibrary);
}

constexpr selective::SelectedKernel kKernels[] = {
    {Op::kCopy, DType::kUndefined, cpu::MakeCopy},  // of all dtypes
    {Op::kExpr, DType::kUndefined, MakeExpr},
ROWS};

}  // namespace

absl::Status RegisterSelectedKernels(KernelRegistry& registry) {
  return selective::RegisterKernels(kKernels, NotLinked, registry);
}

absl::Status CheckSelectedKernels(const serialization::Artifact& artifact) {
  return selective::CheckArtifact(artifact, kKernels, selective::BestSelectedTileOps(), kLibrary);
}

}  // namespace cotan
)";

constexpr absl::string_view kLoopSource = R"(#include "kernels/cpu/expr/selected_tile_ops.h"
)"
                                          R"(#include "kernels/selective/selected_tile_ops.h"

namespace cotan::cpu::expr {
namespace {

struct Selection {
ARRAYS  static constexpr bool kRandom = RANDOM;
};

}  // namespace
}  // namespace cotan::cpu::expr

namespace cotan::selective {

const cpu::expr::TileOps& NAMETileOps() {
  static const cpu::expr::TileOps ops = cpu::expr::SelectedTileOps<cpu::expr::Selection>("ISA");
  return ops;
}

}  // namespace cotan::selective
)";

}  // namespace

absl::StatusOr<std::string> KernelSource(const Selection& selection, absl::string_view library) {
  std::string rows;
  for (const auto& [kind, dtype] : selection.kernels) {
    if (kind == OpKind::kCopy) continue;
    COTAN_ASSIGN_OR_RETURN(const std::string row, Row(kind, dtype));
    rows += row;
  }
  return absl::StrCat(kLicense, absl::StrReplaceAll(kKernelSource, {{"LIBRARY", library}, {"ROWS", rows}}));
}

std::string LoopSource(const Selection& selection, absl::string_view isa) {
  const ExprNeeds& needs = selection.loops;
  const auto of_dtype = [](absl::string_view constructor) {
    return [constructor](DType dtype) { return absl::StrCat(constructor, "(", Enumerator(dtype), ")"); };
  };
  const std::string arrays =
      absl::StrCat(Array("FunctionLoops", "kFunctions", needs.functions,
                         [](const auto& function) { return FunctionText("Function", function); }),
                   Array("ReductionLoops", "kReductions", needs.reductions,
                         [](const auto& function) { return FunctionText("Reduction", function); }),
                   Array("CastLoops", "kCasts", needs.casts,
                         [](const auto& cast) {
                           return absl::StrCat("Cast(", Enumerator(cast.first), ", ", Enumerator(cast.second), ")");
                         }),
                   Array("ContractionLoops", "kContractions", needs.contractions, of_dtype("ContractionOf")),
                   Array("RoundLoops", "kRounds", needs.rounds, of_dtype("Round")),
                   Array("CopyLoops", "kLoads", needs.loads, of_dtype("LoadOf")),
                   Array("CopyLoops", "kStores", needs.stores, of_dtype("StoreOf")));
  std::string name(isa);
  name[0] = absl::ascii_toupper(static_cast<unsigned char>(name[0]));
  return absl::StrCat(
      kLicense, absl::StrReplaceAll(
                    kLoopSource,
                    {{"ARRAYS", arrays}, {"RANDOM", needs.random ? "true" : "false"}, {"NAME", name}, {"ISA", isa}}));
}

}  // namespace cotan::selective
