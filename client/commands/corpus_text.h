#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// What is a document of a plain text: all of it, a line, or lines up to an empty one.
enum class CorpusSplit : std::uint8_t { file, lines, paragraphs };

struct CorpusReader {
  CorpusSplit split = CorpusSplit::file;
  // In a file of JSON lines (*.jsonl) each line is a document: the text under this name.
  std::string field = "text";
  // Told of bytes of the files.
  std::function<void(std::uint64_t)> advance = [](std::uint64_t) {};
};

// So long a document is at most; longer ones are cut behind a line or a word.
inline constexpr std::size_t kDocumentBytesMax = 64 * 1024;

// Gives a file's documents one after the other, in order and without any that is empty. Holds no
// more than one, and of JSON one line.
//
// Errors    io; bad_file naming a line that is no JSON object with a text under that name, or that
//           is too long; those of `give`
Result<void> read_documents(const std::filesystem::path& file, const CorpusReader& reader,
                            const std::function<Result<void>(std::string_view)>& give);

}  // namespace edgedraft
