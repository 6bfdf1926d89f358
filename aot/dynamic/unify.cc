// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/unify.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/dynamic/known_counts.h"
#include "aot/dynamic/number_expr.h"
#include "aot/dynamic/random_slices.h"
#include "aot/dynamic/size_fields.h"
#include "aot/dynamic/size_fitter.h"
#include "aot/dynamic/window.h"
#include "base/status_macros.h"
#include "serialization/container/container.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Expr;
using serialization::ExprInstruction;
using serialization::Method;
using serialization::Op;
using serialization::OutputAliasInfo;
using serialization::SavedForBackward;
using serialization::ViewAndMutationMeta;

using Integers = std::vector<int64_t>;

// Returns an op's expression program; null if it has none.
Expr* ProgramOf(Op& op) {
  if (op.has_expr()) return op.mutable_expr();
  if (op.has_matmul() && op.matmul().has_epilogue()) return op.mutable_matmul()->mutable_epilogue();
  return nullptr;
}
const Expr* ProgramOf(const Op& op) {
  if (op.has_expr()) return &op.expr();
  return op.matmul().has_epilogue() ? &op.matmul().epilogue() : nullptr;
}

class Unifier {
 public:
  // `artifacts`, one for each point, have the blocks that the methods call; empty: they call none.
  Unifier(const DynamicShapes& shapes, absl::Span<const DimVector> points, const LearnedSizes& learned,
          absl::Span<Method* const> methods, absl::Span<const Artifact> artifacts)
      : shapes_(shapes),
        methods_(methods),
        artifacts_(artifacts),
        base_(*methods[0]),
        fitter_(std::vector<DimVector>(points.begin(), points.end())) {
    for (const SymInt& size : learned.windows) fitter_.AddKnown(size);
    for (const SymInt& size : learned.others) fitter_.Remember(size);
  }

  absl::Status Run() {
    COTAN_RETURN_IF_ERROR(CheckOps());
    LearnWindows();
    LearnRandomSlices();
    COTAN_RETURN_IF_ERROR(UnifySizes());
    COTAN_RETURN_IF_ERROR(UnifyPrograms());
    for (Method* method : methods_) {
      for (ViewAndMutationMeta* metadata : MetadataOf(*method)) DescribeDynamicDims(*metadata);
      DescribeSaved(*method);
    }
    COTAN_RETURN_IF_ERROR(UnifyScalars());
    return CheckEqual();
  }

