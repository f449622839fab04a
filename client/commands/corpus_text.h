#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft::client {

// Unit of a document in plain text: the file, a line, or lines up to an empty one.
enum class CorpusSplit : std::uint8_t { file, lines, paragraphs };

struct CorpusReader {
  CorpusSplit split = CorpusSplit::file;
  // Field of a JSON line (*.jsonl) with the document's text; each line is one document.
  std::string field = "text";
  // Called with the number of bytes read.
  std::function<void(std::uint64_t)> advance = [](std::uint64_t) {};
};

// Maximum size of a document; longer ones are split after a line or word.
inline constexpr std::size_t kDocumentBytesMax = 64 * 1024;

// Passes a file's non-empty documents to `give`, in order. Holds one document at a time, and one
// line of JSON.
//
// Errors    io; bad_file naming a line that is too long or not a JSON object with text in that
//           field; those of `give`
Result<void> read_documents(const std::filesystem::path& file, const CorpusReader& reader,
                            const std::function<Result<void>(std::string_view)>& give);

}  // namespace edgedraft::client
