#include <cstdint>

#include "shared/protocol/client_protocol.h"
#include "shared/protocol/server_protocol.h"

// Feeds any bytes to both halves of the protocol. The first byte selects how they are split and
// whether the client has signed in to the server.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  if (size == 0) return 0;
  const ByteView stream = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t piece_bytes = (data[0] & 0x7F) + 1;
  ClientProtocol client({}, Instant());
  ServerProtocol server({}, Instant());
  if (data[0] & 0x80) {
    (void)server.receive(Instant(), wire::encode(wire::Hello()));
    server.accept({.context_count = 64, .nodes_max = 8, .scale_groups = {4}});
  }
  bool client_hears = true;
  bool server_hears = true;
  for (std::size_t at = 0; at < stream.size(); at += piece_bytes) {
    const ByteView piece = stream.subspan(at, std::min(piece_bytes, stream.size() - at));
    client_hears = client_hears && client.receive(Instant(), piece).has_value();
    server_hears = server_hears && server.receive(Instant(), piece).has_value();
  }
  return 0;
}
