// SPDX-License-Identifier: Apache-2.0

#include "linking/fingerprint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cotan {
namespace {

TEST(FingerprintTest, IsThatOfEarlierVersions) {
  EXPECT_EQ(Fingerprint("AccumulateGrad"), 14162229659571466003u);
  EXPECT_EQ(Fingerprint(std::vector<uint64_t>{1, 2, 3}), 5631902732087738355u);
}

TEST(FingerprintTest, DependsOnEachByteAndOnTheLength) {
  EXPECT_NE(Fingerprint(""), Fingerprint(std::string(1, '\0')));
  EXPECT_NE(Fingerprint("abcdefgh"), Fingerprint("abcdefgi"));
  EXPECT_NE(Fingerprint("abcdefghi"), Fingerprint("abcdefgh"));
  EXPECT_NE(Fingerprint(std::vector<uint64_t>{1, 2}), Fingerprint(std::vector<uint64_t>{2, 1}));
}

TEST(FingerprintTest, OfAMethodDependsOnTheTypesOfItsStates) {
  serialization::Artifact artifact;
  artifact.add_states()->mutable_type()->add_sizes("2");
  artifact.add_methods()->set_name("backward");
  const uint64_t without_states = MethodFingerprint(artifact, 0);
  artifact.mutable_methods(0)->add_state_reads()->set_state(0);
  const uint64_t of_two = MethodFingerprint(artifact, 0);
  artifact.mutable_states(0)->mutable_type()->set_sizes(0, "3");
  EXPECT_NE(without_states, of_two);
  EXPECT_NE(of_two, MethodFingerprint(artifact, 0));
}

}  // namespace
}  // namespace cotan
