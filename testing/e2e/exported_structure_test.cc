// SPDX-License-Identifier: Apache-2.0

// The structure of the arguments and results of an archive (in_spec and out_spec of torch.export) is kept in the
// compiled artifact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>

#include "aot/compile.h"
#include "aot/frontend/pt2/archive_builder.h"
#include "aot/frontend/pt2/model.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/tools/inspect.h"
#include "serialization/metadata/graph_signature.h"

namespace cotan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kModelFile[] = "m/models/model.json";

// Returns the artifact of relu(x @ weight.T + count), which takes ((x,), {}) and whose results have the structure
// `out_spec`.
std::shared_ptr<const Program> ProgramOf(const std::string& out_spec) {
  aot::pt2::ArchiveFiles files = aot::pt2::SmallModel();
  aot::pt2::Replace(files, kModelFile,
                    R"("out_spec": "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]")",
                    "\"out_spec\": \"" + out_spec + "\"");
  const auto model = aot::pt2::Model::Load(aot::pt2::WriteArchive("structure.pt2", files));
  EXPECT_TRUE(model.ok()) << model.status();
  const auto compiled = aot::CompilePt2(*model, {torch::rand({2, 3})}, {});
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *Program::LoadBytes(compiled->bytes());
}

TEST(ExportedStructureTest, NestedResultsKeepTheirStructureAndKeys) {
  const std::string leaf = R"({\"type\": null, \"context\": null, \"children_spec\": []})";
  const std::string dict =
      R"({\"type\": \"builtins.dict\", \"context\": \"[\\\"logits\\\"]\", \"children_spec\": [)" + leaf + "]}";
  const auto program =
      ProgramOf(R"([1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [)" + dict + "]}]");
  const serialization::Method& forward = program->method(*program->FindMethod("forward"));
  const auto signature = GraphSignature::FromProto(forward.signature());
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->in_spec->ToString(), "((*), {})");
  EXPECT_EQ(signature->out_spec->ToString(), "({logits: *})");
  EXPECT_EQ(GraphSignature::FromProto(signature->ToProto())->out_spec, signature->out_spec);
  const std::string text = tools::InspectText(*program, /*with_program=*/false);
  EXPECT_THAT(text, HasSubstr("structure of arguments: ((*), {})"));
  EXPECT_THAT(text, HasSubstr("structure of results: ({logits: *})"));

  // A call takes and returns the leaves in order.
  Session session = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
  const auto results = session.Run("forward", {*Tensor::From<float>({0, 1, 2, 3, 4, 5}, {2, 3})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(results->size(), 1u);
}

TEST(ExportedStructureTest, FlatResultsAreNotShown) {
  const auto program = ProgramOf(
      R"([1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}])");
  EXPECT_THAT(tools::InspectText(*program, /*with_program=*/false), Not(HasSubstr("structure of results")));
}

}  // namespace
}  // namespace cotan
