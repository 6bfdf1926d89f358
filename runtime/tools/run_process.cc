// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/run_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace cotan::tools {
namespace {

// Makes `file` of the new process a copy of `source`, or nothing if that is -1.
void Redirect(int file, int source, posix_spawn_file_actions_t& actions) {
  if (source < 0) {
    posix_spawn_file_actions_addopen(&actions, file, "/dev/null", O_RDWR, 0);
  } else {
    posix_spawn_file_actions_adddup2(&actions, source, file);
  }
}

}  // namespace

absl::StatusOr<int> RunProcess(const std::vector<std::string>& words, const ProcessFiles& files) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  Redirect(STDOUT_FILENO, files.output, actions);
  Redirect(STDERR_FILENO, files.errors, actions);
  Redirect(STDIN_FILENO, -1, actions);  // last: without a standard input, a given file may have its number
  pid_t process = 0;
  const int error = posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    const std::string message = absl::StrCat("cannot run '", words[0], "': ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
  }
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) return absl::UnavailableError(absl::StrCat("waitpid: ", std::strerror(errno)));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace cotan::tools
