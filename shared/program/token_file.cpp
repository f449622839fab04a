#include "shared/program/token_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "shared/base/text_file.h"

namespace edgedraft {
namespace {

constexpr std::size_t kBlanksBytesMax = 4096;  // around the token

class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& file)
      : number_(file == "-" ? ::dup(STDIN_FILENO) : ::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

std::string name_of(const std::filesystem::path& file) {
  return file == "-" ? "standard input" : file.string();
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// Fault of the file's text with its remedy; empty if there is none.
std::string complaint(std::string_view text, std::string_view token, std::size_t bytes_max) {
  if (token.empty()) {
    return "its first line is empty; write a token there, for example of `openssl rand -hex 32`";
  }
  const std::string_view rest = text.substr(std::min(text.find('\n'), text.size()));
  if (rest.find_first_not_of(" \t\r\n") != std::string_view::npos) {
    return "more than one line; a token file has a single line";
  }
  return token_complaint(token, bytes_max);
}

// `named_max` is the limit that the error names.
Result<std::string> read_whole(const std::filesystem::path& file, std::size_t bytes_max,
                               std::size_t named_max) {
  const std::string name = name_of(file);
  const auto failure = [&] {
    return Error{Errc::io, name + ": " + std::generic_category().message(errno)};
  };
  const Descriptor opened(file);
  if (opened.number() < 0) return failure();
  if (auto kept = check_private(opened.number(), name); !kept) return kept.error();

  std::string text;
  char block[4096];
  for (;;) {
    const ssize_t count = ::read(opened.number(), block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure();
    if (count == 0) break;
    text.append(block, static_cast<std::size_t>(count));
    if (text.size() > bytes_max) {
      return Error{Errc::usage,
                   name + ": longer than " + std::to_string(named_max) + " bytes, the maximum"};
    }
  }
  return text;
}

}  // namespace

std::string token_complaint(std::string_view token, std::size_t bytes_max) {
  if (token.empty()) return "is empty; write a token, for example of `openssl rand -hex 32`";
  if (token.size() > bytes_max) {
    return "longer than " + std::to_string(bytes_max) + " bytes, the maximum of a token";
  }
  if (!std::ranges::all_of(token, [](char c) { return c >= 0x20 && c < 0x7F; })) {
    return "contains characters other than printable ASCII; save it as plain text without a byte "
           "order mark";
  }
  return {};
}

Result<std::string> read_secret_file(const std::filesystem::path& file, std::size_t bytes_max) {
  return read_whole(file, bytes_max, bytes_max);
}

bool is_read_once(const std::filesystem::path& file) {
  std::error_code unknown;  // reading the file reports the error
  return file == "-" || std::filesystem::is_other(std::filesystem::status(file, unknown));
}

Result<std::string> read_token_file(const std::filesystem::path& file, std::size_t bytes_max) {
  const auto text = read_whole(file, bytes_max + kBlanksBytesMax, bytes_max);
  if (!text) return text.error();
  const std::string_view token =
      without_blanks(std::string_view(*text).substr(0, std::min(text->find('\n'), text->size())));
  if (const std::string wrong = complaint(*text, token, bytes_max); !wrong.empty()) {
    return Error{Errc::usage, name_of(file) + ": " + wrong};
  }
  return std::string(token);
}

Result<std::optional<std::string>> reread_token_file(const std::filesystem::path& file,
                                                     std::size_t bytes_max) {
  if (is_read_once(file)) return std::optional<std::string>();
  auto token = read_token_file(file, bytes_max);
  if (!token) return token.error();
  return std::optional(*std::move(token));
}

}  // namespace edgedraft
