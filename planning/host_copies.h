// SPDX-License-Identifier: Apache-2.0

// Steps that copy between the device and the host.
#ifndef COTAN_PLANNING_HOST_COPIES_H_
#define COTAN_PLANNING_HOST_COPIES_H_

#include "planning/schedule.h"

namespace cotan {

// Returns whether the step copies between the device and the host. No kernel of the registry executes it.
bool IsHostCopy(const Schedule& schedule, const ScheduledStep& step);

// Removes the copies to the arena on the host that no step reads: those of values that the caller does not save.
void DropUnreadHostCopies(Schedule& schedule);

}  // namespace cotan

#endif  // COTAN_PLANNING_HOST_COPIES_H_
