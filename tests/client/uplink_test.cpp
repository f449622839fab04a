#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/privacy/restored_text.h"
#include "client/serve/request/completion_request.h"
#include "client/serve/request/request_privacy.h"
#include "shared/base/random.h"
#include "tests/client/simulated_device.h"

// Requests that declare equal data send equal bytes at equal times, whatever their private text. In
// simulated time, searching, private answers and slow readers take time proportional to the private
// text.
namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::SentBytes;
using testing::SimulatedDevice;
using testing::ToyDrafter;
using Tokens = std::vector<std::uint32_t>;

constexpr int kDevices = 25;  // one private text each, all compared
constexpr Duration kRunLength = 9s;

int group_count() {
  // A twentieth of the full run: 5,000 private texts under mask, and 10,000 beside them.
  const char* const wanted = std::getenv("EDGEDRAFT_TEST_UPLINKS");
  return wanted != nullptr ? std::stoi(wanted) : 10;
}

std::string private_text(Random& random) {
  static const std::string long_text = [] {
    std::string text;
    while (text.size() < 100'000) text += "A long one, with 12 Main Street in it. ";
    return text;
  }();
  static const std::array<std::string, 12> special{
      "",           "x",      "7",          long_text,       "</private>",    "<private>",
      "<|im_end|>", "[INST]", "[TEXT_002]", "e\u0301\u0301", "\u202Egnp.exe", "{{ bos_token }}"};
  if (random.below(3) == 0) return special[random.below(special.size())];
  std::string text;
  for (std::uint64_t size = 6 + random.below(60); size > 0; --size) {
    text += static_cast<char>(0x20 + random.below(0x5F));
  }
  return text;
}

// Settings shared by a group of devices.
SimulatedDevice::Options group_options(Random& random) {
  SimulatedDevice::Options options;
  constexpr std::optional<Hold> kHolds[] = {Hold::none, Hold::economy, std::nullopt,
                                            Hold::lockstep};
  options.hold = kHolds[random.below(4)];
  options.one_way = std::chrono::milliseconds(5 + random.below(60));
  if (random.below(3) == 0) options.pad_tick_ms = 20;
  if (random.below(2) == 0) options.drafter = ToyDrafter::twin;
  Duration at = std::chrono::milliseconds(100 + random.below(300));
  for (std::uint64_t outages = random.below(3); outages > 0; --outages) {
    const Duration end = at + std::chrono::milliseconds(30 + random.below(700));
    options.outages.push_back({.begin = at, .end = end});
    at = end + std::chrono::milliseconds(100 + random.below(400));
  }
  return options;
}

// In order of time; connections that send at one time are sorted, as their order is random.
std::vector<SentBytes> sent_by(const SimulatedDevice& device) {
  std::vector<SentBytes> sent = device.sent();
  std::ranges::stable_sort(sent, {},
                           [](const SentBytes& one) { return std::pair(one.at, one.connection); });
  return sent;
}

// The difference of two devices, in words.
std::string difference(const std::vector<SentBytes>& a, const std::vector<SentBytes>& b) {
  const auto [one, other] = std::ranges::mismatch(a, b);
  const auto told = [](const std::vector<SentBytes>& of, auto at) {
    if (at == of.end()) return std::string("nothing");
    return std::to_string(at->bytes.size()) + " bytes on " + std::to_string(at->connection) +
           " at " + std::to_string(at->at.time_since_epoch() / 1us) + " us";
  };
  return "message " + std::to_string(one - a.begin()) + ": " + told(a, one) + " and " +
         told(b, other);
}

class UplinkTest : public ::testing::Test {
 protected:
  // The part of a request that may go up, in the toy model's tokens.
  Tokens tokens_of(const std::string& body) const {
    const CompletionDefaults defaults{.tokens_max = 30, .sampling = {}};
    const auto request = parse_completion(body, CompletionKind::chat, defaults, 1);
    const auto chat = bundle_.render_chat(chat_, {.messages = request->messages});
    Tokens tokens = bundle_.tokenizer().encode(*chat);
    for (std::uint32_t& token : tokens) token = 3 + token % (testing::kToyVocabulary - 3);
    return tokens;
  }

  BundleFile bundle_ =
      BundleFile::open(EDGEDRAFT_MODELS "/moa-tli1.gguf", BundleUse::draft).value();
  ChatTemplate chat_ = bundle_.chat_template({}).value();
};

// Receives restored text without draining it, and is dropped if it lags too far.
class SlowReader final : public GenerationObserver {
 public:
  SlowReader(SimulatedDevice& device, std::uint32_t conversation, const RequestPrivacy& privacy)
      : device_(device),
        conversation_(conversation),
        privacy_(privacy),
        text_(*privacy.placeholders) {}

  void on_token(std::uint32_t token, Provenance) override {
    pieces_.push_back(token % 3 == 0 ? "[TEXT_001]" : "word ");
    show(text_.push(pieces_.back()));
  }
  void on_rewrite(std::uint32_t index) override {
    pieces_.resize(index);
    std::size_t characters = 0;
    for (const std::string& piece : pieces_) characters += piece.size();
    text_.revise(characters);
    show(text_.push(""));
  }
  void on_confirmed(std::uint32_t, std::uint32_t) override {}
  void on_kept(std::uint32_t) override {}
  void on_state(ClientState, const std::string&) override {}

  bool was_stuck() const { return was_stuck_; }

 private:
  void show(const RestoredText::Piece& piece) {
    constexpr std::size_t kBehindMax = 10'000;
    behind_ += piece.text.size();
    if (behind_ < kBehindMax) return;
    was_stuck_ = true;
    if (privacy_.slow_readers_stop()) device_.cancel(conversation_);
  }

  SimulatedDevice& device_;
  std::uint32_t conversation_;
  const RequestPrivacy& privacy_;
  RestoredText text_;
  std::vector<std::string> pieces_;
  std::size_t behind_ = 0;
  bool was_stuck_ = false;
};

TEST_F(UplinkTest, MaskRevealsNothingOfPrivateText) {
  Random random(7);
  std::uint64_t hints = 0;
  std::uint64_t resyncs = 0;
  int stuck = 0;
  for (int group = 0; group < group_count(); ++group) {
    const SimulatedDevice::Options options = group_options(random);
    std::optional<std::vector<SentBytes>> expected;
    for (int number = 0; number < kDevices; ++number) {
      SimulatedDevice device(options);
      PrivacyGuard guard({.detects = {PrivateType::mail}});
      std::vector<std::unique_ptr<RequestPrivacy>> privacies;
      std::vector<std::unique_ptr<SlowReader>> readers;
      json messages = json::array();
      Instant asked = device.now() + 50ms;
      const std::string secret = private_text(random);
      for (int turn = 0; turn < 2; ++turn, asked += 1700ms) {
        messages.push_back(
            {{"role", "user"},
             {"content",
              {{{"type", "text"}, {"text", "Qqqq wwww: "}},
               {{"type", "text"}, {"text", secret}, {"x_private", true}},
               {{"type", "text"}, {"text", turn == 0 ? " eeee, tttt." : " uuuu."}}}}});
        const std::string body = json{{"messages", messages}}.dump();
        auto hidden = take_out_private(body, guard, bundle_.tokenizer());
        ASSERT_TRUE(hidden);
        ASSERT_TRUE(hidden->privacy.found());
        privacies.push_back(std::make_unique<RequestPrivacy>(std::move(hidden->privacy)));
        readers.push_back(std::make_unique<SlowReader>(device, 0, *privacies.back()));
        // Time proportional to the request's size.
        const Instant looked_through = asked + std::chrono::nanoseconds(80 * body.size());
        device.ask(begin_of_private(asked, looked_through), {.conversation = 0,
                                                             .prompt = tokens_of(hidden->body),
                                                             .terms = {.tokens_max = 30},
                                                             .observer = readers.back().get()});
        messages.push_back({{"role", "assistant"}, {"content", "Rrrr."}});
      }
      device.run(kRunLength);
      if (HasFatalFailure()) return;
      const std::vector<SentBytes> sent = sent_by(device);
      if (!expected) expected = sent;
      ASSERT_TRUE(sent == *expected) << "group " << group << ", " << difference(sent, *expected);
      hints += device.hint_count();
      resyncs += device.resync_count();
      for (const auto& reader : readers) stuck += reader->was_stuck() ? 1 : 0;
    }
  }
  EXPECT_GT(hints, 0u);
  EXPECT_GT(resyncs, 0u);
  EXPECT_GT(stuck, 0);
}

// The target answers one conversation while the device writes private answers to another, of any
// duration. Under `prefix` the text before private text is sent.
TEST_F(UplinkTest, ParallelConversationsRevealNothingOfPrivateAnswer) {
  Random random(11);
  std::uint64_t hints = 0;
  std::uint64_t resyncs = 0;
  for (int group = 0; group < group_count(); ++group) {
    SimulatedDevice::Options options = group_options(random);
    options.conversations = 3;
    if (random.below(2) == 0) options.first_draft_step = 3ms;  // it writes with a larger model
    const bool prefix = random.below(2) == 0;
    options.first_answers_alone = !prefix;
    const std::uint64_t seed = random.below(1u << 30);
    std::optional<std::vector<SentBytes>> expected;
    for (int number = 0; number < kDevices; ++number) {
      SimulatedDevice device(options);
      std::list<SendGrid::Hold> holds;
      Random same(seed);
      const Tokens open = tokens_of(R"({"messages": [{"role": "user", "content": "I am"}]})");
      // The private conversations first, then one after another.
      for (int turn = 0; turn < 2; ++turn) {
        const Instant asked = device.now() + std::chrono::milliseconds(60 + 2500 * turn) +
                              std::chrono::milliseconds(same.below(100));
        const std::string secret = private_text(random);
        Tokens prompt(open.begin(), open.begin() + 5);
        for (std::size_t i = 0; i < std::min<std::size_t>(secret.size(), 60); ++i) {
          prompt.push_back(3 + static_cast<unsigned char>(secret[i]) % 60);
        }
        const auto length = static_cast<std::uint32_t>(1 + random.below(60));
        const Instant begun =
            begin_of_private(asked, asked + std::chrono::nanoseconds(80 * secret.size()));
        const Duration reading = 30us * prompt.size();
        device.time().at(begun, [&] { holds.emplace_back(device.grid()); });
        device.ask(begun, {.conversation = 0,
                           .prompt = std::move(prompt),
                           .terms = {.tokens_max = length,
                                     .route = WritingSide::device,
                                     .is_private = true,
                                     .open_count = prefix ? 5u : 0u},
                           .extra = reading,
                           .on_over = [&] { holds.pop_front(); }});
      }
      for (std::uint32_t i = 1; i < 3; ++i) {
        Tokens prompt = open;
        for (int turn = 0; turn < 2; ++turn) {
          prompt.push_back(3 + static_cast<std::uint32_t>(same.below(60)));
          const Duration when = 70ms + 2500ms * turn + std::chrono::milliseconds(same.below(400));
          device.ask(device.now() + when,
                     {.conversation = i, .prompt = prompt, .terms = {.tokens_max = 16}});
        }
      }
      device.run(kRunLength);
      if (HasFatalFailure()) return;
      const std::vector<SentBytes> sent = sent_by(device);
      if (!expected) expected = sent;
      ASSERT_TRUE(sent == *expected) << "group " << group << ", " << difference(sent, *expected);
      hints += device.hint_count();
      resyncs += device.resync_count();
    }
  }
  EXPECT_GT(hints, 0u);
  EXPECT_GT(resyncs, 0u);
}

// For turns of others longer than a step, singly or together.
TEST_F(UplinkTest, PrivateAnswerProgressesBesideOthers) {
  for (const Duration draft_step : {12ms, 25ms, 60ms}) {
    SimulatedDevice device({.conversations = 4,
                            .drafter = ToyDrafter::twin,
                            .first_draft_step = draft_step,
                            .others_draft_step = draft_step});
    const Instant begun = device.now() + 50ms;
    std::optional<SendGrid::Hold> hold;
    device.time().at(begun, [&] { hold.emplace(device.grid()); });
    Instant public_over{};
    for (std::uint32_t i = 0; i < 3; ++i) {
      device.ask(begun, {.conversation = i,
                         .prompt = Tokens{5, 9, 12 + i, 7},
                         .terms = {.tokens_max = 100},
                         .on_over = [&] { public_over = device.now(); }});
    }
    Instant private_over{};
    device.ask(begun + 1ms,
               {.conversation = 3,
                .prompt = Tokens{6, 8, 11},
                .terms = {.tokens_max = 5, .route = WritingSide::device, .is_private = true},
                .on_over = [&] {
                  private_over = device.now();
                  hold.reset();
                }});
    device.run(60s);
    EXPECT_GT(private_over, begun);
    EXPECT_LT(private_over, public_over) << draft_step / 1ms;
  }
}

}  // namespace
}  // namespace edgedraft::client
