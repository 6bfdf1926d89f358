// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/pass.h"

#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

Graph Example() { return *ParseGraph("graph @g {\n %0: f32[2] = user_input 0 \"x\"\n user_output 0 \"y\" = %0\n}\n"); }

TEST(PassPipelineTest, RunsInOrderAndDumpsWhatChanged) {
  std::vector<std::string> order;
  std::vector<std::string> dumped;
  PassPipeline pipeline("p");
  pipeline.Add("same", [&](Graph&) {
    order.push_back("same");
    return false;
  });
  pipeline.Add("rename", [&](Graph& graph) {
    order.push_back("rename");
    graph.name = "h";
    return true;
  });
  pipeline.set_dump([&](absl::string_view stage, const Graph&) { dumped.emplace_back(stage); });
  Graph graph = Example();
  const absl::StatusOr<bool> changed = pipeline.Run(graph);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(*changed);
  EXPECT_EQ(order, (std::vector<std::string>{"same", "rename"}));
  EXPECT_EQ(dumped, (std::vector<std::string>{"p.01.rename"}));
}

TEST(PassPipelineTest, NamesThePassThatBreaksTheGraph) {
  PassPipeline pipeline("p");
  pipeline.Add("break", [](Graph& graph) {
    graph.outputs()[0].value = 99;
    return true;
  });
  Graph graph = Example();
  const absl::Status status = pipeline.Run(graph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("after p.break"), std::string::npos) << status;
}

TEST(PassPipelineTest, PassesAnErrorOn) {
  PassPipeline pipeline("p");
  pipeline.Add("fail", [](Graph&) -> absl::StatusOr<bool> { return absl::UnimplementedError("no"); });
  Graph graph = Example();
  EXPECT_EQ(pipeline.Run(graph).status(), absl::UnimplementedError("fail: no"));
}

}  // namespace
}  // namespace cotan::aot
