// SPDX-License-Identifier: Apache-2.0

// Indented lines of source text.
#ifndef COTAN_KERNELS_CUDA_EXPR_TEXT_WRITER_H_
#define COTAN_KERNELS_CUDA_EXPR_TEXT_WRITER_H_

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cotan::cuda::expr {

class TextWriter {
 public:
  explicit TextWriter(int depth) : depth_(depth) {}

  template <typename... T>
  void Line(const T&... pieces) {
    absl::StrAppend(&text_, std::string(static_cast<size_t>(depth_) * 2, ' '), pieces..., "\n");
  }
  // Writes a line that begins a block.
  template <typename... T>
  void Open(const T&... pieces) {
    Line(pieces..., " {");
    ++depth_;
  }
  void Close() {
    --depth_;
    Line("}");
  }
  // Writes a line that is not indented.
  void Directive(absl::string_view line) { absl::StrAppend(&text_, line, "\n"); }

  // Writes lines as they are.
  void Append(absl::string_view lines) { absl::StrAppend(&text_, lines); }

  std::string Take() { return std::move(text_); }

 private:
  int depth_;
  std::string text_;
};

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_TEXT_WRITER_H_
