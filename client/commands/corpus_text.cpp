#include "client/commands/corpus_text.h"

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace edgedraft::client {
namespace {

using Give = std::function<Result<void>(std::string_view)>;

constexpr std::size_t kBlockBytes = 1u << 20;
constexpr std::size_t kJsonLineBytesMax = 64u << 20;

// Bytes of a file that were read and not used yet.
class Window {
 public:
  Window(std::ifstream& in, const std::function<void(std::uint64_t)>& advance)
      : in_(in), advance_(advance) {}

  std::string_view text() const { return std::string_view(held_).substr(used_); }
  void use(std::size_t bytes) { used_ += bytes; }
  // Reads another block; false at the end of the file.
  bool fill() {
    held_.erase(0, used_);
    used_ = 0;
    const std::size_t before = held_.size();
    held_.resize(before + kBlockBytes);
    in_.read(held_.data() + before, kBlockBytes);
    const auto count = static_cast<std::size_t>(in_.gcount());
    held_.resize(before + count);
    advance_(count);
    return count > 0;
  }

 private:
  std::ifstream& in_;
  const std::function<void(std::uint64_t)>& advance_;
  std::string held_;
  std::size_t used_ = 0;
};

// Returns the size of the next document cut from a long text. Requires  more than kDocumentBytesMax
std::size_t cut_at(std::string_view text) {
  const std::string_view most = text.substr(0, kDocumentBytesMax);
  for (const char end : {'\n', ' '}) {
    const std::size_t at = most.rfind(end);
    if (at != std::string_view::npos) return at + 1;
  }
  std::size_t cut = most.size();  // not within a UTF-8 character, if it is UTF-8
  while (cut > most.size() - 3 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return cut;
}

Result<void> read_text_documents(Window& window, CorpusSplit split, const Give& give) {
  const std::string_view end = split == CorpusSplit::lines        ? "\n"
                               : split == CorpusSplit::paragraphs ? "\n\n"
                                                                  : "";
  for (;;) {
    while (window.text().size() <= kDocumentBytesMax + end.size() && window.fill()) {
    }
    const std::string_view text = window.text();
    if (text.empty()) return {};
    std::size_t length = end.empty() ? std::string_view::npos : text.find(end);
    std::size_t used = length + end.size();
    if (length > kDocumentBytesMax) {  // or no end was found
      length = used = text.size() > kDocumentBytesMax ? cut_at(text) : text.size();
    }
    if (length > 0) {
      if (auto given = give(text.substr(0, length)); !given) return given.error();
    }
    window.use(used);
  }
}

Result<void> read_json_documents(Window& window, const std::string& field, const Give& give) {
  for (std::uint64_t number = 1;; ++number) {
    const auto bad = [&](const std::string& what) {
      return Error{Errc::bad_file, "line " + std::to_string(number) + what};
    };
    while (window.text().find('\n') == std::string_view::npos &&
           window.text().size() <= kJsonLineBytesMax && window.fill()) {
    }
    const std::size_t end = window.text().find('\n');
    const std::string_view line = window.text().substr(0, end);
    if (line.size() > kJsonLineBytesMax) return bad(": too long");
    if (line.empty() && end == std::string_view::npos) return {};
    if (line.find_first_not_of(" \r\t") != std::string_view::npos) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      const auto found = json.is_object() ? json.find(field) : json.end();
      if (found == json.end() || !found->is_string()) {
        return bad(": expected a JSON object with a string \"" + field +
                   "\"; --field selects another member");
      }
      std::string_view text = found->get_ref<const std::string&>();
      while (!text.empty()) {
        const std::size_t length = text.size() > kDocumentBytesMax ? cut_at(text) : text.size();
        if (auto given = give(text.substr(0, length)); !given) return given.error();
        text.remove_prefix(length);
      }
    }
    window.use(line.size() + (end == std::string_view::npos ? 0 : 1));
  }
}

}  // namespace

Result<void> read_documents(const std::filesystem::path& file, const CorpusReader& reader,
                            const Give& give) {
  if (std::filesystem::is_directory(file)) {
    return Error{Errc::io, file.string() + ": expected a file, found a folder"};
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) return Error{Errc::io, file.string() + ": " + std::generic_category().message(errno)};
  Window window(in, reader.advance);
  const auto read = file.extension() == ".jsonl" ? read_json_documents(window, reader.field, give)
                                                 : read_text_documents(window, reader.split, give);
  if (!read) return in_file(file, read.error());
  if (in.bad()) return Error{Errc::io, file.string() + ": cannot be read"};
  return {};
}

}  // namespace edgedraft::client
