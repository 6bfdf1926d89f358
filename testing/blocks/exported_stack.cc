// SPDX-License-Identifier: Apache-2.0

#include "testing/blocks/exported_stack.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"

namespace cotan::testing {
namespace {

using aot::pt2::Bool;
using aot::pt2::Float;
using aot::pt2::Int;
using aot::pt2::ProgramBuilder;
using aot::pt2::Size;
using aot::pt2::Sizes;
using aot::pt2::Value;

std::string Text(int64_t value) { return absl::StrCat(value); }

}  // namespace

std::string LayerBuilder::Linear(const std::string& path, const std::string& x, int64_t in, int64_t out) {
  const std::string weight = b_.Parameter(path + ".weight", {out, in});
  const std::string bias = b_.Parameter(path + ".bias", {out});
  return b_.Op("aten.linear.default", {{"input", Value(x)}, {"weight", Value(weight)}, {"bias", Value(bias)}});
}

std::string LayerBuilder::Norm(const std::string& path, const std::string& x) {
  const std::string weight = b_.Parameter(path + ".weight", {options_.width});
  const std::string bias = b_.Parameter(path + ".bias", {options_.width});
  return b_.Op("aten.layer_norm.default", {{"input", Value(x)},
                                           {"normalized_shape", Sizes({Text(options_.width)})},
                                           {"weight", Value(weight)},
                                           {"bias", Value(bias)},
                                           {"eps", Float(1e-5)}});
}

std::string LayerBuilder::Dropout(const std::string& x) {
  return b_.Op("aten.dropout.default",
               {{"input", Value(x)}, {"p", Float(options_.dropout)}, {"train", Bool(options_.train)}});
}

std::string LayerBuilder::Attend(const std::string& path, const std::string& x) {
  const int64_t width = options_.width;
  const std::string time = Text(options_.time), heads = Text(options_.heads);
  const std::string qkv = Linear(path + ".qkv", x, width, 3 * width);
  const std::string view =
      b_.Op("aten.view.default",
            {{"self", Value(qkv)}, {"size", Sizes({batch_, time, "3", heads, Text(width / options_.heads)})}});
  const std::string permuted =
      b_.Op("aten.permute.default", {{"self", Value(view)}, {"dims", Sizes({"2", "0", "3", "1", "4"})}});
  const std::vector<std::string> parts = b_.ListOp("aten.unbind.int", {{"self", Value(permuted)}}, 3);
  const std::string attended = b_.Op(
      "aten.scaled_dot_product_attention.default",
      {{"query", Value(parts[0])}, {"key", Value(parts[1])}, {"value", Value(parts[2])}, {"is_causal", Bool(true)}});
  const std::string transposed =
      b_.Op("aten.transpose.int", {{"self", Value(attended)}, {"dim0", Int(1)}, {"dim1", Int(2)}});
  if (rows_.empty()) {
    rows_ = options_.has_dynamic_batch ? b_.NumberOp("_operator.mul", {{"a", Size(batch_)}, {"b", Int(options_.time)}},
                                                     absl::StrCat(options_.time, "*s0"), options_.batch * options_.time)
                                       : Text(options_.batch * options_.time);
  }
  const std::string flat =
      b_.Op("aten.reshape.default", {{"self", Value(transposed)}, {"shape", Sizes({rows_, Text(width)})}});
  const std::string projected = Linear(path + ".projection", flat, width, width);
  return b_.Op("aten.view.default", {{"self", Value(projected)}, {"size", Sizes({batch_, time, Text(width)})}});
}

std::string LayerBuilder::Layer(const std::string& path, const std::string& x) {
  const auto in_module = [&](const std::string& name, const std::string& type, const auto& call) {
    b_.Enter(absl::StrCat(path, ".", name), type);
    const std::string result = call(absl::StrCat(path, ".", name));
    b_.Leave();
    return result;
  };
  const int64_t width = options_.width;
  b_.Enter(path, "models.TransformerLayer");
  const std::string norm1 =
      in_module("norm1", "torch.nn.LayerNorm", [&](const std::string& own) { return Norm(own, x); });
  const std::string attended =
      in_module("attention", "models.Attention", [&](const std::string& own) { return Attend(own, norm1); });
  const std::string sum = b_.Op("aten.add.Tensor", {{"self", Value(x)}, {"other", Value(Dropout(attended))}});
  const std::string norm2 =
      in_module("norm2", "torch.nn.LayerNorm", [&](const std::string& own) { return Norm(own, sum); });
  const std::string expanded = in_module("expand", "torch.nn.Linear",
                                         [&](const std::string& own) { return Linear(own, norm2, width, 4 * width); });
  const std::string gelu = b_.Op("aten.gelu.default", {{"self", Value(expanded)}});
  const std::string contracted = in_module("contract", "torch.nn.Linear",
                                           [&](const std::string& own) { return Linear(own, gelu, 4 * width, width); });
  const std::string result = b_.Op("aten.add.Tensor", {{"self", Value(sum)}, {"other", Value(Dropout(contracted))}});
  b_.Leave();
  return result;
}

aot::pt2::ArchiveFiles ExportedStack(const ExportedStackOptions& options) {
  ProgramBuilder b(options.has_module_stacks);
  LayerBuilder layers(options, b);
  std::string batch = Text(options.batch);
  if (options.has_dynamic_batch) batch = b.Symbol("s0", options.batch, 2, 32);
  const std::string time = Text(options.time);
  const std::string tokens = b.Input("tokens", DType::kInt64, {batch, time});
  const std::string targets = b.Input("targets", DType::kInt64, {batch, time});
  if (options.has_dynamic_batch) {
    batch = b.NumberOp("aten.sym_size.int", {{"self", Value(tokens)}, {"dim", Int(0)}}, "s0", options.batch);
  }
  layers.SetBatch(batch);
  const std::string words = b.Parameter("tokens.weight", {options.vocabulary, options.width});
  const std::string positions = b.Parameter("positions.weight", {options.time, options.width});
  const std::string embedded = b.Op("aten.embedding.default", {{"weight", Value(words)}, {"indices", Value(tokens)}});
  std::string x = b.Op("aten.add.Tensor", {{"self", Value(embedded)}, {"other", Value(positions)}});
  for (int64_t i = 0; i < options.layers; ++i) x = layers.Layer(absl::StrCat("layers.", i), x);
  const std::string logits = layers.Linear("output", layers.Norm("norm", x), options.width, options.vocabulary);
  const std::string flat =
      b.Op("aten.view.default", {{"self", Value(logits)}, {"size", Sizes({"-1", Text(options.vocabulary)})}});
  const std::string flat_targets = b.Op("aten.view.default", {{"self", Value(targets)}, {"size", Sizes({"-1"})}});
  b.Output(b.Op("aten.cross_entropy_loss.default", {{"self", Value(flat)}, {"target", Value(flat_targets)}}));
  return b.Files();
}

}  // namespace cotan::testing
