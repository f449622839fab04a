#include "shared/net/pem_file.h"

#include <cstdint>
#include <system_error>

#include "shared/base/text_file.h"

namespace edgedraft {
namespace {

// System CA bundles have some hundred kilobytes.
constexpr std::uint64_t kPemBytesMax = 64u << 20;

}  // namespace

Result<void> check_pem_file(const std::filesystem::path& file) {
  std::error_code unknown;  // reading the file reports the error
  const auto status = std::filesystem::status(file, unknown);
  if (std::filesystem::is_other(status)) {
    return Error{Errc::usage,
                 file.string() +
                     ": not a regular file; save certificates and keys in regular files, because "
                     "they are read more than once"};
  }
  const auto text = read_text_file(file, kPemBytesMax);
  if (!text) return text.error();
  return {};
}

int give_no_passphrase(char*, int, int, void* wanted) {
  *static_cast<bool*>(wanted) = true;
  return -1;
}

Error encrypted_key(const std::filesystem::path& file) {
  return {Errc::bad_file,
          file.string() +
              ": the key is encrypted, and a passphrase cannot be entered: decrypt it "
              "with `openssl pkey -in FILE -out FILE`"};
}

}  // namespace edgedraft
