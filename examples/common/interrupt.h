// SPDX-License-Identifier: Apache-2.0

// Ends a training run by control-C after a checkpoint.
#ifndef COTAN_EXAMPLES_COMMON_INTERRUPT_H_
#define COTAN_EXAMPLES_COMMON_INTERRUPT_H_

namespace cotan::examples {

// Installs handlers that record the first SIGINT or SIGTERM instead of ending the process; a second
// one ends it at once.
void CatchInterrupts();

// Returns whether a signal was recorded. Any thread.
bool Interrupted();

}  // namespace cotan::examples

#endif  // COTAN_EXAMPLES_COMMON_INTERRUPT_H_
