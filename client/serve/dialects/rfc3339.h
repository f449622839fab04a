#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace edgedraft::client {

// "2026-11-30T12:00:00Z"
inline std::string rfc3339(std::int64_t unix_seconds) {
  const std::chrono::sys_seconds at{std::chrono::seconds(unix_seconds)};
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(at - day);
  const auto two = [](auto number) {
    const std::string digits = std::to_string(number);
    return digits.size() < 2 ? "0" + digits : digits;
  };
  return std::to_string(static_cast<int>(date.year())) + "-" +
         two(static_cast<unsigned>(date.month())) + "-" + two(static_cast<unsigned>(date.day())) +
         "T" + two(time.hours().count()) + ":" + two(time.minutes().count()) + ":" +
         two(time.seconds().count()) + "Z";
}

}  // namespace edgedraft::client
