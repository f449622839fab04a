#include "server/program/model_host.h"

#include <algorithm>
#include <set>
#include <utility>

#include "shared/drafting/drafter_fit.h"
#include "shared/drafting/kinds.h"
#include "shared/model/fingerprint.h"
#include "shared/protocol/limits.h"

namespace edgedraft::server {
Result<std::unique_ptr<ModelHost>> ModelHost::load(Backend& backend,
                                                   const ModelHostOptions& options) {
  std::unique_ptr<ModelHost> host(new ModelHost());
  host->indexes_ = options.indexes;
  if (auto loaded = host->load_target(options); !loaded) {
    return in_file(options.model, loaded.error());
  }
  for (const std::filesystem::path& path : options.bundles) {
    if (auto loaded = host->load_bundle(backend, path); !loaded) {
      return in_file(path, loaded.error());
    }
  }
  if (auto made = host->make_decoder(backend); !made) {
    return in_file(options.model, made.error());
  }
  return host;
}

Result<void> ModelHost::load_target(const ModelHostOptions& options) {
  auto file = GgufFile::open(options.model);
  if (!file) return file.error();
  file_ = std::move(*file);
  const auto model = read_decoder(file_);
  if (!model) return model.error();
  auto tokenizer = Tokenizer::read(file_);
  if (!tokenizer) return tokenizer.error();
  if (tokenizer->vocabulary_count() != model->config.vocabulary_count) {
    return Error{Errc::bad_file, "the tokenizer and the embedding differ in vocabulary size"};
  }
  tokenizer_.emplace(std::move(*tokenizer));
  texts_ = std::make_shared<const TokenTexts>(*tokenizer_);
  const auto target = model_fingerprint(file_);
  if (!target) return target.error();
  const auto tokens = edgedraft::tokenizer_fingerprint(file_);
  if (!tokens) return tokens.error();
  target_fingerprint_ = *target;
  tokenizer_fingerprint_ = *tokens;
  const auto name = file_.get_string_or("general.name", options.model.stem().string());
  if (!name) return name.error();
  name_ = *name;
  model_context_count_ = model->config.context_length;
  context_count_ = std::min(
      options.context_count > 0 ? options.context_count : model_context_count_, kContextCountMax);
  return boost::system::in_place_value;
}

// The caches keep the state any of the taps reads.
Result<void> ModelHost::make_decoder(Backend& backend) {
  const auto model = read_decoder(file_);
  if (!model) return model.error();
  std::set<std::uint32_t> states;
  for (const HostedDrafter& drafter : drafters_) {
    if (!drafter.tap) continue;
    const auto wanted = drafter.tap->states();
    states.insert(wanted.begin(), wanted.end());
    if (!wanted.empty() && wanted.back() > model->config.layer_count + 1) {
      return Error{Errc::mismatch,
                   "the drafter '" + drafter.name +
                       "' needs the state of a layer that the target does not have"};
    }
  }
  decoder_ = std::make_unique<Decoder>(backend, model->config, model->tensors, context_count_,
                                       std::vector<std::uint32_t>(states.begin(), states.end()));
  return boost::system::in_place_value;
}

Result<void> ModelHost::load_bundle(Backend& backend, const std::filesystem::path& path) {
  auto file = GgufFile::open(path);
  if (!file) return file.error();
  const auto kind = drafter_kind_of(*file);
  if (!kind) return kind.error();
  const auto fingerprint = model_fingerprint(*file);
  if (!fingerprint) return fingerprint.error();
  const auto target = target_fingerprint_of(*file);
  if (!target) return target.error();
  if (*target != target_fingerprint_) {
    return Error{Errc::mismatch,
                 "this drafter was made for another target (fingerprint " + to_hex(*target) +
                     ", not " + to_hex(target_fingerprint_) +
                     "); make a bundle for this target with `edgedraft convert --bundle`"};
  }
  auto model = (*kind)->read(*file);
  if (!model) return model.error();
  const auto config = read_decoder_config(file_);
  if (!config) return config.error();
  if (auto fits = check_target((*model)->facts(), *config); !fits) return fits.error();
  auto tap = (*model)->make_tap(backend);
  if (tap) {
    if (auto carried = check_row(tap->scale_groups()); !carried) return carried.error();
  }
  drafters_.push_back({.file = std::move(*file),
                       .name = path.stem().string(),
                       .fingerprint = *fingerprint,
                       .model = std::move(*model),
                       .tap = std::move(tap)});
  return boost::system::in_place_value;
}

SessionParts ModelHost::session_parts() {
  return {.decoder = *decoder_,
          .context_count = context_count_,
          .is_end = [this](std::uint32_t token) { return tokenizer_->is_end(token); },
          .texts = texts_};
}

HostedDrafter* ModelHost::find_drafter(const Digest& fingerprint) {
  const auto found = std::find_if(
      drafters_.begin(), drafters_.end(),
      [&](const HostedDrafter& drafter) { return drafter.fingerprint == fingerprint; });
  return found == drafters_.end() ? nullptr : &*found;
}

Result<Tap*> ModelHost::find_tap(const wire::Hello& hello) {
  const wire::Fingerprints ours{
      .target = target_fingerprint_, .tokenizer = tokenizer_fingerprint_, .drafter = {}};
  if (auto checked = wire::check_fingerprints(hello, ours); !checked) return checked.error();
  if (hello.tap.empty()) return static_cast<Tap*>(nullptr);
  const HostedDrafter* drafter = hello.drafter ? find_drafter(*hello.drafter) : nullptr;
  if (!drafter) {
    return Error{Errc::mismatch, "the server has no bundle of the drafter '" + hello.drafter_name +
                                     "': start it with --bundle and the same file"};
  }
  if (hello.tap != drafter->model->facts().tap) {
    return Error{Errc::mismatch, "the drafter needs other activations than the server's '" +
                                     drafter->name +
                                     "' provides: use the same version on client and server"};
  }
  return drafter->tap.get();
}

}  // namespace edgedraft::server