 private:
  absl::Status Refuse(absl::string_view where, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("method '", base_.name(), "', ", where, ": ", what, " (traced with ", PointsText(), ")"));
  }

  std::string PointsText() const {
    std::vector<std::string> texts;
    for (const DimVector& point : fitter_.points()) texts.push_back(absl::StrCat("{", shapes_.ToString(point), "}"));
    return absl::StrJoin(texts, ", ");
  }

  // --- checks before any change ---------------------------------------------

  absl::Status CheckOps() const {
    for (const Method* method : methods_) {
      const int count = std::min(method->ops_size(), base_.ops_size());
      for (int i = 0; i < count; ++i) {
        const Op& a = base_.ops(i);
        const Op& b = method->ops(i);
        if (a.kind_case() != b.kind_case() || a.source() != b.source()) {
          return Refuse(OpText(base_, i),
                        absl::StrCat("the program has ", OpText(*method, i), " there at other sizes: what it computes ",
                                     "depends on the size"));
        }
        const auto equal = [](const auto& x, const auto& y) {
          return std::equal(x.begin(), x.end(), y.begin(), y.end());
        };
        if (!equal(a.inputs(), b.inputs()) || !equal(a.outputs(), b.outputs())) {
          return Refuse(OpText(base_, i), "it takes other values at other sizes");
        }
      }
      if (method->ops_size() != base_.ops_size()) {
        return Refuse(count == 0 ? "its ops" : OpText(method->ops_size() > count ? *method : base_, count),
                      "it is there at some sizes only: what the program computes depends on the size");
      }
      if (method->values_size() != base_.values_size()) return Refuse("its values", "there are more at some sizes");
    }
    return absl::OkStatus();
  }

  // Adds the exact sizes after convolution and pooling, with their rounding.
  void LearnWindows() {
    for (const Op& op : base_.ops()) {
      switch (op.kind_case()) {
        case Op::kConvolution:
          if (!op.convolution().transposed()) LearnConvolution(op);
          break;
        case Op::kMaxPool:
          LearnPool(op, op.max_pool());
          break;
        case Op::kAvgPool:
          LearnPool(op, op.avg_pool());
          break;
        default:
          break;
      }
    }
  }

  void LearnConvolution(const Op& op) {
    const serialization::Convolution& convolution = op.convolution();
    const auto& weight = base_.values(static_cast<int>(op.inputs(1))).type().sizes();
    for (int i = 0; i < convolution.stride_size(); ++i) {
      const std::optional<int64_t> kernel = Number(weight.Get(i + 2));
      if (!kernel.has_value()) return;
      LearnWindow(op, convolution.stride_size() - i,
                  {*kernel, convolution.stride(i), convolution.padding(i), convolution.dilation(i), false});
    }
  }

  void LearnPool(const Op& op, const serialization::Pool& pool) {
    for (int i = 0; i < pool.kernel_size(); ++i) {
      LearnWindow(op, pool.kernel_size() - i,
                  {pool.kernel(i), pool.stride(i), pool.padding(i), i < pool.dilation_size() ? pool.dilation(i) : 1,
                   pool.ceil_mode()});
    }
  }

  // `from_end`: 1 for the last dimension.
  void LearnWindow(const Op& op, int from_end, const Window& window) {
    const std::optional<SymInt> size = SizeOf(op.inputs(0), from_end);
    if (!size.has_value() || size->is_constant() || window.stride <= 0) return;
    const SymInt result = WindowCount(*size, window);
    const std::optional<Integers> actual = SizesOf(op.outputs(0), from_end);
    if (!actual.has_value()) return;
    for (size_t k = 0; k < actual->size(); ++k) {
      const absl::StatusOr<int64_t> value = result.Evaluate(fitter_.points()[k]);
      if (!value.ok() || *value != (*actual)[k]) return;
    }
    fitter_.AddKnown(result);
  }

  static std::optional<int64_t> Number(const std::string& text) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
    return value;
  }

  std::optional<Integers> SizesOf(uint32_t value, int from_end) const {
    Integers result;
    for (const Method* method : methods_) {
      const auto& sizes = method->values(static_cast<int>(value)).type().sizes();
      if (sizes.size() < from_end) return std::nullopt;
      const std::optional<int64_t> number = Number(sizes.Get(sizes.size() - from_end));
      if (!number.has_value()) return std::nullopt;
      result.push_back(*number);
    }
    return result;
  }

  std::optional<SymInt> SizeOf(uint32_t value, int from_end) {
    const std::optional<Integers> sizes = SizesOf(value, from_end);
    return sizes.has_value() ? fitter_.Fit(*sizes) : std::nullopt;
  }

  // --- random numbers --------------------------------------------------------

  void LearnRandomSlices() {
    std::vector<Draw> draws;
    FindDraws({methods_.begin(), methods_.end()}, Integers(methods_.size(), 0), draws);
    for (const SymInt& slice : SlicesOf(std::move(draws), fitter_)) fitter_.Remember(slice);
  }

  // Adds the draws of a method or block at each point, also those of the blocks that it calls. `slices` has its first
  // Philox block at each point.
  void FindDraws(const std::vector<const Method*>& methods, const Integers& slices, std::vector<Draw>& draws) const {
    for (int i = 0; i < methods[0]->ops_size(); ++i) {
      std::vector<const Expr*> exprs;
      for (const Method* method : methods) {
        if (i >= method->ops_size()) return;
        exprs.push_back(ProgramOf(method->ops(i)));
      }
      if (methods[0]->ops(i).has_call()) FindDrawsOfCall(methods, i, slices, draws);
      if (exprs[0] == nullptr) continue;
      for (int j = 0; j < exprs[0]->instructions_size(); ++j) {
        if (exprs[0]->instructions(j).fn() != serialization::FN_RANDOM_UNIFORM) continue;
        std::optional<Draw> draw = DrawOf(exprs, j);
        if (!draw.has_value()) continue;
        for (size_t k = 0; k < slices.size(); ++k) draw->slice[k] += slices[k];
        draws.push_back(*std::move(draw));
      }
    }
  }

  void FindDrawsOfCall(const std::vector<const Method*>& methods, int op, Integers slices,
                       std::vector<Draw>& draws) const {
    std::vector<const Method*> blocks;
    for (size_t k = 0; k < methods.size(); ++k) {
      const serialization::Call& call = methods[k]->ops(op).call();
      if (k >= artifacts_.size() || call.block() >= static_cast<uint32_t>(artifacts_[k].blocks_size())) return;
      blocks.push_back(&artifacts_[k].blocks(static_cast<int>(call.block())));
      slices[k] += call.slice().empty() ? 0 : Number(call.slice()).value_or(0);
    }
    FindDraws(blocks, slices, draws);
  }

  static std::optional<Draw> DrawOf(absl::Span<const Expr* const> exprs, int instruction) {
    Draw draw;
    for (const Expr* expr : exprs) {
      if (expr == nullptr || instruction >= expr->instructions_size()) return std::nullopt;
      const std::string& text = expr->instructions(instruction).slice();
      const std::optional<int64_t> slice = text.empty() ? 0 : Number(text);
      if (!slice.has_value()) return std::nullopt;
      draw.slice.push_back(*slice);
      int64_t count = 1;
      for (const std::string& size : expr->domain_sizes()) count *= Number(size).value_or(0);
      draw.count.push_back(count);
    }
    return draw;
  }

  // --- changes ---------------------------------------------------------------

  absl::Status UnifySizes() {
    std::vector<std::vector<SizeField>> fields;
    for (Method* method : methods_) fields.push_back(SizeFieldsOf(*method));
    for (size_t i = 0; i < fields[0].size(); ++i) {
      std::vector<std::string*> texts;
      for (const std::vector<SizeField>& list : fields) {
        if (i >= list.size() || list[i].where != fields[0][i].where) {
          return Refuse(fields[0][i].where, "its rank, or what it computes, depends on the size");
        }
        texts.push_back(list[i].text);
      }
      COTAN_RETURN_IF_ERROR(UnifySize(texts, fields[0][i].where));
    }
    return absl::OkStatus();
  }

  absl::Status UnifySize(absl::Span<std::string* const> texts, const std::string& where) {
    if (std::all_of(texts.begin(), texts.end(), [&](const std::string* text) { return *text == *texts[0]; })) {
      return absl::OkStatus();
    }
    Integers values;
    for (const std::string* text : texts) values.push_back(text->empty() ? 0 : Number(*text).value_or(-1));
    const std::optional<SymInt> size = fitter_.Fit(values);
    if (!size.has_value()) {
      return Refuse(where, absl::StrCat("a size is not a known function of the dynamic dimensions: it was ",
                                        absl::StrJoin(values, ", ")));
    }
    for (std::string* text : texts) *text = size->ToString();
    return absl::OkStatus();
  }

  absl::Status UnifyPrograms() {
    for (int i = 0; i < base_.ops_size(); ++i) {
      std::vector<Expr*> exprs;
      for (Method* method : methods_) {
        if (Expr* expr = ProgramOf(*method->mutable_ops(i))) exprs.push_back(expr);
      }
      if (exprs.empty()) continue;
      if (exprs.size() != methods_.size()) return Refuse(OpText(base_, i), "it has an epilogue at some sizes only");
      const absl::Status status = UnifyExprs(exprs, fitter_);
      if (!status.ok()) return Refuse(OpText(base_, i), status.message());
    }
    return absl::OkStatus();
  }

  // Returns the metadata of a method that is set; with wrapper types also that of the flat values.
  static std::vector<ViewAndMutationMeta*> MetadataOf(Method& method) {
    std::vector<ViewAndMutationMeta*> result;
    if (method.has_metadata()) result.push_back(method.mutable_metadata());
    if (method.metadata().has_subclass_meta()) {
      result.push_back(method.mutable_metadata()->mutable_subclass_meta()->mutable_fw_metadata());
    }
    if (method.has_program_metadata()) result.push_back(method.mutable_program_metadata());
    return result;
  }

  // Unifies integer outputs.
  absl::Status UnifyScalars() {
    for (size_t m = 0; m < MetadataOf(base_).size(); ++m) {
      for (int i = 0; i < MetadataOf(base_)[m]->output_info_size(); ++i) {
        std::vector<OutputAliasInfo*> infos;
        Integers values;
        for (Method* method : methods_) {
          const std::vector<ViewAndMutationMeta*> metadata = MetadataOf(*method);
          if (m >= metadata.size() || i >= metadata[m]->output_info_size()) {
            return Refuse("its outputs", "there are more at some sizes");
          }
          infos.push_back(metadata[m]->mutable_output_info(i));
          values.push_back(infos.back()->scalar().int_value());
        }
        const auto is_integer = [](const OutputAliasInfo* info) { return info->raw_type() == serialization::RAW_INT; };
        if (!std::all_of(infos.begin(), infos.end(), is_integer)) continue;
        if (std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == values[0]; })) continue;
        const std::optional<SymInt> size = fitter_.Fit(values);
        if (!size.has_value()) {
          return Refuse(absl::StrCat("output ", i), "it is an integer that is not a known function of the sizes");
        }
        for (OutputAliasInfo* info : infos) {
          info->set_raw_type(serialization::RAW_SYM_INT);
          info->mutable_scalar()->set_sym_int(size->ToString());
        }
      }
    }
    return absl::OkStatus();
  }

  static bool IsConstant(const std::string& text) { return Number(text).has_value(); }

  static void DescribeDynamicDims(ViewAndMutationMeta& metadata) {
    for (OutputAliasInfo& info : *metadata.mutable_output_info()) {
      info.clear_dynamic_dims();
      for (int d = 0; d < info.geometry().sizes_size(); ++d) {
        if (!IsConstant(info.geometry().sizes(d))) info.add_dynamic_dims(static_cast<uint32_t>(d));
      }
    }
  }

  static void DescribeSaved(Method& method) {
    if (!method.has_metadata() || !method.metadata().has_saved()) return;
    SavedForBackward& saved = *method.mutable_metadata()->mutable_saved();
    saved.clear_dynamic_tensors();
    const int first = method.outputs_size() - static_cast<int>(method.num_saved());
    for (int i = first; i < method.outputs_size(); ++i) {
      const serialization::TensorType& type = method.values(static_cast<int>(method.outputs(i))).type();
      SavedForBackward::DynamicDims dynamic;
      dynamic.set_tensor(static_cast<uint32_t>(i - first));
      for (int d = 0; d < type.sizes_size(); ++d) {
        if (!IsConstant(type.sizes(d))) dynamic.add_dims(static_cast<uint32_t>(d));
      }
      if (dynamic.dims_size() > 0) *saved.add_dynamic_tensors() = std::move(dynamic);
    }
    if (method.has_program_metadata()) *method.mutable_program_metadata()->mutable_saved() = saved;
  }

  // --- checks after all changes ----------------------------------------------

  absl::Status CheckEqual() const {
    const std::string expected = base_.SerializeAsString();
    for (const Method* method : methods_) {
      if (method->SerializeAsString() == expected) continue;
      for (int i = 0; i < base_.ops_size(); ++i) {
        if (method->ops(i).SerializeAsString() == base_.ops(i).SerializeAsString()) continue;
        return Refuse(OpText(base_, i), "a parameter of it depends on the size, and must be the same for all");
      }
      for (int i = 0; i < base_.values_size(); ++i) {
        if (method->values(i).SerializeAsString() == base_.values(i).SerializeAsString()) continue;
        return Refuse(absl::StrCat("value ", i, " '", base_.values(i).name(), "'"),
                      "its layout or rank depends on the size");
      }
      return Refuse("its inputs and outputs", "the metadata of views, mutations and gradients depends on the size");
    }
    return absl::OkStatus();
  }

  const DynamicShapes& shapes_;
  const absl::Span<Method* const> methods_;
  const absl::Span<const Artifact> artifacts_;
  Method& base_;
  SizeFitter fitter_;
};

