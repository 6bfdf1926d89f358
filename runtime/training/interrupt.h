// SPDX-License-Identifier: Apache-2.0

// Ends a training run by control-C after a checkpoint, in programs that train.
#ifndef COTAN_RUNTIME_TRAINING_INTERRUPT_H_
#define COTAN_RUNTIME_TRAINING_INTERRUPT_H_

namespace cotan::training {

// Installs handlers that record the first SIGINT or SIGTERM instead of ending the process; a second
// one ends it at once.
void CatchInterrupts();

// Returns whether a signal was recorded. Any thread.
bool Interrupted();

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_INTERRUPT_H_
