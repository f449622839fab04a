#include "shared/program/core_dumps.h"

#include <sys/resource.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace edgedraft {

void forbid_core_dumps() {
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  (void)setrlimit(RLIMIT_CORE, &none);
#ifdef __linux__
  // Programs that collect core dumps, such as Ubuntu's and systemd's, ignore the limit.
  (void)prctl(PR_SET_DUMPABLE, 0);
#endif
}

}  // namespace edgedraft
