// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/ptx_lexer.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace cotan::cuda::ptx {
namespace {

bool IsWordCharacter(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.'; }

class Lexer {
 public:
  explicit Lexer(absl::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (true) {
      COTAN_RETURN_IF_ERROR(SkipSpace());
      if (position_ == text_.size()) break;
      COTAN_RETURN_IF_ERROR(Next());
    }
    tokens_.push_back({TokenKind::kEnd, text_.substr(text_.size()), line_, text_.size()});
    return std::move(tokens_);
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("PTX line ", line_, ": ", what));
  }

  bool StartsWith(absl::string_view prefix) const { return text_.substr(position_, prefix.size()) == prefix; }

  // Moves to `end`, counting lines.
  void MoveTo(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + position_, text_.begin() + end, '\n'));
    position_ = end;
  }

  void SkipLine() { MoveTo(std::min(text_.find('\n', position_), text_.size())); }

  absl::Status SkipSpace() {
    while (position_ < text_.size()) {
      if (absl::ascii_isspace(text_[position_]) || text_[position_] == '\0') {
        MoveTo(position_ + 1);
      } else if (StartsWith("//")) {
        SkipLine();
      } else if (StartsWith("/*")) {
        const size_t end = text_.find("*/", position_);
        if (end == absl::string_view::npos) return Error("unterminated comment");
        MoveTo(end + 2);
      } else {
        break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Next() {
    const size_t begin = position_;
    const char c = text_[begin];
    if (IsWordCharacter(c)) return Word();
    if (c == '"') {
      const size_t end = text_.find('"', begin + 1);
      if (end == absl::string_view::npos) return Error("unterminated string");
      tokens_.push_back({TokenKind::kString, text_.substr(begin, end + 1 - begin), line_, begin});
      MoveTo(end + 1);
      return absl::OkStatus();
    }
    if (absl::string_view("{}[]()<>,;:=+-@!|").find(c) == absl::string_view::npos) {
      return Error(absl::StrCat("unexpected character '", text_.substr(begin, 1), "'"));
    }
    tokens_.push_back({TokenKind::kPunctuation, text_.substr(begin, 1), line_, begin});
    ++position_;
    return absl::OkStatus();
  }

  absl::Status Word() {
    const size_t begin = position_;
    size_t end = begin;
    while (end < text_.size()) {
      if (IsWordCharacter(text_[end])) {
        ++end;
      } else if (text_.substr(end, 2) == "::") {  // As in ld.global.L1::no_allocate.
        end += 2;
      } else {
        break;
      }
    }
    const absl::string_view word = text_.substr(begin, end - begin);
    if (word == ".file" || word == ".loc") {
      SkipLine();
      return absl::OkStatus();
    }
    if (word == ".section") {
      const size_t close = text_.find('}', begin);
      if (close == absl::string_view::npos) return Error("unterminated .section");
      MoveTo(close + 1);
      return absl::OkStatus();
    }
    tokens_.push_back({TokenKind::kWord, word, line_, begin});
    position_ = end;
    return absl::OkStatus();
  }

  absl::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Lex(absl::string_view text) { return Lexer(text).Run(); }

}  // namespace cotan::cuda::ptx
