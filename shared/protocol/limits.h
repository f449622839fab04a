#pragma once

#include <cstdint>

#include "shared/base/clock.h"
#include "shared/base/logprob.h"

namespace edgedraft {

// What either side accepts of the other. Larger is refused before anything is allocated for it.
inline constexpr std::uint16_t kFrameVersion = 1;
inline constexpr std::uint16_t kProtocolVersionMin = 4;
inline constexpr std::uint16_t kProtocolVersion = 4;
inline constexpr std::uint32_t kTokenIdEnd = 1u << 24;  // ids take three bytes on the wire
inline constexpr std::uint32_t kDraftNodesMax = 255;    // a parent takes one
inline constexpr std::uint32_t kContextCountMax = 1u << 20;
inline constexpr std::uint32_t kTextBytesMax = 1024;  // names, reasons, messages
inline constexpr std::uint32_t kBearerTokenBytesMax = 4096;
inline constexpr std::uint32_t kScaleGroupsMax = 4096;
// With kScaleGroupsMax, a verdict of 256 rows stays below kFramePayloadBytesMax.
inline constexpr std::uint32_t kRowValuesMax = 32768;
inline constexpr std::uint32_t kInflateRatioMax = 100;
// Rows of one message of activations: as many as a verdict has.
inline constexpr std::uint32_t kChunkRowsMax = kDraftNodesMax + 1;
// Nodes of one message of hints; a parent is at most kHintDistanceMax ids before its child.
inline constexpr std::uint32_t kHintsMax = 1024;
inline constexpr std::uint32_t kHintDistanceMax = 65535;
// Hints that a server takes of a session: a message counts as so many nodes, and what comes faster
// is dropped.
inline constexpr std::uint32_t kHintMessageCost = 8;
inline constexpr double kHintsPerSecond = 8192.0;
inline constexpr double kHintsBurst = 4096.0;
// Nodes that a server keeps for a session: more than are in flight on the longest of links.
inline constexpr std::uint32_t kHintNodesMax = 1024;

// A padded connection sends a block per tick; 0 stands for no padding.
inline constexpr std::uint32_t kPadTickMsMin = 5;
inline constexpr std::uint32_t kPadTickMsMax = 1000;
inline constexpr std::uint16_t kPadTickMsUsual = 20;
inline constexpr std::uint32_t kPadBlockBytesMin = 256;
inline constexpr std::uint32_t kPadBlockBytesMax = 128u << 10;

// Bytes of a verdict's log probabilities.
inline constexpr std::uint32_t kLogprobsBytesMax =
    (kDraftNodesMax + 1) * kLogprobsMax * (sizeof(std::uint32_t) + sizeof(float));

inline constexpr std::uint32_t kFramePayloadBytesMax = 16u << 20;
// Before sign-in a stranger can make the other side hold this much and no more.
inline constexpr std::uint32_t kHandshakePayloadBytesMax = 16u << 10;
// What a message takes beside its vectors, FlatBuffers' tables included, at most.
inline constexpr std::uint32_t kMessageOverheadBytesMax = 2048;

}  // namespace edgedraft
