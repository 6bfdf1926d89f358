// SPDX-License-Identifier: Apache-2.0

// Threads for work that is done once, such as loading. Steps have their own (kernels/cpu/threading).
#ifndef COTAN_BASE_TASKS_H_
#define COTAN_BASE_TASKS_H_

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace cotan {

// Returns the number of processors that this process may use, at least 1.
int UsableProcessors();

// Calls fn(i) once for each i in [0, count), in any order, on the calling thread and on at most `threads` - 1 further
// ones, which end before this returns. If the system starts no more threads, those that there are do the work. Calls
// are started in ascending order. threads >= 1; `fn` is safe to call from several threads at once.
void RunTasks(int threads, size_t count, absl::FunctionRef<void(size_t i)> fn);

// Has the system allocate the pages of fresh memory: a page that is touched for the first time inside of a step costs
// about a microsecond there. Large pages are used as far as the system has them available; the others are allocated on
// all usable processors, if those are several. The content of the memory is undefined, before and after. Does nothing
// for memory of less than 2 MiB.
void PopulatePages(void* memory, size_t bytes);

}  // namespace cotan

#endif  // COTAN_BASE_TASKS_H_
