#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "client/engine/bundle_file.h"
#include "shared/base/error.h"
#include "shared/net/client_link.h"
#include "shared/privacy/taint_ledger.h"
#include "shared/program/program.h"
#include "tests/bench/commands.h"
#include "tests/support/loopback_server.h"
#include "tests/support/overhead.h"

namespace edgedraft::bench {
using namespace client;
namespace {

struct ProtocolOptions {
  std::filesystem::path model;
  std::filesystem::path bundle;
  std::string prompt = "Tell me a story about a dog and a ball.";
  std::uint32_t max_tokens = 100;
  bool json = false;
};

constexpr const char* kProtocolHelp =
    R"(Runs server and client with hold lockstep over TLS on loopback and counts the bytes of every cycle: in the
messages' payloads, with frame headers, and at the TCP socket. They are compared with the paper's formula,
4 M bytes up for M nodes and 3 A + 2 A E_kv (TLI + 1) down for A new tokens (Mixture of Attentions,
Table 7), plus the protocol's declared overhead: scales, frame headers, FlatBuffers tables, TLS records.
The exit status is 1 if a payload exceeds formula, scales and tables.

The last line shows gzip on the activations of the prompt (-p): the compressed size, the time on both
sides, and the link rate above which it gains nothing.

Example:
  edgedraft-bench protocol --model models/demo/target.gguf --bundle models/demo/moa-tli0.gguf)";

// Totals over all cycles.
struct SummedBytes {
  std::uint64_t formula = 0;
  std::uint64_t allowed_payload = 0;  // formula, scales and tables
  std::uint64_t payload = 0;
  std::uint64_t framed = 0;
  std::uint64_t socket = 0;
};

struct Totals {
  std::uint32_t cycles = 0;
  std::uint32_t nodes = 0;
  std::uint32_t tokens = 0;
  std::uint32_t over = 0;  // cycles with a payload over the limit
  SummedBytes up;
  SummedBytes down;
};

// Compression of a prompt's activations, in the server's chunks.
struct Compression {
  std::uint32_t positions = 0;
  std::uint64_t raw_bytes = 0;
  std::uint64_t gzip_bytes = 0;
  double pack_seconds = 0.0;
  double unpack_seconds = 0.0;

  // The rate at which compression takes as long as it saves.
  double break_even_bits_per_second() const {
    return 8.0 * static_cast<double>(raw_bytes - gzip_bytes) / (pack_seconds + unpack_seconds);
  }
};

template <class Work>
double best_seconds_of(const Work& work) {
  constexpr int kTries = 5;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const Instant begin = Clock::now();
    work();
    best = std::min(best, seconds(Clock::now() - begin));
  }
  return best;
}

// `rows` are a prompt's, in order of position.
Compression compression_of(const ActivationLayout& layout, std::span<const float> rows) {
  const auto positions = static_cast<std::uint32_t>(rows.size() / layout.cols());
  Compression c{.positions = positions};
  for (std::uint32_t end = positions; end > 0;) {
    const std::uint32_t count = std::min(chunk_rows(layout), end);
    end -= count;
    const Bytes packed = quantize_rows(
        layout, rows.subspan(std::size_t{end} * layout.cols(), std::size_t{count} * layout.cols()));
    wire::Activations chunk;
    c.pack_seconds += best_seconds_of(
        [&] { chunk = compress_activations(1, end, count, packed, wire::Codec::gzip); });
    c.unpack_seconds += best_seconds_of([&] {
      if (auto back = decompress_activations(layout, chunk); !back) throw Failure(back.error());
    });
    c.raw_bytes += packed.size();
    c.gzip_bytes += chunk.data.size();
  }
  return c;
}

// The next event of a kind; passes earlier ones to `see` and drops them.
template <class Event, class See>
Event await_event(TargetLink& link, See see) {
  for (;;) {
    auto event = link.wait_event(Clock::now() + std::chrono::seconds(60));
    if (!event) throw Failure(event.error());
    if (auto* wanted = std::get_if<Event>(&*event)) return std::move(*wanted);
    if (const auto* refused = std::get_if<RequestRefused>(&*event)) throw Failure(refused->error);
    see(*event);
  }
}

// One answer, cycle by cycle, with the link's counters read around each.
class Measurement {
 public:
  Measurement(TargetLink& link, Drafter& drafter, const wire::Welcome& welcome)
      : link_(link),
        drafter_(drafter),
        layout_(welcome.scale_groups),
        run_{.credit = welcome.context_count,
             .rows = layout_.cols() > 0,
             .hold = wire::Hold::lockstep} {}

