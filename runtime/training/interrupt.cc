// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/interrupt.h"

#include <csignal>

namespace cotan::training {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void NoteInterrupt(int signal_number) {
  interrupted = 1;
  std::signal(signal_number, SIG_DFL);
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGINT, NoteInterrupt);
  std::signal(SIGTERM, NoteInterrupt);
}

bool Interrupted() { return interrupted != 0; }

}  // namespace cotan::training
