#include "netsim/profile.h"

#include <algorithm>
#include <cmath>

#include "netsim/link/delivery_trace.h"
#include "shared/base/printable.h"
#include "shared/base/text_file.h"
#include "shared/program/toml_reader.h"

namespace edgedraft::netsim {
namespace {

constexpr std::size_t kProfileBytesMax = 1u << 20;
constexpr std::size_t kTraceBytesMax = 64u << 20;
constexpr std::size_t kEventsMax = 10000;
constexpr std::size_t kRestDelaysMax = 8;
constexpr double kMsMax = 60'000;
constexpr double kSecondsMax = 1'000'000;
constexpr const char* kHint = "see docs/networks.md";

Duration milliseconds_of(double ms) {
  return Duration(std::llround(ms * 1e6));
}

bool read_ms(TomlReader& table, const char* key, Duration& out) {
  double ms = 0;
  if (!table.read(key, ms, 0, kMsMax)) return false;
  out = milliseconds_of(ms);
  return true;
}

void require_ms(TomlReader& table, const char* key, Duration& out) {
  table.require(key, "milliseconds");
  read_ms(table, key, out);
}

bool read_seconds(TomlReader& table, const char* key, double least, Duration& out) {
  double s = 0;
  if (!table.read(key, s, least, kSecondsMax)) return false;
  out = Duration(std::llround(s * 1e9));
  return true;
}

void read_points(TomlReader& table, std::vector<std::pair<double, Duration>>& points) {
  if (table.has("samples_ms") == table.has("points")) {
    return table.wrong("distribution",
                       "give either points = [[share, ms], ...] or samples_ms = [...]");
  }
  std::vector<double> samples;
  if (table.read("samples_ms", samples, 0, kMsMax)) {
    std::sort(samples.begin(), samples.end());
    if (samples.size() == 1) samples.push_back(samples.front());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      points.emplace_back(static_cast<double>(i) / static_cast<double>(samples.size() - 1),
                          milliseconds_of(samples[i]));
    }
    return;
  }
  std::vector<std::pair<double, double>> rows;
  table.read("points", rows, "a pair of numbers, [share, ms]");
  for (const auto& [share, ms] : rows) {
    const bool first = points.empty();
    if (!(ms >= 0 && ms <= kMsMax)) {
      return table.wrong("points", "a delay must be from 0 to " + number_text(kMsMax) + " ms");
    }
    if (first ? share != 0 : !(share > points.back().first && share <= 1)) {
      return table.wrong("points", "shares must start at 0, increase and end at 1");
    }
    if (!first && milliseconds_of(ms) < points.back().second) {
      return table.wrong("points", "delays must not decrease");
    }
    points.emplace_back(share, milliseconds_of(ms));
  }
  if (points.size() < 2 || points.back().first != 1) {
    table.wrong("points", "shares must start at 0, increase and end at 1");
  }
}

void read_delay(TomlReader& table, DelayDistribution& distribution) {
  distribution = {.path = distribution.path, .hold = distribution.hold};
  const auto name = table.one_of("distribution", {"constant", "normal", "pareto", "table"});
  if (name == "constant") {
    require_ms(table, "ms", distribution.centre);
  } else if (name == "normal") {
    distribution.kind = DelayDistribution::Kind::normal;
    require_ms(table, "mean_ms", distribution.centre);
    require_ms(table, "deviation_ms", distribution.deviation);
  } else if (name == "pareto") {
    distribution.kind = DelayDistribution::Kind::pareto;
    require_ms(table, "least_ms", distribution.centre);
    table.require("shape", "a number above 1");
    table.read("shape", distribution.shape, 1.01, 1000);
  } else if (name == "table") {
    distribution.kind = DelayDistribution::Kind::table;
    read_points(table, distribution.points);
  }
}

void read_burst_loss(TomlReader& table, std::optional<GilbertElliott>& out) {
  GilbertElliott& burst = out.emplace();
  for (const char* key : {"enter", "leave"}) table.require(key, "a probability per packet");
  table.read("enter", burst.enter, 0, 1);
  table.read("leave", burst.leave, 1e-9, 1);
  table.read("loss_in_burst", burst.loss_in_burst, 0, 1);
  table.read("loss_outside", burst.loss_outside, 0, 1);
}

void read_rest(TomlReader& table, std::vector<RestDelay>& out) {
  RestDelay rest;
  require_ms(table, "after_ms", rest.after);
  require_ms(table, "least_ms", rest.least);
  require_ms(table, "most_ms", rest.most);
  if (rest.most < rest.least) table.wrong("most_ms", "must be at least least_ms");
  if (!out.empty() && rest.after <= out.back().after) {
    table.wrong("after_ms", "must exceed the previous entry's");
  }
  out.push_back(rest);
}

void read_competing(TomlReader& table, LinkOptions& link) {
  if (link.trace) table.wrong("queue_kb", "needs rate_mbit, not a trace");
  CompetingFlow& flow = link.competing.emplace();
  double queue_kb = 0;
  table.require("queue_kb", "the flow's kilobytes in the queue");
  table.read("queue_kb", queue_kb, 1, 1'000'000);
  flow.queue_bytes = static_cast<std::uint64_t>(queue_kb * 1000);
  table.require("period_s", "the seconds between losses");
  read_seconds(table, "period_s", 0.01, flow.period);
  table.read("share", flow.share, 0, 1);
}

void read_direction(TomlReader& table, const std::filesystem::path& folder, LinkOptions& link) {
  if (table.has("rate_mbit") && table.has("trace")) {
    table.wrong("trace", "the trace sets the rate; leave rate_mbit out");
  }
  if (double rate = 0; table.read("rate_mbit", rate, 0.001, 100'000)) {
    link.bits_per_second = static_cast<std::uint64_t>(rate * 1e6);
    link.trace.reset();
  }
  if (std::string trace; table.read("trace", trace)) {
    const auto path = folder / trace;
    const auto text = read_text_file(path, kTraceBytesMax);
    if (!text) return table.wrong("trace", text.error().message, text.error().code);
    auto parsed = parse_delivery_trace(*text, path.string());
    if (!parsed) return table.fail(parsed.error());
    link.trace = std::move(*parsed);
    link.bits_per_second = 0;
  }
  read_ms(table, "path_ms", link.delay.path);
  read_ms(table, "hold_ms", link.delay.hold);
  table.table("delay", kHint, [&](TomlReader& delay) { read_delay(delay, link.delay); });
  table.read("reorder", link.reorder);
  table.read("loss", link.loss, 0, 1);
  table.table("burst_loss", kHint,
              [&](TomlReader& burst) { read_burst_loss(burst, link.burst_loss); });
  if (table.has("rest")) link.rest.clear();
  table.tables("rest", kRestDelaysMax, [&](TomlReader& rest) { read_rest(rest, link.rest); });
  table.table("competing", kHint, [&](TomlReader& flow) { read_competing(flow, link); });
  if (double queue = 0; table.read("queue_packets", queue, 1, 1'000'000)) {
    link.queue_packets = static_cast<std::size_t>(queue);
  }
}

void read_event(TomlReader& table, std::vector<LinkEvent>& events) {
  LinkEvent event;
  const auto action = table.one_of("action", {"down", "up", "new-address"});
  event.kind = action == "down" ? LinkEvent::Kind::down
               : action == "up" ? LinkEvent::Kind::up
                                : LinkEvent::Kind::new_address;
  table.require("at_s", "the seconds since the start");
  read_seconds(table, "at_s", 0, event.at);
  if (read_seconds(table, "for_s", 0.001, event.duration) && event.kind != LinkEvent::Kind::down) {
    table.wrong("for_s", "is allowed only with action = \"down\"");
  }
  events.push_back(event);
}

void read_outage(TomlReader& table, std::vector<TokenOutage>& outages) {
  TokenOutage outage;
  double tokens = 0;
  table.require("after_tokens", "a number of tokens");
  table.read("after_tokens", tokens, 0, 1e6);
  outage.after_tokens = static_cast<std::uint32_t>(tokens);
  read_seconds(table, "for_s", 0.001, outage.duration);
  outages.push_back(outage);
}

}  // namespace

bool is_congestion_control(std::string_view name) {
  constexpr std::size_t kNameMax = 15;  // the kernel's TCP_CA_NAME_MAX, less its terminator
  return !name.empty() && name.size() <= kNameMax &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string_view::npos;
}

Result<NetworkProfile> parse_network_profile(std::string_view text,
                                             const std::filesystem::path& file) {
  NetworkProfile profile;
  profile.text = text;
  TomlFile source{.name = file.string(), .line_mark = ":"};
  const auto toml = parse_toml(text, file, source.line_mark);
  if (!toml) return toml.error();
  TomlReader root(*toml, source);
  root.read("name", profile.name);
  root.read("source", profile.source);
  if (profile.name.empty()) profile.name = file.stem().string();
  root.read("congestion_control", profile.congestion_control);
  if (!is_congestion_control(profile.congestion_control)) {
    root.wrong("congestion_control", "give the kernel's name of an algorithm, such as \"cubic\"");
  }
  // Results use '|' to join names, and scripts and messages print them.
  if (profile.name.find('|') != std::string::npos ||
      printable(profile.name, Lines::one) != profile.name) {
    root.wrong("name", "expected a name without | and control characters");
  }

  const auto read = [&](const char* key, LinkOptions& link) {
    root.table(key, kHint,
               [&](TomlReader& table) { read_direction(table, file.parent_path(), link); });
  };
  LinkOptions both;
  read("both", both);
  profile.up = profile.down = both;
  read("up", profile.up);
  read("down", profile.down);
  for (const auto& [key, link] : {std::pair{"up", &profile.up}, std::pair{"down", &profile.down}}) {
    if (link->bits_per_second == 0 && !link->trace) {
      root.wrong(key,
                 "no rate: give rate_mbit, or trace with a file in mahimahi's format, "
                 "here or in [both]");
    }
    if (link->trace && link->competing) {
      root.wrong(key, "competing needs rate_mbit, not a trace");
    }
  }
  root.tables("event", kEventsMax, [&](TomlReader& table) { read_event(table, profile.events); });
  std::ranges::stable_sort(profile.events, {}, &LinkEvent::at);
  if (read_seconds(root, "repeat_s", 0.1, profile.repeat) &&
      (profile.events.empty() || profile.events.back().at >= profile.repeat)) {
    root.wrong("repeat_s", "must be later than the last event");
  }
  root.tables("outage", kEventsMax,
              [&](TomlReader& table) { read_outage(table, profile.outages); });
  std::ranges::stable_sort(profile.outages, {}, &TokenOutage::after_tokens);
  root.refuse_unknown_keys();
  if (source.error) return *source.error;
  return profile;
}

Result<NetworkProfile> read_network_profile(const std::string& name_or_path) {
  for (const ShippedProfile& shipped : kShippedProfiles) {
    if (shipped.name == name_or_path) {
      return parse_network_profile(shipped.text, name_or_path + ".toml");
    }
  }
  if (name_or_path.find_first_of("/.") == std::string::npos) {
    std::string names;
    for (const ShippedProfile& shipped : kShippedProfiles) {
      names += (names.empty() ? "" : ", ") + std::string(shipped.name);
    }
    return Error{Errc::usage, "unknown profile '" + name_or_path +
                                  "'; give a file (./my.toml) or one of " + names};
  }
  const auto text = read_text_file(name_or_path, kProfileBytesMax);
  if (!text) return text.error();
  return parse_network_profile(*text, name_or_path);
}

std::vector<std::string> shipped_network_profiles() {
  std::vector<std::string> names;
  for (const ShippedProfile& shipped : kShippedProfiles) names.emplace_back(shipped.name);
  return names;
}

std::vector<LinkEvent> events_until(const NetworkProfile& profile, Duration span) {
  std::vector<LinkEvent> events;
  for (Duration lap{0};; lap += profile.repeat) {
    for (LinkEvent event : profile.events) {
      event.at += lap;
      if (event.at < span) events.push_back(event);
    }
    if (profile.repeat <= Duration(0) || lap + profile.repeat >= span) break;
  }
  return events;
}

}  // namespace edgedraft::netsim
