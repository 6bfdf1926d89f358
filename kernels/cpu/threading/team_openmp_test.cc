// SPDX-License-Identifier: Apache-2.0

#include <omp.h>

#include "gtest/gtest.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/team.h"

namespace cotan::cpu {
namespace {

TEST(TeamTest, IsOneOfOpenMp) {
  RunTeam(2, [](int member, int members) {
    EXPECT_EQ(member, omp_get_thread_num());
    EXPECT_EQ(members, omp_get_num_threads());
  });
}

TEST(ScopedThreadsTest, RestoresTheDefault) {
  const int before = omp_get_max_threads();
  {
    const ScopedThreads scoped(before + 3);
    EXPECT_EQ(omp_get_max_threads(), before + 3);
  }
  EXPECT_EQ(omp_get_max_threads(), before);
}

}  // namespace
}  // namespace cotan::cpu
