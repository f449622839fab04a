#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/drafting/index/corpus_index.h"
#include "shared/drafting/index/scratch_file.h"

namespace edgedraft {

struct IndexOptions {
  std::filesystem::path output;
  std::uint32_t vocabulary_count = 0;
  Digest tokenizer{};
  bool is_public = false;
  std::uint64_t memory_bytes = 0;  // for sorting; the corpus itself is kept in a file
};

// Makes an index file, which appears under its name once complete. Equal documents give equal bytes
// for any amount of memory.
class IndexBuilder {
 public:
  // Errors    io
  static Result<IndexBuilder> create(IndexOptions options);

  // Adds a document, or a part of one after which nothing shall be copied.
  //
  // Requires  tokens of the vocabulary
  // Errors    io; usage: the corpus is too long for one index
  Result<void> add(std::span<const std::uint32_t> document);
  std::uint64_t token_count() const { return corpus_.count(); }
  // Sorts and writes. `advance` receives numbers of suffixes, each counted twice. Call once, last.
  //
  // Errors    io; usage: there is no document
  Result<IndexFacts> finish(std::function<void(std::uint64_t)> advance);

 private:
  IndexBuilder(IndexOptions options, ScratchFile corpus);

  IndexOptions options_;
  ScratchFile corpus_;
  std::uint64_t document_count_ = 0;
};

}  // namespace edgedraft
