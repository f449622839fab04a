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
  std::uint64_t memory_bytes = 0;  // of the sort; the corpus itself waits in a file
};

// Makes an index file, which appears under its name once it is whole. Equal documents give equal
// bytes, whatever memory there is.
class IndexBuilder {
 public:
  // Errors    io
  static Result<IndexBuilder> create(IndexOptions options);

  // Adds a document, or a part of one behind which nothing is to be copied.
  //
  // Requires  tokens of the vocabulary
  // Errors    io; usage: the corpus has grown too long for one index
  Result<void> add(std::span<const std::uint32_t> document);
  std::uint64_t token_count() const { return corpus_.count(); }
  // Sorts and writes. `advance` is told of suffixes, each twice. Call once, last.
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
