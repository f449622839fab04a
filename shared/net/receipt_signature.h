#pragma once

#include <string>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/net/tls.h"

// Signatures of receipts (shared/protocol/receipt.h) by a server's TLS key.
namespace edgedraft {

// Signs with the key of this side's certificate; empty if the key cannot sign.
Bytes sign_receipt(NativeTls* tls, ByteView statement);

// DER of the certificate that the server proved to hold in the handshake; empty if there is none.
Bytes server_certificate(NativeTls* tls);

// Returns the pin of the certificate's key if that key signed the statement.
// Errors    bad_file   the certificate cannot be read
//           untrusted  the signature is not of this statement by that key
Result<std::string> check_receipt(ByteView certificate, ByteView statement, ByteView signature);

}  // namespace edgedraft
