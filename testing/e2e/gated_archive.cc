// SPDX-License-Identifier: Apache-2.0

#include "testing/e2e/gated_archive.h"

#include "absl/strings/str_cat.h"
#include "aot/frontend/pt2/archive_builder.h"
#include "aot/frontend/pt2/program_builder.h"
#include "base/dtype.h"

namespace cotan::testing {

std::string WriteGatedArchive(int64_t width, int64_t rank, LinearForm form) {
  using aot::pt2::Float;
  using aot::pt2::Sizes;
  using aot::pt2::Value;
  aot::pt2::ProgramBuilder b;
  const std::string columns = absl::StrCat(width);
  const aot::pt2::SizeTexts sizes =
      rank == 2 ? aot::pt2::SizeTexts{"6", columns} : aot::pt2::SizeTexts{"3", "5", columns};
  const auto layer = [&](const std::string& name, const std::string& x, bool has_bias) {
    b.Enter(name, "torch.nn.Linear");
    const std::string weight = Value(b.Parameter(name + ".weight", {width, width}));
    const std::string bias = has_bias ? Value(b.Parameter(name + ".bias", {width})) : "";
    std::string y;
    if (form == LinearForm::kOp) {
      aot::pt2::OpArguments arguments = {{"input", Value(x)}, {"weight", weight}};
      if (has_bias) arguments.emplace_back("bias", bias);
      y = b.Op("aten.linear.default", arguments);
    } else {
      const std::string transposed =
          Value(b.Op("aten.permute.default", {{"self", weight}, {"dims", Sizes({"1", "0"})}}));
      y = has_bias ? b.Op("aten.addmm.default", {{"self", bias}, {"mat1", Value(x)}, {"mat2", transposed}})
                   : b.Op("aten.mm.default", {{"self", Value(x)}, {"mat2", transposed}});
    }
    b.Leave();
    return y;
  };
  const std::string x = b.Input("x", DType::kFloat32, sizes);
  const std::string q = layer("q_proj", x, /*has_bias=*/true);
  const std::string v = b.Op("aten.sigmoid.default", {{"self", Value(layer("v_proj", x, /*has_bias=*/false))}});
  const std::string gated = b.Op("aten.mul.Tensor", {{"self", Value(q)}, {"other", Value(v)}});
  const std::string norm = b.Op("aten.layer_norm.default", {{"input", Value(gated)},
                                                            {"normalized_shape", Sizes({columns})},
                                                            {"weight", Value(b.Parameter("norm.weight", {width}))},
                                                            {"bias", Value(b.Parameter("norm.bias", {width}))},
                                                            {"eps", Float(1e-5)}});
  const std::string y =
      b.Op("aten.add.Tensor", {{"self", Value(layer("out", norm, /*has_bias=*/true))}, {"other", Value(x)}});
  b.Describe(y, DType::kFloat32, sizes);
  b.Output(y);
  return aot::pt2::WriteArchive("gated.pt2", b.Files());
}

}  // namespace cotan::testing
