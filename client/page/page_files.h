#pragma once

#include <span>
#include <string_view>

namespace edgedraft::client {

// The page of `edgedraft serve`, from this folder, with the libraries that it uses.
struct PageFile {
  std::string_view path;  // "/page/main.js"
  std::string_view type;
  std::string_view content;
};
std::span<const PageFile> page_files();

}  // namespace edgedraft::client
