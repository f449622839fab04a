#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "netsim/link/delivery_trace.h"

// Any text parses to a trace or an error; a trace yields its opportunities in order of time.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  using namespace edgedraft::netsim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto trace = parse_delivery_trace(text, "fuzz");
  if (!trace) return 0;
  TracePlayer player(std::move(*trace));
  Duration now{0};
  for (std::uint32_t i = 1; i < 64; ++i) {
    const Duration sent = player.send(now, 97 * i);
    if (sent < now) std::abort();
    // Some packets are sent at once, others after a pause.
    now = i % 3 == 0 ? sent + std::chrono::milliseconds(i * i) : sent;
  }
  return 0;
}
