#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"
#include "shared/tensor/dtype.h"

namespace edgedraft::client {

// Options that a report computes memory for.
struct ModelUse {
  std::optional<std::uint32_t> context_count;  // absent: the model's, at most kReportedContextMax
  std::uint32_t sessions = 1;                  // of a target, or conversations of a drafter
  DType kv_type = DType::f32;                  // of a target's keys and values
  std::uint32_t threads = 0;                   // 0: one per fast core
};

inline constexpr std::uint32_t kReportedContextMax = 32768;

// Bytes on the CPU backend, as MemoryMeter counts them.
struct ModelMemory {
  std::uint32_t context_count = 0;  // tokens per session
  std::uint64_t weights = 0;        // copies; other weights are read in the mapped file
  std::uint64_t working = 0;        // tables and intermediate rows of all sessions
  std::uint64_t cache = 0;          // keys and values of a session
  std::uint64_t checkpoint = 0;     // a copy of the recurrent states, in the server's KV memory
  std::uint64_t states = 0;         // of a session's recurrent layers, and of a drafter's text

  std::uint64_t session() const { return cache + states; }
  std::uint64_t total(std::uint32_t sessions) const {
    return weights + working + session() * sessions;
  }
};

// A kind of drafter with weights, and why none can be made for the model.
struct PossibleDrafter {
  std::string kind;
  std::string reason;  // empty: one can be made
};

// Description of a GGUF file. The file's texts may hold any bytes.
struct ModelFacts {
  std::string name;
  std::string architecture;       // empty: missing
  std::string drafter_kind = {};  // of a bundle
  std::uint64_t file_bytes = 0;
  std::uint64_t parameters = 0;
  std::vector<std::pair<DType, std::uint64_t>> types = {};  // elements, most first
  std::string layers = {};                                  // in words; empty for most bundles
  std::uint32_t context_count = 0;                          // 0: unknown, as the next
  std::uint32_t vocabulary_count = 0;
  std::string tokenizer = {};              // tokenizer.ggml.model; empty: missing
  std::string pre = {};                    // tokenizer.ggml.pre; empty: missing
  bool has_template = false;               // of chats
  std::string template_failure = {};       // why it cannot be used
  std::optional<Digest> fingerprint = {};  // absent: neither stored nor needed
  std::optional<Digest> target = {};       // fingerprint of a bundle's target
  std::uint32_t skipped_tensors = 0;       // of blocks after the last layer
  std::uint64_t skipped_parameters = 0;
  std::optional<Error> failure = {};  // why it does not run
  std::optional<ModelMemory> memory = {};
  std::vector<PossibleDrafter> drafters = {};  // for a target
  std::string own_drafter = {};                // kind of the drafter that is a part of the file
};

// An open file with its facts.
struct InspectedModel {
  std::filesystem::path path;
  GgufFile file;
  std::optional<DecoderModel> decoder = {};    // absent if it does not run
  std::unique_ptr<DrafterModel> drafter = {};  // of a bundle; null if it does not run
  ModelFacts facts = {};

  bool is_bundle() const { return !facts.drafter_kind.empty(); }
};

// Reads everything but the weights' values.
//
// Errors    of GgufFile::open, naming the file; io: a folder. A model that does not run is not an
// error.
Result<InspectedModel> inspect_model(const std::filesystem::path& path, const ModelUse& use);

// Computes the fingerprint that a file does not store, at about a second per gigabyte.
// Errors    bad_file
Result<void> add_fingerprint(InspectedModel& model);

}  // namespace edgedraft::client