absl::Status CheckStates(const ArtifactFile& a, const ArtifactFile& b) {
  if (a.artifact().states_size() != b.artifact().states_size()) {
    return absl::InvalidArgumentError("the model captures other constants at other sizes");
  }
  for (int i = 0; i < a.artifact().states_size(); ++i) {
    serialization::State x = a.artifact().states(i);
    serialization::State y = b.artifact().states(i);
    const bool same_content =
        x.has_segment() == y.has_segment() && (!x.has_segment() || a.segment(x.segment()) == b.segment(y.segment()));
    if (x.has_segment()) x.set_segment(0);
    if (y.has_segment()) y.set_segment(0);
    if (same_content && x.SerializeAsString() == y.SerializeAsString()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", x.name(), "' has other sizes or another content at other sizes of the inputs",
        x.role() == serialization::State::CONSTANT ? ": it was captured while tracing, so make it from the inputs"
                                                   : ""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status UnifyMethods(const DynamicShapes& shapes, absl::Span<const DimVector> points, const LearnedSizes& learned,
                          absl::Span<Method* const> methods) {
  return Unifier(shapes, points, learned, methods, {}).Run();
}

absl::StatusOr<std::string> UnifyArtifacts(const DynamicShapes& shapes, absl::Span<const DimVector> points,
                                           const LearnedSizes& learned, std::vector<std::string> files) {
  std::vector<ArtifactFile> parsed;
  std::vector<Artifact> artifacts;
  for (std::string& bytes : files) {
    COTAN_ASSIGN_OR_RETURN(ArtifactFile file, ArtifactFile::Parse(std::move(bytes), "artifact", Calls::kKeep));
    artifacts.push_back(file.artifact());
    parsed.push_back(std::move(file));
  }
  for (size_t k = 1; k < artifacts.size(); ++k) {
    if (artifacts[k].methods_size() != artifacts[0].methods_size() ||
        artifacts[k].blocks_size() != artifacts[0].blocks_size()) {
      return absl::InvalidArgumentError("the model has other methods or blocks at other sizes");
    }
    COTAN_RETURN_IF_ERROR(CheckStates(parsed[0], parsed[k]));
  }
  for (int i = 0; i < artifacts[0].methods_size(); ++i) {
    std::vector<Method*> methods;
    for (Artifact& artifact : artifacts) methods.push_back(artifact.mutable_methods(i));
    COTAN_RETURN_IF_ERROR(Unifier(shapes, points, learned, methods, artifacts).Run());
  }
  // From the last to the first: a block's draws are those of the blocks before it, at their fixed sizes, too.
  for (int i = artifacts[0].blocks_size() - 1; i >= 0; --i) {
    std::vector<Method*> blocks;
    for (Artifact& artifact : artifacts) blocks.push_back(artifact.mutable_blocks(i));
    COTAN_RETURN_IF_ERROR(Unifier(shapes, points, learned, blocks, artifacts).Run());
  }
  for (const DynamicSymbol& symbol : shapes.symbols) {
    serialization::SymbolProto& proto = *artifacts[0].add_symbols();
    proto.set_name(symbol.name);
    proto.set_min(symbol.min);
    proto.set_max(symbol.max);
  }
  COTAN_RETURN_IF_ERROR(CheckCountsAreKnown(shapes, artifacts[0]));
  ArtifactWriter writer;
  COTAN_RETURN_IF_ERROR(writer.AddSegmentsOf(parsed[0]));
  artifacts[0].clear_segments();
  return std::move(writer).Serialize(std::move(artifacts[0]));
}

}  // namespace cotan::aot
