// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/fuzz/shrink_program.h"

#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "testing/conformance/fuzz/program_limits.h"

namespace cotan::conformance {
namespace {

// Returns `program` without the values in `gone` and everything that depends on them.
RandomProgram Without(const RandomProgram& program, std::set<int> gone) {
  RandomProgram smaller = program;
  smaller.steps.clear();
  smaller.outputs.clear();
  for (const RandomStep& step : program.steps) {
    const bool needs_gone = absl::c_any_of(step.args, [&](int arg) { return gone.count(arg) > 0; });
    if (needs_gone || gone.count(step.result) > 0) {
      gone.insert(step.result);
    } else {
      smaller.steps.push_back(step);
    }
  }
  for (int output : program.outputs) {
    if (gone.count(output) == 0) smaller.outputs.push_back(output);
  }
  return smaller;
}

// Replaces the result of step `index` by its first argument.
RandomProgram Bypassing(const RandomProgram& program, size_t index) {
  const RandomStep bypassed = program.steps[index];
  RandomProgram smaller = program;
  smaller.steps.erase(smaller.steps.begin() + static_cast<std::ptrdiff_t>(index));
  const auto replace = [&](int& value) {
    if (value == bypassed.result) value = bypassed.args[0];
  };
  for (RandomStep& step : smaller.steps) absl::c_for_each(step.args, replace);
  absl::c_for_each(smaller.outputs, replace);
  return smaller;
}

// Removes input `index`, which is unused.
std::optional<RandomProgram> WithoutInput(const RandomProgram& program, int index) {
  const auto uses = [&](int value) { return value == index; };
  if (absl::c_any_of(program.outputs, uses)) return std::nullopt;
  for (const RandomStep& step : program.steps) {
    if (absl::c_any_of(step.args, uses)) return std::nullopt;
  }
  RandomProgram smaller = program;
  smaller.inputs.erase(smaller.inputs.begin() + index);
  for (RandomProgram::Input& input : smaller.inputs) {
    if (input.same_as == index) return std::nullopt;
    if (input.same_as > index) --input.same_as;
  }
  const auto shift = [&](int& value) { value -= value > index ? 1 : 0; };
  for (RandomStep& step : smaller.steps) {
    for (int& arg : step.args) shift(arg);
    shift(step.result);
  }
  for (int& output : smaller.outputs) shift(output);
  return smaller;
}

// Programs that are a little smaller.
std::vector<RandomProgram> Smaller(const RandomProgram& program) {
  std::vector<RandomProgram> smaller;
  for (size_t i = program.steps.size(); i-- > 0;) {
    smaller.push_back(Without(program, {program.steps[i].result}));
    smaller.push_back(Bypassing(program, i));
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    smaller.push_back(program);
    smaller.back().outputs.erase(smaller.back().outputs.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (auto without = WithoutInput(program, static_cast<int>(i))) smaller.push_back(*std::move(without));
    for (size_t view = 0; view < program.inputs[i].views.size(); ++view) {
      smaller.push_back(program);
      std::vector<RandomStep>& views = smaller.back().inputs[i].views;
      views.erase(views.begin() + static_cast<std::ptrdiff_t>(view));
    }
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (program.steps[i].mode == RandomStep::kCallers) continue;
    smaller.push_back(program);
    smaller.back().steps[i].mode = RandomStep::kCallers;
  }
  for (size_t i = 0; i < program.bases.size(); ++i) {
    if (program.bases[i].dtype == at::kFloat) continue;
    smaller.push_back(program);
    smaller.back().bases[i].dtype = at::kFloat;
  }
  if (!program.grad) {
    smaller.push_back(program);
    smaller.back().grad = true;
  }
  return smaller;
}

}  // namespace

RandomProgram Shrink(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails) {
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (RandomProgram& candidate : Smaller(program)) {
      if (!IsDefined(candidate) || !fails(candidate)) continue;
      program = std::move(candidate);
      shrunk = true;
      break;
    }
  }
  return program;
}

}  // namespace cotan::conformance
