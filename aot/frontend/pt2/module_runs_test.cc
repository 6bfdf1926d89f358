// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/module_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/frontend/pt2/graph_text.h"
#include "aot/frontend/pt2/program_builder.h"

namespace cotan::aot::pt2 {
namespace {

using ::testing::ElementsAre;

ExportedProgram ProgramOf(const ProgramBuilder& builder) {
  auto program = ParseExportedProgram(builder.Files()[0].second, "model.json");
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

// Returns results of nodes, and runs as "path(inputs -> results){body}".
std::string Text(const Schedule& schedule) {
  return absl::StrJoin(schedule, " ", [](std::string* out, const Step& step) {
    if (const auto* node = std::get_if<const Node*>(&step)) {
      absl::StrAppend(out, absl::StrJoin(OutputNames(**node), "+"));
      return;
    }
    const ModuleRun& run = *std::get<std::shared_ptr<const ModuleRun>>(step);
    absl::StrAppend(out, run.path, "(", absl::StrJoin(run.inputs, ","), " -> ", absl::StrJoin(run.results, ","), "){",
                    Text(run.body), "}");
  });
}

// Returns the runs of a schedule, without those in runs.
std::vector<const ModuleRun*> RunsOf(const Schedule& schedule) {
  std::vector<const ModuleRun*> runs;
  for (const Step& step : schedule) {
    if (const auto* run = std::get_if<std::shared_ptr<const ModuleRun>>(&step)) runs.push_back(run->get());
  }
  return runs;
}

std::vector<std::string> PathsOf(const Schedule& schedule) {
  std::vector<std::string> paths;
  for (const ModuleRun* run : RunsOf(schedule)) paths.push_back(run->path);
  return paths;
}

size_t NumKeys(const Schedule& schedule) {
  std::set<std::string> keys;
  for (const ModuleRun* run : RunsOf(schedule)) keys.insert(run->key);
  return keys.size();
}

constexpr RepeatLimits kTwoNodes{.min_calls = 2, .min_nodes = 2};

using Call = std::function<std::string(ProgramBuilder& b, const std::string& path, const std::string& x)>;

// Calls the module `path`, whose result is a f32[3, 3].
std::string InModule(ProgramBuilder& b, const std::string& path, const std::string& x, const Call& call) {
  b.Enter(path, "models.Layer");
  std::string result = call(b, path, x);
  b.Leave();
  b.Describe(result, DType::kFloat32, {"3", "3"});
  return result;
}

std::string Unary(ProgramBuilder& b, const std::string& op, const std::string& x) {
  return b.Op(absl::StrCat("aten.", op, ".default"), {{"self", Value(x)}});
}

// sin(x @ weight).
std::string Dense(ProgramBuilder& b, const std::string& path, const std::string& x) {
  const std::string weight = b.Parameter(path + ".weight", {3, 3});
  return Unary(b, "sin", b.Op("aten.mm.default", {{"self", Value(x)}, {"mat2", Value(weight)}}));
}

TEST(ModuleRunsTest, EqualModulesAreRuns) {
  ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  for (int i = 0; i < 3; ++i) x = InModule(b, absl::StrCat("layers.", i), x, Dense);
  b.Output(Unary(b, "cos", x));
  const ExportedProgram program = ProgramOf(b);
  const Schedule schedule = FindModuleRuns(program, kTwoNodes);
  EXPECT_EQ(Text(schedule),
            "layers.0(x -> sin){mm sin} layers.1(sin -> sin_1){mm_1 sin_1} layers.2(sin_1 -> sin_2){mm_2 sin_2} cos");
  EXPECT_EQ(NumKeys(schedule), 1u);
  const ModuleRun& last = *RunsOf(schedule).back();
  ASSERT_EQ(last.parameters.size(), 1u);
  EXPECT_EQ(last.parameters[0].value, "p_layers_2_weight");
  EXPECT_EQ(last.parameters[0].name, "weight");
  EXPECT_EQ(Text(PlainSchedule(program)), "mm sin mm_1 sin_1 mm_2 sin_2 cos");
}

TEST(ModuleRunsTest, LimitsSayWhatIsWorthABlock) {
  ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  for (int i = 0; i < 3; ++i) x = InModule(b, absl::StrCat("layers.", i), x, Dense);
  b.Output(x);
  const ExportedProgram program = ProgramOf(b);
  EXPECT_THAT(PathsOf(FindModuleRuns(program, {.min_calls = 4, .min_nodes = 2})), ElementsAre());
  EXPECT_THAT(PathsOf(FindModuleRuns(program, {.min_calls = 3, .min_nodes = 3})), ElementsAre());
  EXPECT_EQ(PathsOf(FindModuleRuns(program, {.min_calls = 3, .min_nodes = 2})).size(), 3u);
}

// Layers whose numbers differ are other blocks; each kind has to repeat.
TEST(ModuleRunsTest, NumbersArePartOfTheKey) {
  ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  const double factors[] = {0.1, 0.1 + 1e-16, 0.1, 0.25, 0.1 + 1e-16};
  for (int i = 0; i < 5; ++i) {
    x = InModule(b, absl::StrCat("layers.", i), x, [&](ProgramBuilder&, const std::string& path, const std::string& y) {
      return b.Op("aten.mul.Scalar", {{"self", Value(Dense(b, path, y))}, {"other", Float(factors[i])}});
    });
  }
  b.Output(x);
  const ExportedProgram program = ProgramOf(b);
  const Schedule schedule = FindModuleRuns(program, kTwoNodes);
  ASSERT_THAT(PathsOf(schedule), ElementsAre("layers.0", "layers.1", "layers.2", "layers.4"));
  const std::vector<const ModuleRun*> runs = RunsOf(schedule);
  EXPECT_EQ(runs[0]->key, runs[2]->key);
  EXPECT_EQ(runs[1]->key, runs[3]->key);
  EXPECT_NE(runs[0]->key, runs[1]->key);
}

// Values that are connected in another way are other blocks.
TEST(ModuleRunsTest, ConnectionsArePartOfTheKey) {
  ProgramBuilder b;
  const std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  const std::string y = b.Input("y", DType::kFloat32, {"3", "3"});
  const auto product = [&](const std::string& path, const std::string& left, const std::string& right) {
    return InModule(b, path, left, [&](ProgramBuilder&, const std::string&, const std::string&) {
      return Unary(b, "sin", b.Op("aten.mm.default", {{"self", Value(left)}, {"mat2", Value(right)}}));
    });
  };
  const std::string a = product("a", x, y), c = product("c", x, x), d = product("d", y, x), e = product("e", y, y);
  for (const std::string& result : {a, c, d, e}) b.Output(result);
  const ExportedProgram program = ProgramOf(b);
  const Schedule schedule = FindModuleRuns(program, kTwoNodes);
  const std::vector<const ModuleRun*> runs = RunsOf(schedule);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0]->key, runs[2]->key);
  EXPECT_EQ(runs[1]->key, runs[3]->key);
  EXPECT_NE(runs[0]->key, runs[1]->key);
}

// Sizes are compared as expressions: sizes that are equal by chance at one trace point are not.
TEST(ModuleRunsTest, SymbolicTypesArePartOfTheKey) {
  ProgramBuilder b;
  const std::string rows = b.Symbol("s0", 4, 2, 8), others = b.Symbol("s1", 4, 2, 8);
  const std::string x = b.Input("x", DType::kFloat32, {rows, "3"}), y = b.Input("y", DType::kFloat32, {others, "3"});
  const std::string z = b.Input("z", DType::kFloat32, {rows, "3"});
  for (const auto& [path, input] : {std::pair("a", x), std::pair("b", y), std::pair("c", z)}) {
    b.Output(InModule(b, path, input, Dense));
  }
  const ExportedProgram program = ProgramOf(b);
  EXPECT_THAT(PathsOf(FindModuleRuns(program, kTwoNodes)), ElementsAre("a", "c"));
}

TEST(ModuleRunsTest, OtherNodesMayBeBetweenLayers) {
  ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  for (int i = 0; i < 2; ++i) {
    x = InModule(b, absl::StrCat("layers.", i), x, Dense);
    x = InModule(b, absl::StrCat("between.", i), x,
                 [](ProgramBuilder& p, const std::string&, const std::string& y) { return Unary(p, "cos", y); });
  }
  b.Output(x);
  const ExportedProgram program = ProgramOf(b);
  EXPECT_EQ(Text(FindModuleRuns(program, kTwoNodes)),
            "layers.0(x -> sin){mm sin} cos layers.1(cos -> sin_1){mm_1 sin_1} cos_1");
}

// Of towers with layers, the towers are runs, and their layers are runs in them.
TEST(ModuleRunsTest, TheOutermostRepeatIsTakenFirst) {
  ProgramBuilder b;
  const std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  const Call tower = [](ProgramBuilder& p, const std::string& path, const std::string& y) {
    std::string z = y;
    for (int i = 0; i < 2; ++i) z = InModule(p, absl::StrCat(path, ".layers.", i), z, Dense);
    return Unary(p, "cos", z);
  };
  b.Output(InModule(b, "left", x, tower));
  b.Output(InModule(b, "right", x, tower));
  const ExportedProgram program = ProgramOf(b);
  EXPECT_EQ(Text(FindModuleRuns(program, kTwoNodes)),
            "left(x -> cos){layers.0(x -> sin){mm sin} layers.1(sin -> sin_1){mm_1 sin_1} cos} "
            "right(x -> cos_1){layers.0(x -> sin_2){mm_2 sin_2} layers.1(sin_2 -> sin_3){mm_3 sin_3} cos_1}");
}

// A module that only calls another one has the same nodes; the outer one names the run.
TEST(ModuleRunsTest, AModuleAroundAModuleIsOneRun) {
  ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  for (int i = 0; i < 2; ++i) {
    x = InModule(b, absl::StrCat("layers.", i), x,
                 [](ProgramBuilder& p, const std::string& path, const std::string& y) {
                   return InModule(p, path + ".inner", y, Dense);
                 });
  }
  b.Output(x);
  const ExportedProgram program = ProgramOf(b);
  const Schedule schedule = FindModuleRuns(program, kTwoNodes);
  ASSERT_THAT(PathsOf(schedule), ElementsAre("layers.0", "layers.1"));
  EXPECT_EQ(RunsOf(schedule)[0]->parameters[0].name, "inner.weight");
}

// A number that the first layer computes for all moves before it.
TEST(ModuleRunsTest, NumbersMoveOutOfTheFirstLayer) {
  ProgramBuilder b;
  const std::string rows = b.Symbol("s0", 4, 2, 8);
  std::string x = b.Input("x", DType::kFloat32, {rows, "3"});
  std::string twice;
  for (int i = 0; i < 2; ++i) {
    x = InModule(b, absl::StrCat("layers.", i), x, [&](ProgramBuilder&, const std::string& path, const std::string& y) {
      const std::string z = Dense(b, path, y);
      if (twice.empty()) {
        const std::string size = b.NumberOp("aten.sym_size.int", {{"self", Value(x)}, {"dim", Int(0)}}, "s0", 4);
        twice = b.NumberOp("_operator.mul", {{"a", Size(size)}, {"b", Int(2)}}, "2*s0", 8);
      }
      return b.Op("aten.expand.default", {{"self", Value(z)}, {"size", Sizes({twice, "3"})}});
    });
    b.Describe(x, DType::kFloat32, {rows, "3"});
  }
  b.Output(x);
  const ExportedProgram program = ProgramOf(b);
  EXPECT_EQ(
      Text(FindModuleRuns(program, kTwoNodes)),
      "sym_size mul layers.0(x,mul -> expand){mm sin expand} layers.1(expand,mul -> expand_1){mm_1 sin_1 expand_1}");
}

// A size of a value that the layer computes stays there. If others use it, it is a result that is a number.
TEST(ModuleRunsTest, SizesOfInnerValuesStay) {
  ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  std::string size;
  for (int i = 0; i < 2; ++i) {
    x = InModule(b, absl::StrCat("layers.", i), x, [&](ProgramBuilder&, const std::string& path, const std::string& y) {
      const std::string z = Dense(b, path, y);
      size = b.NumberOp("aten.sym_size.int", {{"self", Value(z)}, {"dim", Int(0)}}, "", 3);
      return b.Op("aten.expand.default", {{"self", Value(z)}, {"size", Sizes({size, "3"})}});
    });
    x = b.Op("aten.expand.default", {{"self", Value(x)}, {"size", Sizes({size, "3"})}});
    b.Describe(x, DType::kFloat32, {"3", "3"});
  }
  b.Output(x);
  const ExportedProgram program = ProgramOf(b);
  const Schedule schedule = FindModuleRuns(program, kTwoNodes);
  ASSERT_THAT(PathsOf(schedule), ElementsAre("layers.0", "layers.1"));
  EXPECT_EQ(RunsOf(schedule)[0]->number, "sym_size");
  EXPECT_EQ(Text(RunsOf(schedule)[0]->body), "mm sin sym_size expand");
}

TEST(ModuleRunsTest, ChecksAreNotCompared) {
  ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  for (int i = 0; i < 2; ++i) {
    x = InModule(b, absl::StrCat("layers.", i), x, [&](ProgramBuilder&, const std::string& path, const std::string& y) {
      if (i == 1) b.Check("aten._assert_tensor_metadata.default", {{"a", Value(y)}});
      return Dense(b, path, y);
    });
  }
  b.Output(x);
  const ExportedProgram program = ProgramOf(b);
  EXPECT_EQ(PathsOf(FindModuleRuns(program, kTwoNodes)).size(), 2u);
}

// Nodes without metadata between nodes of a layer belong to it.
TEST(ModuleRunsTest, NodesWithoutModulesBelongToTheModuleAroundThem) {
  ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  for (int i = 0; i < 2; ++i) {
    x = InModule(b, absl::StrCat("layers.", i), x,
                 [](ProgramBuilder& p, const std::string& path, const std::string& y) {
                   return Unary(p, "cos", Dense(p, path, y));
                 });
  }
  b.Output(x);
  ExportedProgram program = ProgramOf(b);
  for (Node& node : program.graph.nodes) {
    if (OutputNames(node)[0] == "sin") node.module_stack = "";
    if (OutputNames(node)[0] == "sin_1") {
      node.module_stack =
          "_empty_nn_module_stack_from_metadata_hook,_empty_nn_module_stack_from_metadata_hook,"
          "_empty_nn_module_stack_from_metadata_hook";
    }
  }
  EXPECT_EQ(Text(FindModuleRuns(program, kTwoNodes)),
            "layers.0(x -> cos){mm sin cos} layers.1(cos -> cos_1){mm_1 sin_1 cos_1}");
}

TEST(ModuleRunsTest, ProgramsWithoutModulesHaveNoRuns) {
  ProgramBuilder b(/*has_module_stacks=*/false);
  std::string x = b.Input("x", DType::kFloat32, {"3", "3"});
  for (int i = 0; i < 3; ++i) x = InModule(b, absl::StrCat("layers.", i), x, Dense);
  b.Output(x);
  const ExportedProgram program = ProgramOf(b);
  EXPECT_EQ(Text(FindModuleRuns(program, kTwoNodes)), Text(PlainSchedule(program)));
}

}  // namespace
}  // namespace cotan::aot::pt2
