#include "client/commands/answering.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <utility>

#include "client/experiments/cut_link.h"
#include "client/experiments/oracle_drafter.h"
#include "client/version.h"
#include "shared/base/bytes.h"
#include "shared/base/log.h"
#include "shared/net/client_link.h"
#include "shared/program/interrupt.h"

namespace edgedraft {
namespace {

Display display_of(const AnswerConfig& config, const Terminal& terminal) {
  if (config.json) return Display::silent;
  if (!terminal.output) return Display::final_text;
  return terminal.styled ? Display::live_styled : Display::live_plain;
}

// How soon a Ctrl-C is seen.
constexpr Duration kInterruptDelay = std::chrono::milliseconds(50);

wire::Hello hello_of(const BundleFile& bundle, const AnswerConfig& config) {
  wire::Hello hello = bundle.hello();
  hello.agent = kVersion;
  hello.token = config.token;
  hello.nodes_max = config.generation.tree ? config.generation.tree->nodes : 0;
  if (config.pads) hello.pad_tick_ms = kPadTickMsUsual;
  return hello;
}

}  // namespace

Terminal look_at_terminal() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool unwanted = no_color != nullptr && *no_color != '\0';
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  return {.output = isatty(STDOUT_FILENO) == 1,
          .input = isatty(STDIN_FILENO) == 1,
          .styled = !unwanted && !dumb};
}

Answering::Answering(SelectedDrafter drafter, const AnswerConfig& config, const Terminal& terminal)
    : bundle_(std::move(drafter.bundle)),
      log_(make_logger(config.log_level)),
      printer_(bundle_.tokenizer(), config.raw ? LeadingSpace::keep : LeadingSpace::strip,
               display_of(config, terminal), {.text = std::cout, .notes = std::cerr}),
      memory_key_(std::move(drafter.memory_key)) {
  const wire::Hello& hello = bundle_.hello();
  reported_ = {
      .server = config.server,
      .drafter = bundle_.drafter_kind().empty() ? "none" : std::string(bundle_.drafter_kind()),
      .bundle = bundle_.path().filename().string(),
      .drafter_reason = std::move(drafter.why),
      .tap = hello.tap,
      .device = "none",
      .device_name = {},
      .device_reason = {},
      .generation = config.generation,
      .pace = config.pace,
      .pace_profile = config.pace_profile.name(),
      .pads = config.pads,
      .offline_after = config.offline_after,
      .synthetic_acceptance = std::nullopt,
      .target_fingerprint = hello.target,
      .tokenizer_fingerprint = hello.tokenizer,
      .drafter_fingerprint = hello.drafter};
  reported_.generation.context_count = bundle_.context_count();
  reported_.pace.step =
      config.pace_profile.draft_step(bundle_.drafter_facts().pace_name, config.pace_place);
  if (config.oracle) {
    reported_.drafter = "oracle";
    reported_.synthetic_acceptance = config.oracle->acceptance;
  }
}

Result<std::unique_ptr<Answering>> Answering::open(const AnswerConfig& config,
                                                   const Terminal& terminal) {
  // Experiments are to find what they ask for, and teach nothing.
  const bool learns = !config.pace.is_kept() && config.pace_profile.name().empty() &&
                      !config.oracle && !config.offline_after && config.generation.tree &&
                      config.generation.overlap == Overlap::automatic;
  std::unique_ptr<RunMemory> memory;
  if (learns) memory = std::make_unique<RunMemory>(RunMemory::default_file());
  auto drafter = select_drafter(
      config.drafter, config.generation.tree ? BundleUse::draft : BundleUse::plain, memory.get(),
      {.server = config.server,
       .breadth = config.generation.tree ? config.generation.tree->breadth : 1,
       .tokens = config.generation.tokens_max,
       .on_battery = PowerSupply().on_battery()});
  if (!drafter) return drafter.error();
  std::unique_ptr<Answering> answering(new Answering(*std::move(drafter), config, terminal));
  answering->memory_ = std::move(memory);
  if (auto started = answering->start(config); !started) return started.error();
  return answering;
}

