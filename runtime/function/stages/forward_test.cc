// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/forward.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session_access.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::Values;
using testing::Vector;

// count += 1 (a buffer); return x + 1
TEST(ForwardTest, StatesThatTheProgramUpdatesGetANewVersion) {
  ProgramBuilder builder;
  const uint32_t state = builder.AddState("count", serialization::State::BUFFER, DType::kFloat32, {"2"}, 1);
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t x = f.Input("x", DType::kFloat32, {"2"});
  f.Output("y", Plus(f, x, 1.0));
  f.Update(state, Plus(f, x, 2.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Plain()};
  facts.output_info = {Fresh(false)};
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const StateStore& states = SessionCoreOf(program.session)->states();
  const uint64_t version = states.version(static_cast<int>(state));
  EXPECT_THAT(Values(At(program.Call({Variable(Vector({1, 2}))}), 0)), ElementsAre(2, 3));
  EXPECT_THAT(Values(Variable(states.tensor(static_cast<int>(state)))), ElementsAre(3, 4));
  EXPECT_GT(states.version(static_cast<int>(state)), version);
  EXPECT_THAT(program.f.ToString(), HasSubstr("  forward     2 ops, 1 results, 0 saved\n"));
}

}  // namespace
}  // namespace cotan
