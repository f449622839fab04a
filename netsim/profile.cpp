#include "netsim/profile.h"

#include <algorithm>

#include "netsim/link/delivery_trace.h"
#include "netsim/profile_table.h"
#include "netsim/shipped_profiles.h"
#include "shared/base/printable.h"
#include "shared/base/text_file.h"
#include "shared/program/toml_text.h"

namespace edgedraft::netsim {
namespace {

constexpr std::size_t kProfileBytesMax = 1u << 20;
constexpr std::size_t kTraceBytesMax = 64u << 20;
constexpr std::size_t kTablePointsMax = 65536;
constexpr std::size_t kEventsMax = 10000;
constexpr std::size_t kRestLawsMax = 8;
constexpr double kMsMax = 60'000;
constexpr double kSecondsMax = 1'000'000;

Result<std::vector<std::pair<double, Duration>>> read_points(ProfileTable& table) {
  std::vector<std::pair<double, Duration>> points;
  if (table.has("samples_ms") == table.has("points")) {
    return table.wrong("law",
                       "a table has either points = [[share, ms], ...] or samples_ms = [...]");
  }
  if (table.has("samples_ms")) {
    auto samples = table.numbers("samples_ms", 0, kMsMax, kTablePointsMax);
    if (!samples) return samples.error();
    if (samples->empty()) return table.wrong("samples_ms", "give one delay at least");
    std::sort(samples->begin(), samples->end());
    if (samples->size() == 1) samples->push_back(samples->front());
    for (std::size_t i = 0; i < samples->size(); ++i) {
      points.emplace_back(static_cast<double>(i) / static_cast<double>(samples->size() - 1),
                          milliseconds_of((*samples)[i]));
    }
    return points;
  }
  const auto rows = table.pairs("points", kTablePointsMax);
  if (!rows) return rows.error();
  for (const auto& [share, ms] : *rows) {
    const bool first = points.empty();
    if (!(ms >= 0 && ms <= kMsMax)) {
      return table.wrong("points", "a delay is between 0 and " + plain(kMsMax) + " ms");
    }
    if (first ? share != 0 : !(share > points.back().first && share <= 1)) {
      return table.wrong("points", "shares start at 0, rise and end at 1");
    }
    if (!first && milliseconds_of(ms) < points.back().second) {
      return table.wrong("points", "delays never fall");
    }
    points.emplace_back(share, milliseconds_of(ms));
  }
  if (points.size() < 2 || points.back().first != 1) {
    return table.wrong("points", "shares start at 0, rise and end at 1");
  }
  return points;
}

Result<void> read_delay(ProfileTable table, DelayLaw& law) {
  const auto name = table.one_of("law", {"constant", "normal", "pareto", "table"});
  if (!name) return name.error();
  law = {.path = law.path, .hold = law.hold};
  if (*name == "constant") {
    law.kind = DelayLaw::Kind::constant;
    if (auto r = table.required_ms("ms", law.centre); !r) return r;
  } else if (*name == "normal") {
    law.kind = DelayLaw::Kind::normal;
    if (auto r = table.required_ms("mean_ms", law.centre); !r) return r;
    if (auto r = table.required_ms("deviation_ms", law.deviation); !r) return r;
  } else if (*name == "pareto") {
    law.kind = DelayLaw::Kind::pareto;
    if (auto r = table.required_ms("least_ms", law.centre); !r) return r;
    const auto shape = table.number("shape", 1.01, 1000);
    if (!shape) return shape.error();
    if (!*shape) return table.wrong("law", "pareto needs shape, a number above 1");
    law.shape = **shape;
  } else {
    law.kind = DelayLaw::Kind::table;
    auto points = read_points(table);
    if (!points) return points.error();
    law.points = std::move(*points);
  }
  return table.nothing_else();
}

Result<void> read_burst_loss(ProfileTable table, std::optional<GilbertElliott>& out) {
  GilbertElliott law;
  const struct {
    const char* key;
    double* value;
    double least;
    bool required;
  } fields[] = {{"enter", &law.enter, 0, true},
                {"leave", &law.leave, 1e-9, true},
                {"loss_in_burst", &law.loss_in_burst, 0, false},
                {"loss_outside", &law.loss_outside, 0, false}};
  for (const auto& field : fields) {
    const auto value = table.number(field.key, field.least, 1);
    if (!value) return value.error();
    if (*value) {
      *field.value = **value;
    } else if (field.required) {
      return table.wrong(field.key, "is missing; give a probability a packet");
    }
  }
  out = law;
  return table.nothing_else();
}

Result<void> read_rest(ProfileTable& table, std::vector<RestLaw>& out) {
  auto laws = table.tables("rest", kRestLawsMax);
  if (!laws) return laws.error();
  out.clear();
  for (ProfileTable& entry : *laws) {
    RestLaw law;
    if (auto r = entry.required_ms("after_ms", law.after); !r) return r;
    if (auto r = entry.required_ms("least_ms", law.least); !r) return r;
    if (auto r = entry.required_ms("most_ms", law.most); !r) return r;
    if (law.most < law.least) return entry.wrong("most_ms", "is no less than least_ms");
    if (!out.empty() && law.after <= out.back().after) {
      return entry.wrong("after_ms", "rises from law to law");
    }
    if (auto r = entry.nothing_else(); !r) return r;
    out.push_back(law);
  }
  return boost::system::in_place_value;
}

Result<void> read_competing(ProfileTable table, std::optional<CompetingFlow>& out) {
  const auto queue = table.number("queue_kb", 1, 1'000'000);
  if (!queue) return queue.error();
  const auto period = table.number("period_s", 0.01, kSecondsMax);
  if (!period) return period.error();
  const auto share = table.number("share", 0, 1);
  if (!share) return share.error();
  if (!*queue) return table.wrong("queue_kb", "is missing; give what the flow has in the queue");
  if (!*period) return table.wrong("period_s", "is missing; give the seconds from loss to loss");
  out = CompetingFlow{.queue_bytes = static_cast<std::uint64_t>(**queue * 1000),
                      .period = seconds_of(**period),
                      .share = share->value_or(1.0)};
  return table.nothing_else();
}

Result<void> read_direction(ProfileTable table, const std::filesystem::path& folder,
                            LinkOptions& link) {
  if (table.has("rate_mbit") && table.has("trace")) {
    return table.wrong("trace", "a trace is the rate; leave rate_mbit out");
  }
  const auto rate = table.number("rate_mbit", 0.001, 100'000);
  if (!rate) return rate.error();
  if (*rate) {
    link.bits_per_second = static_cast<std::uint64_t>(**rate * 1e6);
    link.trace.reset();
  }
  const auto trace = table.text("trace");
  if (!trace) return trace.error();
  if (*trace) {
    const auto path = folder / **trace;
    const auto text = read_text_file(path, kTraceBytesMax);
    if (!text) return table.wrong("trace", text.error().message, text.error().code);
    auto parsed = parse_delivery_trace(*text, path.string());
    if (!parsed) return parsed.error();
    link.trace = std::move(*parsed);
    link.bits_per_second = 0;
  }
  const auto path = table.number("path_ms", 0, kMsMax);
  if (!path) return path.error();
  if (*path) link.delay.path = milliseconds_of(**path);
  const auto hold = table.number("hold_ms", 0, kMsMax);
  if (!hold) return hold.error();
  if (*hold) link.delay.hold = milliseconds_of(**hold);

  if (table.has("delay")) {
    auto delay = table.table("delay");
    if (!delay) return delay.error();
    if (auto r = read_delay(std::move(*delay), link.delay); !r) return r;
  }
  const auto reorder = table.flag("reorder");
  if (!reorder) return reorder.error();
  if (*reorder) link.reorder = **reorder;
  const auto loss = table.number("loss", 0, 1);
  if (!loss) return loss.error();
  if (*loss) link.loss = **loss;
  if (table.has("burst_loss")) {
    auto burst = table.table("burst_loss");
    if (!burst) return burst.error();
    if (auto r = read_burst_loss(std::move(*burst), link.burst_loss); !r) return r;
  }
  if (table.has("rest")) {
    if (auto r = read_rest(table, link.rest); !r) return r;
  }
  if (table.has("competing")) {
    auto competing = table.table("competing");
    if (!competing) return competing.error();
    if (link.trace) return competing->wrong("queue_kb", "goes with rate_mbit, not with a trace");
    if (auto r = read_competing(std::move(*competing), link.competing); !r) return r;
  }
  const auto queue = table.number("queue_packets", 1, 1'000'000);
  if (!queue) return queue.error();
  if (*queue) link.queue_packets = static_cast<std::size_t>(**queue);
  return table.nothing_else();
}

Result<void> read_events(ProfileTable& root, NetworkProfile& profile) {
  auto tables = root.tables("event", kEventsMax);
  if (!tables) return tables.error();
  for (ProfileTable& table : *tables) {
    LinkEvent event;
    const auto action = table.one_of("action", {"down", "up", "new-address"});
    if (!action) return action.error();
    event.kind = *action == "down" ? LinkEvent::Kind::down
                 : *action == "up" ? LinkEvent::Kind::up
                                   : LinkEvent::Kind::new_address;
    const auto at = table.number("at_s", 0, kSecondsMax);
    if (!at) return at.error();
    if (!*at) return table.wrong("at_s", "is missing; give the seconds since the start");
    event.at = seconds_of(**at);
    const auto duration = table.number("for_s", 0.001, kSecondsMax);
    if (!duration) return duration.error();
    if (*duration) {
      if (event.kind != LinkEvent::Kind::down) {
        return table.wrong("for_s", "goes with action = \"down\" alone");
      }
      event.duration = seconds_of(**duration);
    }
    if (auto r = table.nothing_else(); !r) return r;
    profile.events.push_back(event);
  }
  std::stable_sort(profile.events.begin(), profile.events.end(),
                   [](const LinkEvent& a, const LinkEvent& b) { return a.at < b.at; });

  const auto repeat = root.number("repeat_s", 0.1, kSecondsMax);
  if (!repeat) return repeat.error();
  if (*repeat) profile.repeat = seconds_of(**repeat);
  if (*repeat && (profile.events.empty() || profile.events.back().at >= profile.repeat)) {
    return root.wrong("repeat_s", "is the length of the script; every event comes before it");
  }
  return boost::system::in_place_value;
}

Result<void> read_outages(ProfileTable& root, NetworkProfile& profile) {
  auto tables = root.tables("outage", kEventsMax);
  if (!tables) return tables.error();
  for (ProfileTable& table : *tables) {
    const auto tokens = table.number("after_tokens", 0, 1e6);
    if (!tokens) return tokens.error();
    if (!*tokens) return table.wrong("after_tokens", "is missing; give a number of tokens");
    const auto duration = table.number("for_s", 0.001, kSecondsMax);
    if (!duration) return duration.error();
    if (auto r = table.nothing_else(); !r) return r;
    profile.outages.push_back({.after_tokens = static_cast<std::uint32_t>(**tokens),
                               .duration = *duration ? seconds_of(**duration) : Duration(0)});
  }
  std::ranges::stable_sort(profile.outages, {}, &TokenOutage::after_tokens);
  return boost::system::in_place_value;
}

}  // namespace

bool is_congestion_control(std::string_view name) {
  constexpr std::size_t kNameMax = 15;  // the kernel's TCP_CA_NAME_MAX with its end
  return !name.empty() && name.size() <= kNameMax &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string_view::npos;
}

Result<NetworkProfile> parse_network_profile(std::string_view text,
                                             const std::filesystem::path& file) {
  NetworkProfile profile;
  profile.text = text;
  toml::table toml;
  try {
    toml = parse_toml(text, file);
  } catch (const toml::parse_error& e) {
    return Error{Errc::usage, file.string() + ":" + std::to_string(e.source().begin.line) + ": " +
                                  std::string(e.description())};
  }
  ProfileTable root(toml, file.string(), "");
  for (const auto& [key, field] :
       {std::pair{"name", &profile.name}, std::pair{"source", &profile.source}}) {
    const auto value = root.text(key);
    if (!value) return value.error();
    if (*value) *field = **value;
  }
  if (profile.name.empty()) profile.name = file.stem().string();
  const auto congestion_control = root.text("congestion_control");
  if (!congestion_control) return congestion_control.error();
  if (*congestion_control) profile.congestion_control = **congestion_control;
  if (!is_congestion_control(profile.congestion_control)) {
    return root.wrong("congestion_control", "give the kernel's name of one, such as \"cubic\"");
  }
  // Results join names with it, and scripts and messages show them.
  if (profile.name.find('|') != std::string::npos ||
      printable(profile.name, Lines::one) != profile.name) {
    return root.wrong("name", "give one without | and without control characters");
  }

  const auto read = [&](const char* key, LinkOptions& link) -> Result<void> {
    if (!root.has(key)) return boost::system::in_place_value;
    auto table = root.table(key);
    if (!table) return table.error();
    return read_direction(std::move(*table), file.parent_path(), link);
  };
  LinkOptions both;
  if (auto r = read("both", both); !r) return r.error();
  profile.up = profile.down = both;
  if (auto r = read("up", profile.up); !r) return r.error();
  if (auto r = read("down", profile.down); !r) return r.error();
  for (const auto& [key, link] : {std::pair{"up", &profile.up}, std::pair{"down", &profile.down}}) {
    if (link->bits_per_second == 0 && !link->trace) {
      return root.wrong(key,
                        "no rate: give rate_mbit, or trace with a file in mahimahi's format, "
                        "here or in [both]");
    }
    if (link->trace && link->competing) {
      return root.wrong(key, "competing goes with rate_mbit, not with a trace");
    }
  }
  if (auto r = read_events(root, profile); !r) return r.error();
  if (auto r = read_outages(root, profile); !r) return r.error();
  if (auto r = root.nothing_else(); !r) return r.error();
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
    return Error{Errc::usage, "no profile is called '" + name_or_path +
                                  "'. Give a file (./my.toml) or one of " + names};
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
