#include "client/commands/terminal_conversation.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "client/receipts/answer_check.h"
#include "client/receipts/receipt_file.h"
#include "shared/base/log.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/atomic_file.h"
#include "shared/net/receipt_signature.h"
#include "shared/program/interrupt.h"
#include "shared/program/program.h"

namespace edgedraft::client {
namespace {

// Longest silence of a server that checks the answer; no receipt is written after it.
constexpr Duration kReceiptPatience = std::chrono::seconds(60);

constexpr std::size_t kToldPlaceholders = 8;

// Returns a note on the request's private text; empty if there is none.
std::string told_of(const RequestMask::Outcome& hidden, const OpenTokens& prompt) {
  if (hidden.is_local) {
    return prompt.open_count > 0
               ? "private: answered on this device; only the text before the private text is sent"
               : "private: answered on this device; nothing was sent";
  }
  if (!hidden.placeholders || hidden.placeholders->empty()) return {};
  std::string told;
  for (const auto& [type, count] : hidden.placeholders->counts()) {
    told += (told.empty() ? "masked: " : ", ") + std::to_string(count) + " " +
            std::string(to_string(type));
  }
  const auto& values = hidden.placeholders->values();
  std::size_t shown = 0;
  for (const auto& [placeholder, value] : values) {
    if (shown == kToldPlaceholders) break;
    told += (shown++ == 0 ? ", sent as " : ", ") + placeholder;
  }
  if (shown < values.size()) told += " and " + std::to_string(values.size() - shown) + " more";
  return told;
}

Display display_of(const ClientSettings& config, const Terminal& terminal) {
  if (config.json) return Display::silent;
  if (!terminal.output) return Display::final_text;
  return terminal.styled ? Display::live_styled : Display::live_plain;
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

bool is_cut_by_reader(const GenerationOutcome& outcome) {
  return outcome.end == GenerationEnd::cancelled && !interrupted() && reader_has_left();
}

TerminalConversation::TerminalConversation(std::unique_ptr<ClientParts> parts,
                                           const ClientSettings& config, const Terminal& terminal)
    : parts_(std::move(parts)),
      reported_{.config = config,
                .drafter =
                    bundle().drafter_kind().empty() ? "none" : std::string(bundle().drafter_kind()),
                .bundle = bundle().path().filename().string(),
                .drafter_reason = parts_->drafter_reason(),
                .tap = bundle().hello().tap,
                .target_fingerprint = bundle().hello().target,
                .tokenizer_fingerprint = bundle().hello().tokenizer,
                .drafter_fingerprint = bundle().hello().drafter},
      printer_(bundle().tokenizer(), config.raw ? LeadingSpace::keep : LeadingSpace::strip,
               display_of(config, terminal), {.text = std::cout, .notes = std::cerr}),
      energy_(parts_->power()) {}

Result<std::unique_ptr<TerminalConversation>> TerminalConversation::open(
    const ClientSettings& config, const Terminal& terminal) {
  auto parts = ClientParts::open(config);
  if (!parts) return parts.error();
  std::unique_ptr<TerminalConversation> conversation(
      new TerminalConversation(*std::move(parts), config, terminal));
  if (auto started = conversation->start(); !started) return started.error();
  return conversation;
}

Result<void> TerminalConversation::start() {
  const ClientSettings& config = reported_.config;
  if (auto started = parts_->start_engine(); !started) return started.error();
  privacy_.emplace(config.privacy);
  parts_->log()->info("drafter {} (context of {} tokens), server {}", reported_.drafter,
                      bundle().context_count(), config.server);
  if (!reported_.drafter_reason.empty()) parts_->log()->info("{}", reported_.drafter_reason);
  Engine::ConversationParts parts = parts_->conversation(printer_);
  const PrivateMode mode = privacy_->mode();
  parts.connects_first = mode == PrivateMode::mask || mode == PrivateMode::off;
  parts.decorate = config.hooks.drafter;
  parts.on_cycle = config.hooks.on_cycle;
  parts.on_decision = [this](const std::string& what) { parts_->log()->info("{}", what); };
  auto conversation = parts_->engine().open(std::move(parts));
  if (!conversation) return conversation.error();
  conversation_ = std::move(*conversation);
  return {};
}

const ReportedConfig& TerminalConversation::reported_config() {
  if (const DrafterPlacement* placement = parts_->placement()) {
    DrafterPlacement::Place place = placement->place();
    reported_.device = std::move(place.id);
    reported_.device_name = std::move(place.name);
    reported_.device_reason = std::move(place.reason);
  }
  return reported_;
}

Result<RequestMask::Outcome> TerminalConversation::hide(std::span<ChatMessage> messages) {
  if (privacy_->mode() == PrivateMode::off) return RequestMask::Outcome{};
  privacy_->vault().set_now(Clock::now());
  VaultTransaction learned(privacy_->vault());
  RequestMask mask(*privacy_, privacy_->mode());
  for (const ChatMessage& message : messages) {
    mask.learn(message.content, false, message.role == "assistant" ? Writer::target : Writer::user);
  }
  if (auto checked = mask.check(); !checked) return checked.error();
  for (ChatMessage& message : messages) message.content = mask.apply(message.content, false);
  auto outcome = mask.outcome();
  if (outcome && outcome->is_local && !parts_->answers_here()) {
    return Error{
        Errc::unsupported,
        "the prompt holds private text, and with --plain no drafter can answer it on this device"};
  }
  if (outcome) learned.keep();
  return outcome;
}

OpenTokens TerminalConversation::encode(const MarkedText& text,
                                        const RequestMask::Outcome& hidden) const {
  const Tokenizer& tokenizer = bundle().tokenizer();
  OpenTokens tokens;
  if (hidden.is_local && hidden.placeholders) {
    tokens = encode_apart(put_back(text, *hidden.placeholders), tokenizer);
  } else {
    tokens.tokens = tokenizer.encode(text);
  }
  begin_text(tokens, tokenizer);
  return tokens;
}

Result<RunReport> TerminalConversation::answer(const OpenTokens& prompt,
                                               const RequestMask::Outcome& hidden,
                                               std::vector<std::uint32_t> prediction) {
  first_asked_ = std::exchange(has_asked_, true) ? std::nullopt : std::optional(Clock::now());
  printer_.begin(hidden.is_local ? nullptr : hidden.placeholders, hidden.is_local);
  // Each turn hides the same text again; print the note once.
  const std::string told = told_of(hidden, prompt);
  const bool is_new = std::exchange(told_private_, told) != told && !told.empty();
  if (is_new && !hidden.is_local) printer_.note(told);
  energy_.begin();
  const GenerationOptions& options = reported_.config.generation;
  GenerationTerms terms{.tokens_max = options.tokens_max, .sampling = options.sampling};
  terms.prediction = std::move(prediction);
  if (hidden.is_local) {
    terms.route = WritingSide::device;
    terms.is_private = true;
    terms.open_count = prompt.open_count;
  }
  conversation_->answer(prompt.tokens, terms);
  auto report = finish();
  printer_.finish();
  if (!report) return report.error();
  if (is_new && hidden.is_local) printer_.note(told);
  if (hidden.is_local) privacy_->local_texts().add((*report)->text);
  return **std::move(report);
}

Result<void> TerminalConversation::write_receipt(const std::filesystem::path& file,
                                                 const OpenTokens& prompt,
                                                 const RunReport& report) {
  const auto is_verified = [](Provenance p) { return p == Provenance::verified; };
  if (report.tokens.empty() || !std::ranges::all_of(report.provenance, is_verified)) {
    return Error{Errc::unsupported,
                 "--receipt: the server has not verified every token of the answer, so it can sign "
                 "none: ask again when it is reachable, without text that stays on the device"};
  }
  Receipt receipt{.sampling = reported_.config.generation.sampling,
                  .prompt = prompt.tokens,
                  .answer = report.tokens};
  const auto link = parts_->open_link([] {}, {});
  if (!link) return link.error();
  const auto is_signed = sign_answer(**link, receipt, kReceiptPatience);
  (*link)->close();
  if (!is_signed) return is_signed.error();
  const auto pin =
      check_receipt(receipt.certificate, as_byte_view(receipt.statement()), receipt.signature);
  if (!pin) return Error{pin.error().code, "--receipt: " + pin.error().message};
  auto output = AtomicFile::create(file);
  if (!output) return output.error();
  const std::string text = to_json(receipt) + '\n';
  if (auto written = output->append(as_byte_view(text)); !written) return written.error();
  return output->commit();
}

Result<std::optional<RunReport>> TerminalConversation::settle() {
  energy_.go_on_from(energy_told_.value_or(0.0));
  conversation_->check();
  auto report = finish();
  if (report && *report) printer_.finish();
  return report;
}

Result<std::optional<RunReport>> TerminalConversation::finish() {
  while (!conversation_->wait_until(Clock::now() + kInterruptDelay)) {
    if (interrupted() || reader_has_left()) conversation_->cancel();
  }
  auto outcome = conversation_->outcome();
  if (!outcome) return outcome.error();
  if (!*outcome) return std::optional<RunReport>();
  RunReport report{**std::move(outcome), printer_.text()};
  report.energy_joules = energy_told_ = energy_.joules();
  if (first_asked_) {
    report.start_to_first_token =
        *first_asked_ - program_start() + report.stats.first_token_elapsed;
  }
  const MemoryMeter& memory = parts_->memory();
  report.memory = {.held_bytes = memory.held(),
                   .peak_bytes = memory.peak(),
                   .mapped_bytes = parts_->mapped_bytes()};
  parts_->keep(report);
  parts_->log()->info("{}", account(report));
  parts_->log()->info("{}", memory_account(report));
  return std::optional(std::move(report));
}

}  // namespace edgedraft::client
