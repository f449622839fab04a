#include "client/commands/client_parts.h"

#include <random>
#include <utility>

#include "client/devices/compute_device.h"
#include "client/version.h"
#include "shared/base/log.h"
#include "shared/net/client_link.h"
#include "shared/program/core_dumps.h"
#include "shared/program/token_file.h"
#include "shared/protocol/limits.h"

namespace edgedraft::client {
namespace {

wire::Hello hello_of(const BundleFile& bundle, const ClientSettings& config, std::string token) {
  wire::Hello hello = bundle.hello();
  hello.agent = kVersion;
  hello.token = std::move(token);
  if (config.pads) hello.pad_tick_ms = kPadTickMsUsual;
  return hello;
}

}  // namespace

ClientParts::ClientParts(const ClientSettings& config, SelectedDrafter drafter,
                         std::unique_ptr<RunMemory> memory)
    : config_(config),
      drafter_(std::move(drafter)),
      log_(make_logger(config.log_level)),
      memory_(std::move(memory)),
      meter_(std::make_shared<MemoryMeter>(config.memory_limit)),
      token_(config.token) {}

Result<std::unique_ptr<ClientParts>> ClientParts::open(const ClientSettings& config) {
  if (config.privacy.mode != PrivateMode::off) forbid_core_dumps();
  const bool learns = config.learns && config.generation.tree && !config.generation.hold;
  std::unique_ptr<RunMemory> memory;
  if (learns) memory = std::make_unique<RunMemory>(RunMemory::default_file());
  auto drafter = select_drafter(
      config.drafter, config.generation.tree ? BundleUse::draft : BundleUse::plain, memory.get(),
      {.server = config.server,
       .breadth = config.generation.tree ? config.generation.tree->breadth : 1,
       .tokens = config.generation.tokens_max,
       .on_battery = PowerSupply().on_battery()});
  if (!drafter) return drafter.error();
  if (config.hooks.on_bundle) {
    if (auto taken = config.hooks.on_bundle(drafter->bundle); !taken) return taken.error();
  }
  return std::unique_ptr<ClientParts>(
      new ClientParts(config, *std::move(drafter), std::move(memory)));
}

DrafterPlacement::Options ClientParts::placing(const BundleFile& bundle,
                                               std::uint32_t conversations) const {
  return {.bundle = bundle,
          .device = config_.device,
          .tree = config_.generation.tree.value_or(chain_shape(1)),
          .threads = config_.thread_count,
          .kv_type = config_.kv_type,
          .log = log_,
          .meter = meter_,
          .positions = config_.drafted_positions,
          .conversations = conversations};
}

Result<std::uint32_t> ClientParts::start_engine(std::uint32_t conversations) {
  if (!config_.offline_bundle.empty()) {
    if (auto opened = open_writer(); !opened) return opened.error();
  }
  std::uint64_t reserved = 0;
  std::uint32_t positions = config_.drafted_positions;
  if (config_.generation.tree) {
    DrafterPlacement::Options options = placing(bundle(), conversations);
    if (writer_ && meter_->is_limited()) {
      options.beside = [wanted = placing(*writer_, 1)](std::uint32_t count) {
        return DrafterPlacement::need_on(cpu_device(wanted.threads), wanted, count);
      };
    }
    auto placement = DrafterPlacement::choose(options);
    if (!placement) return placement.error();
    placement_ = *std::move(placement);
    conversations = placement_->conversations();
    if (options.beside) {
      positions = placement_->positions();
      reserved =
          placement_->need().total(conversations) - options.beside(positions).total(conversations);
    }
  }
  if (writer_) {
    DrafterPlacement::Options options = placing(*writer_, conversations);
    options.reserved = reserved;
    options.positions = positions;
    auto placement = DrafterPlacement::choose(options);
    if (!placement) return placement.error();
    writer_placement_ = *std::move(placement);
    conversations = writer_placement_->conversations();
  }
  engine_.emplace(placement_ ? &placement_->drafters() : nullptr,
                  writer_placement_ ? &writer_placement_->drafters() : nullptr, &grid_);
  return conversations;
}

Engine::ConversationParts ClientParts::conversation(
    GenerationObserver& observer, std::function<void(const Error& error)> on_failure) {
  GenerationOptions options = config_.generation;
  options.context_count = bundle().context_count();
  options.known = known();
  return {.open_link =
              [this, on_failure = std::move(on_failure)](std::function<void()> wake) {
                return open_link(std::move(wake), on_failure);
              },
          .observer = observer,
          .is_end = [this](std::uint32_t token) { return bundle().tokenizer().is_end(token); },
          .on_battery = [this] { return power_.on_battery(); },
          .options = std::move(options)};
}

std::uint64_t ClientParts::mapped_bytes() const {
  return bundle().mapped_bytes() + (writer_ ? writer_->mapped_bytes() : 0);
}

Result<void> ClientParts::open_writer() {
  auto opened = BundleFile::open(config_.offline_bundle, BundleUse::draft);
  if (!opened) return Error{opened.error().code, "--offline-bundle: " + opened.error().message};
  if (opened->hello().tokenizer != bundle().hello().tokenizer) {
    return Error{Errc::mismatch,
                 "--offline-bundle: its tokenizer differs from that of --bundle: give a drafter "
                 "for the same target"};
  }
  if (!opened->hello().tap.empty()) {
    return Error{Errc::usage, "--offline-bundle: a drafter of kind " +
                                  std::string(opened->drafter_kind()) +
                                  " needs target activations, which are unavailable offline: give "
                                  "one that needs only tokens"};
  }
  writer_.emplace(*std::move(opened));
  return {};
}

Result<std::unique_ptr<TargetLink>> ClientParts::open_link(
    std::function<void()> wake, std::function<void(const Error& error)> on_failure) {
  auto link = ClientLink::open(
      {.host = config_.host,
       .port = config_.port,
       .tls = config_.trust.tls,
       .protocol = {.hello = hello_of(bundle(), config_, token()),
                    .channel = {.on_sent = [this, connection = ++last_connection_](
                                               ByteView frame) { uplink_.add(connection, frame); }},
                    .vocabulary_count = bundle().tokenizer().vocabulary_count()},
       .renew_token = [this] { return token(); },
       .connects_later = true,
       .back_off = {},
       .jitter_seed = std::random_device{}(),
       .on_event = std::move(wake),
       .on_failure = std::move(on_failure),
       .plug = &plug_,
       .grid = &grid_,
       .contact = &contact_});
  if (!link) return link.error();
  return config_.hooks.link ? config_.hooks.link(std::move(*link)) : std::move(*link);
}

std::string ClientParts::token() {
  const std::scoped_lock lock(token_mutex_);
  if (config_.trust.token_file.empty()) return token_;
  auto read = reread_token_file(config_.trust.token_file, kBearerTokenBytesMax);
  if (!read) log_->warn("keeping the current token: --token-file {}", read.error().message);
  if (read && *read) token_ = **std::move(read);
  return token_;
}

RunKnowledge ClientParts::known() const {
  return memory_ ? memory_->find(drafter_.memory_key).value_or(RunKnowledge{}) : RunKnowledge{};
}

void ClientParts::keep(const GenerationOutcome& outcome) {
  const bool has_learned = outcome.stats.target_calls > 0;
  if (!memory_ || !has_learned) return;
  if (auto kept = memory_->put(drafter_.memory_key, outcome.known); !kept) {
    log_->info("measurements of the server were not saved: {}", kept.error().message);
  }
}

}  // namespace edgedraft::client
