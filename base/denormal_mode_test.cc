// SPDX-License-Identifier: Apache-2.0

#include "base/denormal_mode.h"

#include <limits>
#include <thread>

#include "gtest/gtest.h"

namespace cotan {
namespace {

// Not constants, so that the compiler does not compute with them.
volatile float smallest_normal = std::numeric_limits<float>::min();
volatile float smallest = std::numeric_limits<float>::denorm_min();
volatile double smallest_normal_double = std::numeric_limits<double>::min();
volatile float half = 0.5F;
volatile float large = 0x1p100F;

bool FlushesResults() { return smallest_normal * half == 0 && smallest_normal_double * half == 0; }
bool FlushesOperands() { return smallest * large == 0; }

TEST(DenormalModeTest, SupportedProcessorsCanFlush) { EXPECT_TRUE(CanFlushDenormals()); }

TEST(DenormalModeTest, ScopeFlushesOperandsAndResultsAndEnds) {
  ASSERT_FALSE(FlushesResults() || FlushesOperands());
  {
    const ScopedDenormalMode scope(true);
    EXPECT_TRUE(FlushesResults());
    EXPECT_TRUE(FlushesOperands());
    EXPECT_TRUE(CurrentDenormalMode().flush);
  }
  EXPECT_FALSE(FlushesResults());
  EXPECT_FALSE(FlushesOperands());
  EXPECT_FALSE(CurrentDenormalMode().flush);
}

TEST(DenormalModeTest, ScopesNest) {
  const ScopedDenormalMode outer(true);
  {
    const ScopedDenormalMode same(true);
    EXPECT_TRUE(FlushesResults());
  }
  EXPECT_TRUE(FlushesResults());
  {
    const ScopedDenormalMode inner(false);
    EXPECT_FALSE(FlushesResults());
    const ScopedDenormalMode innermost(true);
    EXPECT_TRUE(FlushesResults());
  }
  EXPECT_TRUE(FlushesResults());
}

TEST(DenormalModeTest, AThreadThatWorksForAnotherTakesItsMode) {
  const ScopedDenormalMode scope(true);
  const DenormalMode mode = CurrentDenormalMode();
  // The new thread inherits the register of this one.
  std::thread([&mode] {
    {
      const ScopedDenormalMode worker(mode);
      EXPECT_TRUE(FlushesResults());
    }
    EXPECT_FALSE(FlushesResults()) << "the mode outlives the work";
  }).join();
  EXPECT_TRUE(FlushesResults());
}

TEST(DenormalModeTest, TheDefaultIsNotTouched) {
  const ScopedDenormalMode scope(false);
  EXPECT_FALSE(FlushesResults());
  const ScopedDenormalMode of_another((DenormalMode()));
  EXPECT_FALSE(FlushesResults());
}

}  // namespace
}  // namespace cotan