  Totals run(std::span<const std::uint32_t> prompt, std::uint32_t tokens_max) {
    for (const std::uint32_t token : prompt) ledger_.append(token, Provenance::given);
    drafter_.append(prompt);
    check(link_.send(
        wire::OutgoingPrefill{.text = SafePrefix(ledger_, 0, ledger_.count()), .run = run_}));
    bool rows_complete = layout_.cols() == 0;
    const auto see = [&](const ClientEvent& event) {
      if (const auto* rows = std::get_if<ActivationsReceived>(&event)) {
        drafter_.add_activations(rows->first, rows->rows);
        // Newest first.
        prompt_rows_.insert(prompt_rows_.begin(), rows->rows.begin(), rows->rows.end());
        rows_complete |= rows->complete;
      }
    };
    auto first = await_event<VerdictReceived>(link_, see);
    while (!rows_complete) see(await_event<ActivationsReceived>(link_, see));
    take(first.verdict.next);
    wire::Ending ending = first.verdict.ending;
    for (std::uint32_t tokens = 1; tokens < tokens_max && ending == wire::Ending::none;) {
      const VerdictReceived verdict = cycle();
      tokens += static_cast<std::uint32_t>(verdict.verdict.tokens.size()) + 1;
      ending = verdict.verdict.ending;
    }
    return totals_;
  }

  // Compression of its prompt, after run().
  Compression compression() const {
    return layout_.cols() == 0 ? Compression{} : compression_of(layout_, prompt_rows_);
  }

 private:
  static void check(const Result<void>& result) {
    if (!result) throw Failure(result.error());
  }

  void take(std::uint32_t token) {
    ledger_.append(token, Provenance::verified);
    drafter_.append(std::span(&token, 1));
  }

  VerdictReceived cycle() {
    const DraftTree tree = drafter_.draft(TreeShape{});
    const LinkStats before = link_.stats();
    check(link_.send(
        wire::OutgoingHints{.complete = true, .hints = SafeHints(ledger_, complete_hints(tree))}));
    VerdictReceived verdict = await_event<VerdictReceived>(link_, [](const auto&) {});
    count(before, link_.stats(), tree.node_count(),
          static_cast<std::uint32_t>(verdict.verdict.tokens.size()) + 1);
    drafter_.add_activations(verdict.rows_first, verdict.rows);
    for (const std::uint32_t token : verdict.verdict.tokens) take(token);
    take(verdict.verdict.next);
    return verdict;
  }

  void count(const LinkStats& before, const LinkStats& after, std::uint32_t nodes,
             std::uint32_t tokens) {
    const auto add = [](SummedBytes& bytes, std::uint64_t formula, std::uint64_t frame_max,
                        std::uint64_t payload, std::uint64_t framed, std::uint64_t socket) {
      bytes.formula += formula;
      bytes.allowed_payload += frame_max - kFrameHeaderBytes;
      bytes.payload += payload;
      bytes.framed += framed;
      bytes.socket += socket;
      return payload > frame_max - kFrameHeaderBytes;
    };
    const TrafficStats& a = after.traffic;
    const TrafficStats& b = before.traffic;
    const bool up_over =
        add(totals_.up, draft_formula_bytes(nodes), draft_frame_bytes_max(nodes),
            a.payload_bytes_out - b.payload_bytes_out, a.framed_bytes_out - b.framed_bytes_out,
            after.bytes_up - before.bytes_up);
    const bool down_over =
        add(totals_.down, verdict_formula_bytes(layout_, tokens),
            verdict_frame_bytes_max(layout_, tokens), a.payload_bytes_in - b.payload_bytes_in,
            a.framed_bytes_in - b.framed_bytes_in, after.bytes_down - before.bytes_down);
    ++totals_.cycles;
    totals_.nodes += nodes;
    totals_.tokens += tokens;
    totals_.over += up_over || down_over;
  }

  TargetLink& link_;
  Drafter& drafter_;
  ActivationLayout layout_;
  wire::RunTerms run_;
  TaintLedger ledger_;
  std::vector<float> prompt_rows_;
  Totals totals_;
};

