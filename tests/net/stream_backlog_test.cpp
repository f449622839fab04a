// A client that asks for a long stream and does not read it.
#include <gtest/gtest.h>

#include <thread>

#include "tests/net/net_support.h"
#include "tests/net/raw_peer.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kStream = kContextCountMax - 8;
constexpr std::uint32_t kTokensAVerdict = 256;

// Streams as a scheduler does: one thread gives verdicts while there is room, and waits to be told
// of more.
class StreamingApplication final : public ServerApplication {
 public:
  ~StreamingApplication() override {
    if (compute_.joinable()) compute_.join();
  }

  void handle(const ReplyHandle& reply, const PeerInfo&, ServerEvent event) override {
    if (std::holds_alternative<HelloReceived>(event)) {
      reply.accept({.model = "toy",
                    .context_count = kContextCountMax,
                    .stream_tokens_max = kContextCountMax});
    } else if (const auto* prefill = std::get_if<PrefillRequested>(&event)) {
      reply.verdict({.round = prefill->request.round, .next = 7});
    } else if (const auto* draft = std::get_if<DraftRequested>(&event)) {
      compute_ = std::thread([this, reply, round = draft->request.round] { stream(reply, round); });
    }
  }
  void drained(std::uint64_t) override {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }
  void ended(std::uint64_t, const PeerInfo&, const Error&, const TrafficStats&) override {
    const std::scoped_lock lock(mutex_);
    gone_ = true;
    changed_.notify_all();
  }

  // Whether the stream came to a halt for want of a reader.
  bool wait_for_pause() {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return paused_ || done_; }) && paused_;
  }
  std::uint32_t most_behind() const { return most_behind_; }

 private:
  void stream(const ReplyHandle& reply, std::uint32_t round) {
    for (std::uint32_t left = kStream; left > 0;) {
      {
        std::unique_lock lock(mutex_);
        const auto room = [&] { return reply.backlog() < ReplyHandle::kBacklogFull; };
        if (!room()) {
          paused_ = true;
          changed_.notify_all();
          changed_.wait_until(lock, soon(), [&] { return room() || gone_; });
        }
        if (gone_) return;
      }
      const std::uint32_t count = std::min(left, kTokensAVerdict);
      reply.verdict(
          {.round = round, .next = 7, .tokens = std::vector<std::uint32_t>(count - 1, 7)});
      left -= count;
      most_behind_ = std::max(most_behind_, reply.backlog());
    }
    const std::scoped_lock lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool paused_ = false;
  bool done_ = false;
  bool gone_ = false;
  std::uint32_t most_behind_ = 0;
  std::thread compute_;
};

TEST(StreamBacklogTest, AStreamWaitsForItsReader) {
  test::TemporaryDirectory directory;
  const TlsIdentity identity = make_identity(directory.path(), "server", {});
  StreamingApplication application;
  Listener listener(on_loopback(),
                    make_server_context({.certificate_file = identity.certificate_file,
                                         .key_file = identity.key_file})
                        .value(),
                    application);
  RawTlsPeer peer(listener.port(), {});
  ASSERT_TRUE(peer.shake_hands());
  ClientSession session({.hello = {}, .channel = {}}, Clock::now());
  std::uint64_t streamed = 0;
  const auto read_until = [&](const auto& enough) {
    while (!enough()) {
      const Bytes bytes = peer.read_some();
      if (bytes.empty() || !session.receive(Clock::now(), bytes)) return false;
      while (auto event = session.next_event()) {
        if (const auto* verdict = std::get_if<VerdictReceived>(&*event)) {
          streamed += verdict->verdict.tokens.size();
          streamed += verdict->to == VerdictReceived::To::draft ? 1 : 0;
        }
      }
    }
    return true;
  };
  peer.write(session.take_output());
  ASSERT_TRUE(read_until([&] { return session.ready(); }));
  ASSERT_TRUE(session.prefill(outgoing(small_prompt())));
  peer.write(session.take_output());
  ASSERT_TRUE(read_until([&] { return session.length() > 0; }));
  ASSERT_TRUE(session.draft(
      outgoing(wire::Draft{.base_length = session.length(), .stream_tokens = kStream})));
  peer.write(session.take_output());

  EXPECT_TRUE(application.wait_for_pause());
  ASSERT_TRUE(read_until([&] { return !session.in_flight(); }));
  EXPECT_EQ(streamed, kStream);
  EXPECT_LE(application.most_behind(), ReplyHandle::kBacklogFull);
}

}  // namespace
}  // namespace edgedraft
