#include "client/privacy/private_span.h"

#include <cstddef>
#include <utility>

namespace edgedraft::client {
namespace {

// By PrivateType: names in options and in placeholders.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"text", "TEXT"}, {"name", "NAME"}, {"mail", "MAIL"},    {"phone", "TELE"},
    {"card", "CARD"}, {"iban", "IBAN"}, {"address", "ADDR"}, {"key", "CODE"}};

}  // namespace

std::string_view label_of(PrivateType type) {
  return kNames[static_cast<std::size_t>(type)].second;
}

std::string_view to_string(PrivateType type) {
  return kNames[static_cast<std::size_t>(type)].first;
}

bool is_grouped(PrivateType type) {
  return type == PrivateType::phone || type == PrivateType::card || type == PrivateType::iban ||
         type == PrivateType::key;
}

}  // namespace edgedraft::client
