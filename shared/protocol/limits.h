#pragma once

#include <cstdint>

#include "shared/base/clock.h"
#include "shared/types/logprob.h"

namespace edgedraft {

// Limits for both sides. Larger values are rejected before any allocation.
inline constexpr std::uint16_t kFrameVersion = 1;
inline constexpr std::uint16_t kProtocolVersionMin = 4;
inline constexpr std::uint16_t kProtocolVersion = 4;
inline constexpr std::uint32_t kTokenIdEnd = 1u << 24;  // ids take three bytes on the wire
inline constexpr std::uint32_t kDraftNodesMax = 255;    // a parent takes one
inline constexpr std::uint32_t kContextCountMax = 1u << 20;
inline constexpr std::uint32_t kTextBytesMax = 1024;   // names, reasons, messages
inline constexpr std::uint32_t kReplicaBytesMax = 63;  // a label of DNS
inline constexpr std::uint32_t kBearerTokenBytesMax = 4096;
inline constexpr std::uint32_t kScaleGroupsMax = 4096;
inline constexpr std::uint32_t kPassTimesMax = 16;
// With kScaleGroupsMax, keeps a verdict of 256 rows below kFramePayloadBytesMax.
inline constexpr std::uint32_t kRowValuesMax = 32768;
inline constexpr std::uint32_t kInflateRatioMax = 100;
// Rows per message of activations: as many as a verdict has.
inline constexpr std::uint32_t kChunkRowsMax = kDraftNodesMax + 1;
// Nodes per message of hints; a parent's id is at most kHintDistanceMax smaller than its child's.
inline constexpr std::uint32_t kHintsMax = 1024;
inline constexpr std::uint32_t kHintDistanceMax = 65535;
// Rate limit for hints of a session. A message counts as kHintMessageCost nodes; hints above the
// rate are dropped.
inline constexpr std::uint32_t kHintMessageCost = 8;
inline constexpr double kHintsPerSecond = 8192.0;
inline constexpr double kHintsBurst = 4096.0;
// Nodes that a server keeps per session: more than the longest links have in flight.
inline constexpr std::uint32_t kHintNodesMax = 1024;

// A padded connection sends one block per tick; 0: no padding.
inline constexpr std::uint32_t kPadTickMsMin = 5;
inline constexpr std::uint32_t kPadTickMsMax = 1000;
inline constexpr std::uint16_t kPadTickMsUsual = 20;
inline constexpr std::uint32_t kPadBlockBytesMin = 256;
inline constexpr std::uint32_t kPadBlockBytesMax = 128u << 10;

// Signature of a receipt: an RSA key of 8192 bits makes the longest.
inline constexpr std::uint32_t kReceiptBytesMax = 1024;

// Bytes of log probabilities in a verdict.
inline constexpr std::uint32_t kLogprobsBytesMax =
    (kDraftNodesMax + 1) * kLogprobsMax * (sizeof(std::uint32_t) + sizeof(float));

inline constexpr std::uint32_t kFramePayloadBytesMax = 16u << 20;
// Limits what an unauthenticated peer can make the other side hold.
inline constexpr std::uint32_t kHandshakePayloadBytesMax = 16u << 10;
// Upper bound for a message without its vectors, FlatBuffers' tables included.
inline constexpr std::uint32_t kMessageOverheadBytesMax = 2048;

}  // namespace edgedraft
