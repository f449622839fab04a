#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/serve/api_error.h"
#include "client/serve/direct_outlet.h"
#include "client/serve/outlet.h"
#include "shared/base/clock.h"
#include "shared/net/http/http_message.h"
#include "shared/net/http/http_reply.h"

namespace edgedraft {

// A stream that outlives the connection that asked for it: what was said is kept, and anybody who
// knows its name reads it from any byte on, while it goes on and for a while after.
class KeptStream final : public Outlet {
 public:
  // An answer of this size has gone astray.
  static constexpr std::size_t kBytesMax = 16u << 20;

  // The asking client is its first reader; `headers` are those of that answer.
  KeptStream(HttpReply reply, HttpHeaders headers, std::size_t bytes_max = kBytesMax);

  void answer(HttpAnswer answer) override;
  void begin(const HttpHeaders& headers = {}) override;
  void write(std::string events) override;
  void end() override;
  bool is_stuck() const override { return bytes_.size() > bytes_max_; }
  // Ends a stream that is not whole, and tells its readers why. Requires  it has not ended
  void break_off(const ApiError& why);

  // Another reader, from that byte on. Requires  from <= size()
  void attach(HttpReply reply, const HttpHeaders& headers, std::size_t from);

  std::size_t size() const { return bytes_.size(); }
  bool ended() const { return ended_.has_value(); }
  // Whether a reader is still connected.
  bool is_read() const;
  // By the wall clock, in milliseconds since 1970.
  std::int64_t started_ms() const { return started_ms_; }
  std::int64_t ended_ms() const { return ended_.value_or(0); }

 private:
  struct Reader {
    HttpReply reply;
    std::size_t joined_at;  // bytes that there were, all of which it was owed at once
  };
  // How many bytes that came after it joined it has not taken yet.
  std::size_t lag_of(const Reader& reader) const;

  std::optional<HttpReply> asking_;  // until the stream begins
  HttpHeaders headers_;
  std::size_t bytes_max_;
  std::string bytes_;
  std::vector<Reader> readers_;
  std::int64_t started_ms_;
  std::optional<std::int64_t> ended_;
};

// The kept streams by their names, which the clients choose.
class KeptStreams {
 public:
  // A name that nobody guesses: 128 random bits are 22 characters of base64url, 32 of hex or a
  // UUID.
  static constexpr std::size_t kNameMin = 22;
  static constexpr std::size_t kNameMax = 128;
  static bool is_name(std::string_view name);

  struct Options {
    std::size_t count_max = 64;
    std::size_t unread_max = 8;                    // that are still being written
    Duration kept_for = std::chrono::minutes(10);  // after the end
  };
  // On the thread of `io`, which outlives it, streams are forgotten even where nobody asks.
  KeptStreams(boost::asio::io_context& io, Options options) : options_(options), oldest_(io) {}

  // `stop` ends what writes the stream; it is called at most once, before the end.
  // A stream of that name that there is already is stopped and forgotten; its readers are told.
  // Errors    none: where there are too many, those that ended longest ago go; nothing is kept,
  //           and false given, if none has ended
  bool put(const std::string& name, std::shared_ptr<KeptStream> stream, std::function<void()> stop,
           Instant now);
  std::shared_ptr<KeptStream> find(const std::string& name, Instant now);
  // Ends those that began first of the streams without a reader, down to `unread_max`: they hold
  // conversations and sessions that others want. What they said so far stays.
  void end_unread();
  // It has ended.
  void ended(const KeptStream& stream, Instant now);
  // Stops and forgets it, and tells its readers; false if there is none.
  bool remove(const std::string& name);

 private:
  struct Entry {
    std::shared_ptr<KeptStream> stream;
    std::function<void()> stop;
    Instant begun;
    Instant ended = Instant::max();
  };
  static void end(Entry& entry, const ApiError& why);
  bool remove(const std::string& name, const ApiError& why);
  void sweep(Instant now);
  void sweep_later();

  Options options_;
  boost::asio::steady_timer oldest_;  // until the one that ended first is to be forgotten
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace edgedraft
