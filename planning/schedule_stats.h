// SPDX-License-Identifier: Apache-2.0

// Statistics of a schedule.
#ifndef COTAN_PLANNING_SCHEDULE_STATS_H_
#define COTAN_PLANNING_SCHEDULE_STATS_H_

namespace cotan {

// Counts of copies made and avoided, for tools and tests.
struct ScheduleStats {
  int views = 0;             // ViewOps that became geometry
  int view_copies = 0;       // ViewOps that needed a copy
  int outputs_in_place = 0;  // results computed in the caller's memory
  int output_copies = 0;
  int updates_in_place = 0;  // states computed in their own memory
  int update_copies = 0;
  int inputs_in_place = 0;  // new contents of arguments computed in their own memory
  int input_copies = 0;
  int inputs_overwritten = 0;  // ops that write over an input that dies
};

}  // namespace cotan

#endif  // COTAN_PLANNING_SCHEDULE_STATS_H_