void print(const Totals& t, const Compression& c) {
  std::printf("%u cycles, %u nodes drafted, %u tokens; bytes per cycle:\n", t.cycles, t.nodes,
              t.tokens);
  std::printf("%-6s %10s %10s %10s %10s %10s %14s\n", "", "formula", "allowed", "payload", "framed",
              "socket", "socket/formula");
  const auto row = [&](const char* name, const SummedBytes& b) {
    const auto a_cycle = [&](std::uint64_t total) { return static_cast<double>(total) / t.cycles; };
    std::printf("%-6s %10.1f %10.1f %10.1f %10.1f %10.1f %14.3f\n", name, a_cycle(b.formula),
                a_cycle(b.allowed_payload), a_cycle(b.payload), a_cycle(b.framed),
                a_cycle(b.socket), static_cast<double>(b.socket) / static_cast<double>(b.formula));
  };
  row("up", t.up);
  row("down", t.down);
  std::printf("cycles above the allowed size: %u\n", t.over);
  if (c.positions == 0) return;
  std::printf(
      "the prompt's activations, %u positions: %llu bytes, with gzip %llu (%.1f %%), packed in "
      "%.2f ms and unpacked in %.2f ms: faster on links below %.0f Mbit/s\n",
      c.positions, static_cast<unsigned long long>(c.raw_bytes),
      static_cast<unsigned long long>(c.gzip_bytes),
      100.0 * static_cast<double>(c.gzip_bytes) / static_cast<double>(c.raw_bytes),
      1e3 * c.pack_seconds, 1e3 * c.unpack_seconds, c.break_even_bits_per_second() / 1e6);
}

void print_json(const Totals& t, const Compression& c) {
  const auto direction = [](const SummedBytes& b) {
    return nlohmann::ordered_json{{"formula", b.formula},
                                  {"allowed_payload", b.allowed_payload},
                                  {"payload", b.payload},
                                  {"framed", b.framed},
                                  {"socket", b.socket}};
  };
  const nlohmann::ordered_json json{{"cycles", t.cycles},
                                    {"nodes", t.nodes},
                                    {"tokens", t.tokens},
                                    {"over", t.over},
                                    {"up", direction(t.up)},
                                    {"down", direction(t.down)},
                                    {"prompt_activations",
                                     {{"positions", c.positions},
                                      {"raw_bytes", c.raw_bytes},
                                      {"gzip_bytes", c.gzip_bytes},
                                      {"pack_seconds", c.pack_seconds},
                                      {"unpack_seconds", c.unpack_seconds}}}};
  std::printf("%s\n", json.dump(2).c_str());
}

void declare_protocol(CLI::App& app, ProtocolOptions& o) {
  app.footer(kProtocolHelp);
  app.add_option("--model", o.model, "Target model")->type_name("FILE.gguf");
  app.add_option("--bundle", o.bundle, "Drafter")->type_name("FILE.gguf");
  app.add_option("-p,--prompt", o.prompt, "Prompt to answer")->capture_default_str();
  app.add_option("--max-tokens", o.max_tokens, "Maximum tokens of the answer")
      ->capture_default_str();
  app.add_flag("--json", o.json, "JSON instead of a table");
}

// Measures the bytes of a cycle on a TLS connection over loopback against the formula. Returns the
// exit status: 1 if a payload exceeds the limit.
Result<int> run_protocol(const ProtocolOptions& o) {
  if (o.model.empty() || o.bundle.empty()) {
    return Error{Errc::usage,
                 "give the target with --model FILE.gguf and the drafter with --bundle FILE.gguf"};
  }
  const auto server = testing::LoopbackServer::start({.model = o.model, .bundles = {o.bundle}});
  if (!server) return server.error();
  const auto bundle = BundleFile::open(o.bundle, BundleUse::draft);
  if (!bundle) return bundle.error();
  const auto client_backend = make_cpu_backend({.threads = 0});
  const auto drafter = bundle->make_drafter(*client_backend);
  const auto chat = bundle->chat_template({});
  if (!chat) return chat.error();
  const ChatMessage message{.role = "user", .content = o.prompt};
  const auto prompt = bundle->encode_chat(*chat, std::span(&message, 1));
  if (!prompt) return prompt.error();

  auto link = ClientLink::open((*server)->link_options(*bundle));
  if (!link) return link.error();
  const auto welcomed = await_event<Welcomed>(**link, [](const auto&) {});
  Measurement measurement(**link, *drafter, welcomed.welcome);
  const Totals totals = measurement.run(*prompt, o.max_tokens);
  const Compression compression = measurement.compression();
  (*link)->close();
  if (totals.cycles == 0) {
    return Error{Errc::usage,
                 "-p, --prompt: the answer ended before the first cycle; give another prompt"};
  }
  o.json ? print_json(totals, compression) : print(totals, compression);
  return totals.over == 0 ? 0 : 1;
}

}  // namespace

void add_protocol(Program& program) {
  static ProtocolOptions options;
  program.command("protocol", "Bytes of a cycle compared with the formula", options,
                  declare_protocol, run_protocol);
}

}  // namespace edgedraft::bench