Result<void> Answering::start(const AnswerConfig& config) {
  if (config.generation.tree) {
    auto placement = DrafterPlacement::choose({.bundle = bundle_,
                                               .device = config.device,
                                               .tree = *config.generation.tree,
                                               .threads = config.thread_count,
                                               .log = log_});
    if (!placement) return placement.error();
    placement_ = std::move(*placement);
  }
  if (!config.cycles_file.empty()) {
    auto log = CycleLog::open(config.cycles_file, reported_);
    if (!log) return log.error();
    cycle_log_ = std::move(*log);
  }
  log_->info("drafter {} ({} tokens of context), server {}", reported_.drafter,
             bundle_.context_count(), config.server);
  if (!reported_.drafter_reason.empty()) log_->info("{}", reported_.drafter_reason);
  if (memory_) reported_.generation.known = memory_->find(memory_key_).value_or(RunKnowledge{});
  engine_.emplace(placement_ ? &placement_->drafters() : nullptr);
  auto conversation = engine_->open(
      {.open_link = [&](std::function<void()> wake) { return open_link(config, std::move(wake)); },
       .decorate =
           [&](std::unique_ptr<Drafter> drafter) { return decorated(std::move(drafter), config); },
       .observer = printer_,
       .is_end = [this](std::uint32_t token) { return bundle_.tokenizer().is_end(token); },
       .on_cycle = cycle_log_ ? [this](const CycleRecord& cycle) { log_cycle(cycle); }
                              : std::function<void(const CycleRecord&)>(),
       .on_decision = [this](const std::string& what) { log_->info("{}", what); },
       .on_battery = [this] { return power_.on_battery(); },
       .options = reported_.generation});
  if (!conversation) return conversation.error();
  conversation_ = std::move(*conversation);
  return {};
}

std::unique_ptr<Drafter> Answering::decorated(std::unique_ptr<Drafter> drafter,
                                              const AnswerConfig& config) {
  if (config.oracle) {
    // What the link carries stays that of the bundle's drafter; only the proposals are another's.
    drafter = std::make_unique<OracleDrafter>(
        *config.oracle, bundle_.tokenizer().vocabulary_count(), drafter->activation_cols());
  }
  if (!reported_.pace.is_kept()) return drafter;
  auto paced = std::make_unique<PacedDrafter>(std::move(drafter), reported_.pace);
  paced_ = paced.get();
  return paced;
}

Result<std::unique_ptr<TargetLink>> Answering::open_link(const AnswerConfig& config,
                                                         std::function<void()> wake) const {
  auto link =
      ClientLink::open({.host = config.host,
                        .port = config.port,
                        .tls = config.tls,
                        .session = {.hello = hello_of(bundle_, config),
                                    .channel = {},
                                    .vocabulary_count = bundle_.tokenizer().vocabulary_count()},
                        .back_off = {},
                        .jitter_seed = std::random_device{}(),
                        .on_event = std::move(wake)});
  if (!link) return link.error();
  if (!config.offline_after) return std::move(*link);
  return std::make_unique<CutLink>(std::move(*link), *config.offline_after,
                                   "cut off after " + std::to_string(*config.offline_after) +
                                       " tokens, as --offline-after asks");
}

void Answering::log_cycle(const CycleRecord& cycle) {
  const bool drafted = cycle.kind == CycleRecord::Kind::offline ||
                       (cycle.kind == CycleRecord::Kind::draft && !cycle.streamed);
  cycle_log_->write(cycle, drafted && paced_ != nullptr ? paced_->take_step() : std::nullopt);
}

const ReportedConfig& Answering::reported_config() {
  if (placement_) {
    DrafterPlacement::Place place = placement_->place();
    reported_.device = std::move(place.id);
    reported_.device_name = std::move(place.name);
    reported_.device_reason = std::move(place.reason);
  }
  return reported_;
}

Result<AnswerReport> Answering::answer(std::span<const std::uint32_t> prompt) {
  printer_.begin();
  energy_.begin();
  conversation_->answer({prompt.begin(), prompt.end()});
  auto report = finish();
  printer_.finish();
  if (!report) return report.error();
  return **std::move(report);
}

Result<std::optional<AnswerReport>> Answering::settle() {
  conversation_->check();
  auto report = finish();
  if (report && *report) printer_.finish();
  return report;
}

Result<std::optional<AnswerReport>> Answering::finish() {
  while (!conversation_->wait_until(Clock::now() + kInterruptDelay)) {
    if (interrupted()) conversation_->cancel();
  }
  auto outcome = conversation_->outcome();
  if (!outcome) return outcome.error();
  if (!*outcome) return std::optional<AnswerReport>();
  AnswerReport report{**std::move(outcome), printer_.text()};
  if (paced_ != nullptr) {
    report.late_drafts = paced_->late_count() - std::exchange(late_before_, paced_->late_count());
  }
  report.energy_joules = energy_.joules();
  if (memory_) {
    if (auto kept = memory_->put(memory_key_, report.known); !kept) {
      log_->info("what was learned of the server is forgotten: {}", kept.error().message);
    }
  }
  log_->info("{}", account(report));
  return std::optional(std::move(report));
}

}  // namespace edgedraft
