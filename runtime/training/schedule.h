// SPDX-License-Identifier: Apache-2.0

// Learning rates as functions of the step.
#ifndef COTAN_RUNTIME_TRAINING_SCHEDULE_H_
#define COTAN_RUNTIME_TRAINING_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::training {

// The shapes; names are those of torch.optim.lr_scheduler.
enum class ScheduleKind : uint8_t {
  kConstant,
  kStep,      // StepLR
  kCosine,    // CosineAnnealingLR
  kOneCycle,  // OneCycleLR with cosine annealing, two phases, without a cycle of the momentum
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  // kStep: the rate is multiplied by `gamma` after each `step_epochs` epochs, or, if that is 0, `step_size` steps.
  int64_t step_size = 0;
  int64_t step_epochs = 0;
  double gamma = 0.1;
  // kCosine: the rate at the end.
  double minimum = 0;
  // kOneCycle: the highest rate is the base rate, after this share of the steps; the first rate is the base rate
  // divided by `div_factor`, the last one is the first divided by `final_div_factor`.
  double pct_start = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
  // Steps of a linear warm-up before the schedule (SequentialLR of LinearLR and the schedule), from `warmup_start`
  // times the first rate. The schedule takes the steps that are left. 0: none.
  int64_t warmup_steps = 0;
  double warmup_start = 1.0 / 3;
};

// Parses "constant", "step(epochs=10,gamma=0.1)", "step(steps=1000)", "cosine(minimum=1e-5)" or
// "one_cycle(pct_start=0.3,div_factor=25,final_div_factor=1e4)". All options of cosine and one_cycle may be omitted.
// InvalidArgument: another text; the message names the part that is wrong and what there is.
absl::StatusOr<ScheduleOptions> ParseSchedule(absl::string_view text);

// A schedule for a number of steps. Copyable; any number of threads may use it.
class Schedule {
 public:
  // InvalidArgument: an option is out of range; the message names it. Steps and epochs are at least 1.
  static absl::StatusOr<Schedule> Create(const ScheduleOptions& options, int64_t total_steps, int64_t steps_per_epoch);

  // Returns the learning rate of step `step` >= 0 for a parameter group with the base rate `base`. From `total_steps`
  // on the rate stays the last one, except those of kConstant and kStep, which do not depend on `total_steps`.
  double Rate(double base, int64_t step) const;

  // Returns a text that differs if rates differ for some base and step.
  std::string ToString() const;

 private:
  Schedule(const ScheduleOptions& options, int64_t total_steps) : options_(options), total_steps_(total_steps) {}
  double CosineRate(double base, int64_t step) const;
  double OneCycleRate(double base, int64_t step) const;
  // Returns the rate of the schedule itself; step 0 is the first one after the warm-up.
  double MainRate(double base, int64_t step) const;

  ScheduleOptions options_;
  int64_t total_steps_;  // those of the warm-up not counted
};

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_SCHEDULE_H_
