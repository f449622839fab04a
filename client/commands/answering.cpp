#include "client/commands/answering.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <utility>

#include "client/devices/measuring.h"
#include "client/version.h"
#include "shared/base/log.h"
#include "shared/program/interrupt.h"

namespace edgedraft {
namespace {

Display display_of(const AnswerConfig& config, const Terminal& terminal) {
  if (config.json) return Display::silent;
  if (!terminal.output) return Display::final_text;
  return terminal.styled ? Display::live_styled : Display::live_plain;
}

PlacedDrafter make_on(const BundleFile& bundle, const ComputeDevice& device,
                      std::uint32_t threads) {
  auto backend = make_backend(device, threads);
  if (!backend) throw DeviceError(backend.error().message);
  auto drafter = bundle.make_drafter(**backend);
  return {.backend = std::move(*backend), .drafter = std::move(drafter)};
}

wire::Hello hello_of(const BundleFile& bundle, const AnswerConfig& config) {
  wire::Hello hello = bundle.hello();
  hello.agent = kVersion;
  hello.token = config.token;
  hello.nodes_max = config.generation.tree ? config.generation.tree->nodes : 0;
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

Answering::Answering(BundleFile bundle, const AnswerConfig& config, const Terminal& terminal)
    : bundle_(std::move(bundle)),
      log_(make_logger(config.log_level)),
      printer_(bundle_.tokenizer(), config.raw ? LeadingSpace::keep : LeadingSpace::strip,
               display_of(config, terminal), {.text = std::cout, .notes = std::cerr}) {
  const wire::Hello& hello = bundle_.hello();
  reported_ = {
      .server = config.server,
      .drafter = bundle_.drafter_kind().empty() ? "none" : std::string(bundle_.drafter_kind()),
      .bundle = config.bundle.filename().string(),
      .tap = hello.tap,
      .device = "none",
      .device_name = {},
      .device_reason = {},
      .generation = config.generation,
      .pace_profile = config.pace_profile.name(),
      .synthetic_acceptance = std::nullopt,
      .target_fingerprint = hello.target,
      .tokenizer_fingerprint = hello.tokenizer,
      .drafter_fingerprint = hello.drafter};
  reported_.generation.context_count = bundle_.context_count();
  reported_.generation.step_pace =
      config.pace_profile.draft_step(bundle_.drafter_facts().pace_name, config.pace_place);
}

Result<std::unique_ptr<Answering>> Answering::open(const AnswerConfig& config,
                                                   const Terminal& terminal) {
  auto bundle = BundleFile::open(
      config.bundle, config.generation.tree ? BundleUse::draft : BundleUse::plain, config.drafter);
  if (!bundle) return bundle.error();
  std::unique_ptr<Answering> answering(new Answering(std::move(*bundle), config, terminal));
  if (config.generation.tree) {
    if (auto placed = answering->place_drafter(config); !placed) return placed.error();
    if (config.oracle) answering->put_oracle_in_place(*config.oracle);
  }
  if (!config.cycles_file.empty()) {
    auto log = CycleLog::open(config.cycles_file, answering->reported_);
    if (!log) return log.error();
    answering->cycle_log_ = std::move(*log);
  }
  if (auto connected = answering->connect(config); !connected) return connected.error();
  return answering;
}

Result<void> Answering::place_drafter(const AnswerConfig& config) {
  const std::uint32_t threads = config.thread_count;
  const bool cpu_asked_for = config.device.kind == DeviceRequest::Kind::cpu;
  const std::vector<ComputeDevice> devices =
      cpu_asked_for ? std::vector{cpu_device(threads)} : list_compute_devices(threads);
  TimingCache cache(TimingCache::default_file());
  const auto choice = choose_device(config.device, devices,
                                    make_measure({.drafter = bundle_.drafter(),
                                                  .fingerprint = bundle_.hello().drafter.value(),
                                                  .kinds = std::string(bundle_.drafter_kind()),
                                                  .tree = *config.generation.tree,
                                                  .threads = threads,
                                                  .cache = cache,
                                                  .known = MeasuringOptions::Known::take}));
  if (!choice) return choice.error();
  log_->log(choice->is_second_best ? spdlog::level::warn : spdlog::level::info, "drafts on {}: {}",
            title(choice->device), choice->reason);
  report_device(choice->device, choice->reason);
  const ComputeDevice& cpu = devices.front();
  if (choice->device.id == cpu.id) {
    placed_ = make_on(bundle_, cpu, threads);
    return {};
  }
  placed_.drafter = std::make_unique<FallbackDrafter>(FallbackDrafter::Options{
      .first = [this, gpu = choice->device, threads] { return make_on(bundle_, gpu, threads); },
      .second = [this, cpu, threads] { return make_on(bundle_, cpu, threads); },
      .on_failure =
          [this, gpu = choice->device, cpu](const std::string& why) {
            const std::string reason = title(gpu) + " failed: " + why;
            log_->warn("{}. Drafting goes on on the CPU; nothing is lost", reason);
            report_device(cpu, reason);
          }});
  return {};
}

void Answering::report_device(const ComputeDevice& device, const std::string& reason) {
  reported_.device = device.id;
  reported_.device_name = device.name;
  reported_.device_reason = reason;
}

Result<void> Answering::connect(const AnswerConfig& config) {
  auto link =
      ClientLink::open({.host = config.host,
                        .port = config.port,
                        .tls = config.tls,
                        .session = {.hello = hello_of(bundle_, config),
                                    .channel = {},
                                    .vocabulary_count = bundle_.tokenizer().vocabulary_count()},
                        .back_off = {},
                        .jitter_seed = std::random_device{}()});
  if (!link) return link.error();
  link_ = std::move(*link);
  log_->info("drafter {} ({} tokens of context), server {}", reported_.drafter,
             bundle_.context_count(), config.server);
  generation_.emplace(
      Generation::Parts{
          .link = *link_,
          .drafter = placed_.drafter.get(),
          .observer = printer_,
          .is_end = [this](std::uint32_t token) { return bundle_.tokenizer().is_end(token); },
          .now = [] { return Clock::now(); },
          .cancelled = [] { return interrupted(); },
          .on_cycle = cycle_log_ ? [this](const CycleRecord& cycle) { cycle_log_->write(cycle); }
                                 : std::function<void(const CycleRecord&)>(),
          .on_decision = [this](const std::string& what) { log_->info("{}", what); }},
      reported_.generation);
  return {};
}

// What the link carries stays that of the bundle's drafter; only the proposals are another's.
void Answering::put_oracle_in_place(const OracleOptions& options) {
  placed_.drafter = std::make_unique<OracleDrafter>(options, bundle_.tokenizer().vocabulary_count(),
                                                    placed_.drafter->activation_cols());
  reported_.drafter = "oracle";
  reported_.synthetic_acceptance = options.acceptance;
}

Result<AnswerReport> Answering::answer(std::span<const std::uint32_t> prompt) {
  const LinkStats before = link_->stats();
  printer_.begin();
  const auto end = generation_->answer(prompt);
  printer_.finish();
  if (!end) return end.error();
  return report(*end, before);
}

Result<std::optional<AnswerReport>> Answering::settle() {
  const LinkStats before = link_->stats();
  const auto end = generation_->settle();
  if (!end) return end.error();
  if (!*end) return std::optional<AnswerReport>();
  printer_.finish();
  return std::optional(report(**end, before));
}

AnswerReport Answering::report(AnswerEnd end, const LinkStats& before) {
  const TaintLedger& ledger = generation_->ledger();
  AnswerReport report{.text = printer_.text(),
                      .tokens = {},
                      .provenance = {},
                      .end = end,
                      .stats = generation_->stats(),
                      .link = link_->stats().since(before)};
  for (std::uint32_t i = generation_->answer_first(); i < ledger.count(); ++i) {
    report.tokens.push_back(ledger.tokens()[i]);
    report.provenance.push_back(ledger.provenance(i));
  }
  log_->info("{}", account(report));
  return report;
}

}  // namespace edgedraft
