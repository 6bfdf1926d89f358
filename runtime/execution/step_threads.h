// SPDX-License-Identifier: Apache-2.0

// The number of threads of a step.
#ifndef COTAN_RUNTIME_EXECUTION_STEP_THREADS_H_
#define COTAN_RUNTIME_EXECUTION_STEP_THREADS_H_

namespace cotan {

// Returns the number of threads for steps whose caller asks for `requested`: as many, but at most one for each
// processor that this process may run on, since threads that share a processor wait for each other. For 0, one for each
// physical core of these: hyperthreads of one core count once.
//
// requested >= 0. Thread-safe.
int StepThreads(int requested);

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_STEP_THREADS_H_
