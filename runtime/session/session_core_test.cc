// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/session_core.h"

#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::State;
using testing::ProgramBuilder;
using testing::TestKernels;

std::shared_ptr<SessionCore> Core() {
  ProgramBuilder program;
  program.AddState("weight", State::PARAMETER, {"2"}, {1, 2});
  program.artifact().mutable_states(0)->set_requires_grad(true);
  program.AddState("frozen", State::PARAMETER, {"2"}, {1, 2});
  program.AddState("mean", State::BUFFER, {"2"}, {1, 2});
  return *SessionCore::Create(program.Load(), {.kernels = &TestKernels(), .device = &HostDevice(), .threads = 1}, 1);
}

TEST(SessionCoreTest, StatesAreVariablesOverTheirMemory) {
  const std::shared_ptr<SessionCore> core = Core();
  const Variable& weight = core->StateVariable(0);
  EXPECT_EQ(weight.tensor().storage(), core->states().tensor(0).storage());
  EXPECT_TRUE(core->StateVariable(0).is_same(weight));
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_FALSE(core->StateVariable(1).requires_grad());
  EXPECT_FALSE(core->StateVariable(2).requires_grad());
}

TEST(SessionCoreTest, WritesOfAMethodCountAsWritesOfTheVariable) {
  const std::shared_ptr<SessionCore> core = Core();
  const uint64_t state_version = core->states().version(2);
  const uint32_t version = core->StateVariable(2).version();
  core->BumpVersion(2);
  EXPECT_GT(core->states().version(2), state_version);
  EXPECT_GT(core->StateVariable(2).version(), version);
}

TEST(SessionCoreTest, ThereIsNoArenaBeforeACallNeedsOne) { EXPECT_EQ(Core()->arena_bytes(), 0); }

}  // namespace
}  // namespace cotan
