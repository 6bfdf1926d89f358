// SPDX-License-Identifier: Apache-2.0

// Splits PTX text into tokens.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_PTX_LEXER_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_PTX_LEXER_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::cuda::ptx {

enum class TokenKind {
  kWord,         // Names, numbers, directives and opcodes with their modifiers: `ld.global.f32`, `%tid.x`.
  kPunctuation,  // One character.
  kString,       // With its quotes.
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  absl::string_view text;  // Within the lexed text.
  int line = 0;            // From 1.
  size_t offset = 0;       // In bytes within the lexed text.

  bool Is(absl::string_view other) const { return text == other && kind != TokenKind::kString; }
};

// Returns the tokens of `text`, which must outlive them, with a kEnd behind them. Comments and the
// debug directives .file, .loc and .section are dropped. Fails with InvalidArgument, naming the
// line, for a character that PTX does not use or an unterminated comment or string.
absl::StatusOr<std::vector<Token>> Lex(absl::string_view text);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_PTX_LEXER_H_
