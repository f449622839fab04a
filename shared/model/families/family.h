#pragma once

#include <span>
#include <string_view>

#include "shared/model/config.h"
#include "shared/model/families/layer_list.h"
#include "shared/model/families/plan_keys.h"

namespace edgedraft {

class CheckpointReader;
class GgufFile;
class HfKeys;

// A family of models: how the keys of its files become a plan, and which tensors a layer has. Each
// has a folder here and a line in the table of families.cpp; nothing else names it.
struct Family {
  std::string_view architecture;                            // general.architecture
  std::span<const std::string_view> hf_architectures = {};  // "architectures" of config.json
  RopeStyle rope_style = RopeStyle::halves;
  // Keys, after the architecture's name, which `plan` reads and which have no meaning elsewhere: of
  // a family that does not list one of them, a file with that key is refused.
  std::span<const std::string_view> keys = {};
  std::string_view output_norm = "output_norm.weight";
  // Tensors of the model that `rope_tensors` reads or that are not computed with; a name that ends
  // in '.' stands for all that begin so.
  std::span<const std::string_view> other_tensors = {};

  // Turns the common plan, that of a Llama, into the family's. Null: it is the same.
  void (*plan)(PlanKeys& keys, DecoderConfig& config) = nullptr;
  void (*tensors)(const LayerPlan& plan, LayerList& list) = nullptr;
  // Reads factors of rotation that the file stores. Null: rope_freqs.weight, if it is there.
  Result<void> (*rope_tensors)(const GgufFile& file, DecoderConfig& config) = nullptr;
  // Translates the keys of config.json that other families do not have. Null: there are none.
  void (*hf)(HfKeys& keys) = nullptr;
  // Adds tensors outside the layers.
  void (*hf_tensors)(CheckpointReader& reader, const DecoderConfig& config) = nullptr;
  std::string_view hf_defaults = "{}";  // keys that a config.json may leave out, as JSON
  std::string_view hf_activation = "silu";
  // Kinds of rotary scaling that `hf` translates, beside those that all families have.
  std::span<const std::string_view> hf_rope_types = {};
  std::string_view hf_output_norm = "norm.weight";  // after "model."
  bool hf_norms_plus_one = false;  // whether norms are stored without the 1 that GGUF's include
  std::string_view hf_plain_norm = {};  // ending of the norm that includes it nonetheless
};

std::span<const Family* const> families();

// Errors    unsupported: names the architecture and those that are known
Result<const Family*> find_family(std::string_view architecture);
Result<const Family*> find_hf_family(std::string_view architecture);

// True if all layers compute as a Llama's do: a drafter that continues the target's own layers or
// reads its keys needs that.
bool is_plain(const DecoderConfig& config);

// The plan of a file's keys. The vocabulary's size and stored factors of rotation are those of
// tensors, so they are not part of it.
// Errors    bad_file naming the key; unsupported naming the key that requires another computation
Result<DecoderConfig> read_plan(const GgufKeys& keys, const Family& family);

}  // namespace edgedraft
