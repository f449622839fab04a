#include "client/privacy/private_span.h"

namespace edgedraft {

std::string_view label_of(PrivateType type) {
  switch (type) {
    case PrivateType::text:
      return "TEXT";
    case PrivateType::name:
      return "NAME";
    case PrivateType::mail:
      return "MAIL";
    case PrivateType::phone:
      return "TELE";
    case PrivateType::card:
      return "CARD";
    case PrivateType::iban:
      return "IBAN";
    case PrivateType::address:
      return "ADDR";
    case PrivateType::key:
      return "CODE";
  }
  return "TEXT";
}

std::string_view to_string(PrivateType type) {
  switch (type) {
    case PrivateType::text:
      return "text";
    case PrivateType::name:
      return "name";
    case PrivateType::mail:
      return "mail";
    case PrivateType::phone:
      return "phone";
    case PrivateType::card:
      return "card";
    case PrivateType::iban:
      return "iban";
    case PrivateType::address:
      return "address";
    case PrivateType::key:
      return "key";
  }
  return "text";
}

bool is_grouped(PrivateType type) {
  return type == PrivateType::phone || type == PrivateType::card || type == PrivateType::iban ||
         type == PrivateType::key;
}

}  // namespace edgedraft
