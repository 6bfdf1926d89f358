// SPDX-License-Identifier: Apache-2.0

// The default number of threads.
#ifndef COTAN_RUNTIME_EXECUTION_PHYSICAL_CORES_H_
#define COTAN_RUNTIME_EXECUTION_PHYSICAL_CORES_H_

namespace cotan {

// Returns the number of physical cores that this process may run on, at least 1. Hyperthreads of one core
// count once.
int PhysicalCores();

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_PHYSICAL_CORES_H_
