// Small random programs on twins.
#ifndef COTAN_TESTING_AUTOGRAD_RANDOM_PROGRAM_H_
#define COTAN_TESTING_AUTOGRAD_RANDOM_PROGRAM_H_

#include <cstdint>
#include <set>
#include <string>

namespace cotan::testing {

struct ProgramReport {
  std::string text;        // the program, one line per step
  std::string difference;  // between the two sides; "" if there is none
  int steps = 0;           // that ran
  int refused = 0;         // of those, by both sides
  int backwards = 0;       // that reached a leaf
};

// Makes and runs the program of `seed`, up to the first difference or failed
// assertion inside LibTorch. A step
// depends on the seed and its number alone, so that the rest stays what it is
// when the steps in `left_out` do not run.
ProgramReport RunRandomProgram(uint64_t seed, const std::set<int>& left_out = {});

// Leaves out steps of a program that shows a difference, as long as it does.
ProgramReport ShrinkRandomProgram(uint64_t seed);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_AUTOGRAD_RANDOM_PROGRAM_H_
