// Ending a training run with control-C without losing it.
#ifndef COTAN_EXAMPLES_COMMON_INTERRUPT_H_
#define COTAN_EXAMPLES_COMMON_INTERRUPT_H_

namespace cotan::examples {

// From now on SIGINT and SIGTERM are noted instead of ending the process; a
// second one ends it at once.
void CatchInterrupts();

// Whether one was noted. Any thread.
bool Interrupted();

}  // namespace cotan::examples

#endif  // COTAN_EXAMPLES_COMMON_INTERRUPT_H_
