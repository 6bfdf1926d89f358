// SPDX-License-Identifier: Apache-2.0

// Walks over the tokens of a PTX text.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_TOKEN_CURSOR_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_TOKEN_CURSOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/sim/ptx/ptx_lexer.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {

// A declared variable or parameter: `.align 16 .b8 name[2][32]`.
struct Declaration {
  std::string name;
  ScalarType type;
  int64_t alignment = 0;  // In bytes.
  int64_t size = 0;       // In bytes; 0 for `name[]`.
  bool unsized = false;   // `name[]`.
};

// A number of PTX text.
struct Number {
  int64_t value = 0;  // Bits of a float.
  bool is_float = false;
  int bits = 64;  // 32 for 0f….
};

// Returns the number that `text` ("12", "0x1FU", "0f3F800000", "0d…") names, or nothing. A decimal
// number with a point is not PTX that the compilers emit and is not read.
std::optional<Number> ParseNumber(absl::string_view text);

// A position in a list of tokens. All errors are InvalidArgument and name the line.
class TokenCursor {
 public:
  // `text` is what `tokens` were lexed from and must outlive the cursor.
  TokenCursor(absl::string_view text, std::vector<Token> tokens) : text_(text), tokens_(std::move(tokens)) {}

  const Token& Peek(size_t ahead = 0) const { return tokens_[std::min(position_ + ahead, tokens_.size() - 1)]; }
  Token Next();
  bool AtEnd() const { return Peek().kind == TokenKind::kEnd; }

  // Skips the next token if it is `text`, and returns whether it was.
  bool Accept(absl::string_view text);
  absl::Status Expect(absl::string_view text);
  absl::StatusOr<std::string> ExpectName();
  absl::StatusOr<int64_t> ExpectInteger();

  // Reads a declaration after its state space; attributes of kernel parameters (.ptr .global) are
  // skipped. Stops before `,`, `;`, `=` or `)`.
  absl::StatusOr<Declaration> ParseDeclaration();

  // Returns the text from `first` up to the current token, without trailing spaces.
  std::string TextSince(const Token& first) const;

  absl::Status Error(absl::string_view what) const;

 private:
  absl::string_view text_;
  std::vector<Token> tokens_;
  size_t position_ = 0;
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_TOKEN_CURSOR_H_
