# Writes the current commit into a header, so that results record it. Runs at every build; the
# header changes only with the commit or the state of the tree.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=40 --exclude *
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT
"#pragma once

namespace edgedraft::netsim {
inline constexpr const char* kCommit = \"${commit}\";
}
")
