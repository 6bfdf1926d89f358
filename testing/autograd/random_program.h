// SPDX-License-Identifier: Apache-2.0

// Random programs of Variables and LibTorch tensors, run side by side.
#ifndef COTAN_TESTING_AUTOGRAD_RANDOM_PROGRAM_H_
#define COTAN_TESTING_AUTOGRAD_RANDOM_PROGRAM_H_

#include <cstdint>
#include <set>
#include <string>

namespace cotan::testing {

struct ProgramReport {
  std::string text;        // the program, one line per step
  std::string difference;  // between the two sides; "" if there is none
  int steps = 0;           // steps that ran
  int refused = 0;         // steps that both sides refused
  int backwards = 0;       // backwards that reached a leaf
};

// Makes and runs the program of `seed`, up to the first difference or failed assertion inside
// LibTorch. A step depends only on the seed and its number, so that the steps in `left_out` can be
// omitted without changing the others.
ProgramReport RunRandomProgram(uint64_t seed, const std::set<int>& left_out = {});

// Removes steps of a program that shows a difference while it still shows one.
ProgramReport ShrinkRandomProgram(uint64_t seed);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_AUTOGRAD_RANDOM_PROGRAM_H_
