// How many threads make sense on this machine.
#ifndef COTAN_RUNTIME_EXECUTION_PHYSICAL_CORES_H_
#define COTAN_RUNTIME_EXECUTION_PHYSICAL_CORES_H_

namespace cotan {

// Processor cores this process may run on; hyperthreads of one core count
// once. At least 1.
int PhysicalCores();

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_PHYSICAL_CORES_H_
